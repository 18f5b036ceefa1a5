"""The measures: each takes a stage and gives raw samples, from which the figures are computed."""

import asyncio
import time
from statistics import median
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHandle

from benchmarks.stage import MINIMAL, OURS, WAITS_AT, Stage, at, seen, size

RESUMED_AT = WAITS_AT[OURS] + 8
"""Events of a run of ours whose tool is done: signal, workflow task, search attributes, tool."""

Samples = dict[str, list[Any]]


async def pairs(stage: Stage, count: int) -> Samples:
    """One run of ours and one by hand, in turn, *count* times, the first of each pair changing."""
    samples: Samples = {"ours": [], "minimal": []}
    for n in range(count + 5):
        for which in (OURS, MINIMAL) if n % 2 else (MINIMAL, OURS):
            handle = await stage.start(which)
            await stage.until_waiting(handle)
            sent = time.perf_counter()
            await stage.decide(handle)
            await handle.result()
            finished = time.perf_counter() - sent
            if n >= 5:  # the first ones warm everything up
                of = await seen(handle)
                samples[which].append(
                    {
                        "events": of.events,
                        "bytes": of.bytes,
                        "start": of.waiting - of.started,
                        "resume": finished,
                    }
                )
    return samples


async def crowds(stage: Stage, rounds: int, at_once: int = 50) -> Samples:
    """*at_once* runs started together, then decided together: CPU per run, and runs per second of both phases."""
    samples: Samples = {"ours": [], "minimal": []}
    for n in range(rounds + 1):
        for which in (OURS, MINIMAL) if n % 2 else (MINIMAL, OURS):
            before = stage.cpu(which)
            handles = await asyncio.gather(*(stage.start(which) for _ in range(at_once)))
            await _all_idle(stage, which)
            await asyncio.gather(*(stage.until_waiting(handle) for handle in handles))
            await asyncio.gather(*(stage.decide(handle) for handle in handles))
            await asyncio.gather(*(handle.result() for handle in handles))
            cpu = stage.cpu(which) - before
            histories = await asyncio.gather(*(seen(handle) for handle in handles))
            first = max(h.waiting for h in histories) - min(h.started for h in histories)
            second = max(h.closed for h in histories) - min(h.decided for h in histories)
            if n:
                samples[which].append({"cpu": cpu / at_once, "runs_per_second": at_once / (first + second)})
    return samples


async def _all_idle(stage: Stage, which: str) -> None:
    """Wait until server and workers have nothing to do: nobody asks the runs."""
    quiet = 0
    while quiet < 4:
        before = stage.cpu(which)
        await asyncio.sleep(0.15)
        quiet = quiet + 1 if stage.cpu(which) - before < 0.03 else 0


async def growth(stage: Stage, turns: list[int]) -> Samples:
    """Bytes of history and seconds of a conversation with 1 KB of arguments and of results in every turn."""
    rows: list[Any] = []
    for count in turns:
        began = time.perf_counter()
        handle = await stage.start(OURS, f"read {count}", "read")
        await stage.client.get_workflow_handle(handle.id).result()
        seconds = time.perf_counter() - began
        total, per_turn = await _turns(stage, handle)
        rows.append({"turns": count, "bytes": total, "seconds": seconds, "per_turn": per_turn})
    return {"growth": rows}


async def _turns(stage: Stage, handle: WorkflowHandle[Any, Any]) -> tuple[int, list[Any]]:
    """Bytes of all pages of a run, and bytes and seconds of each of its turns (from model call to model call)."""
    pages = [e async for e in stage.client.list_workflows(f"WorkflowId = '{handle.id}'")]
    while not pages:  # visibility is a little late
        await asyncio.sleep(0.1)
        pages = [e async for e in stage.client.list_workflows(f"WorkflowId = '{handle.id}'")]
    total, began, per_turn = 0, 0.0, list[Any]()
    for page in sorted(pages, key=lambda e: e.start_time):
        history = await stage.client.get_workflow_handle(page.id, run_id=page.run_id).fetch_history()
        since = 0
        for event in history.events:
            since += size(event)
            total += size(event)
            named = event.activity_task_scheduled_event_attributes.activity_type.name
            if named == "signoff.complete":
                per_turn.append({"bytes": since, "seconds": at(event) - began})
                since, began = 0, at(event)
    return total, per_turn[1:]


async def among(stage: Stage, rounds: int) -> Samples:
    """From the decision's arrival to the end of its tool, with one question open and with forty."""
    samples: Samples = {"1": [], "40": []}
    for n in range(rounds + 2):
        for crowd in ("1", "40") if n % 2 else ("40", "1"):
            handle = await stage.start(OURS, f"pay {crowd}")
            await stage.until_waiting(handle)
            await stage.decide(handle)
            await stage.until(handle, RESUMED_AT)
            await handle.cancel()
            await handle.result()
            if n >= 2:
                samples[crowd].append(await _taken(handle))
    return samples


async def _taken(handle: WorkflowHandle[Any, Any]) -> float:
    events = list((await handle.fetch_history()).events)
    decided = next(
        n for n, e in enumerate(events) if e.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
    )
    done = next(e for e in events[decided:] if e.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED)
    return at(done) - at(events[decided])


async def recovery(stage: Stage, rounds: int) -> Samples:
    """From a worker's kill -9 in the middle of an idempotent tool (2 s heartbeat) to the end of the run elsewhere."""
    samples: Samples = {"recovery": []}
    for n in range(rounds):
        queue = f"recovery-{n}-{time.time_ns()}"
        first = await stage.add_worker(OURS, queue)
        (stage.folder / "hold").touch()
        (stage.folder / "holding").unlink(missing_ok=True)
        handle = await stage.start(OURS, "hold", "hold")
        await stage.until_waiting(handle)
        await stage.decide(handle, "hold:call_0")
        while not (stage.folder / "holding").exists():  # noqa: ASYNC110  # a file of another process
            await asyncio.sleep(0.02)
        second = await stage.add_worker(OURS, queue)
        (stage.folder / "hold").unlink()
        killed = time.perf_counter()
        first.kill()
        await first.wait()
        await handle.result()
        samples["recovery"].append(time.perf_counter() - killed)
        second.terminate()
        await second.wait()
    return samples


def ratio(samples: Samples, key: str) -> tuple[float, list[float]]:
    """The median of the pair ratios, ours to minimal, and the ratios."""
    ratios = [a[key] / b[key] for a, b in zip(samples["ours"], samples["minimal"], strict=True)]
    return median(ratios), ratios
