"""The demo: a scenario from its opening line to its end, decided by a person or by the scenario's own answers."""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli import happenings, views
from cli.deciding import decide_at_prompt
from cli.happenings import Reader
from cli.screen import command, line, out, say, visible
from client import Client, configured
from devserver import DevServerError, dev_server
from protocol.errors import DecisionRefused, SignoffError, Unreachable
from protocol.run import RunResult
from protocol.views import Listed
from scenarios import Scenario, Variant

AUTO = "demo"
"""Who decides in an unattended run."""


@dataclass
class Played:
    """A variant that was run to its end, or why it was not."""

    scenario: str
    variant: str
    run: str
    decisions: list[dict[str, Any]] = field(default_factory=list)
    result: RunResult | None = None
    problem: str = ""

    @property
    def ended_well(self) -> bool:
        return self.result is not None and self.result.status != "failed" and not self.problem


@dataclass(frozen=True)
class Stage:
    """Where a demo is played: a client whose task queue is served."""

    client: Client
    ui: str | None = None
    embedded: bool = False


@contextlib.asynccontextmanager
async def stage(
    client: Client | None,
    *,
    task_queue: str | None = None,
    port: int | None = None,
    ui_port: int | None = None,
    database: Path | None = None,
) -> AsyncIterator[Stage]:
    """The server of *client* with whoever serves it, or an embedded server; a worker of our own in any case."""
    from worker import serving

    # What a tool of a scenario does wrong is told to the model and shown in the run; here it would only be noise.
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(message)s")
    async with contextlib.AsyncExitStack() as stack:
        ui = None
        if client is None:
            try:
                server = await stack.enter_async_context(
                    dev_server(port=port, ui=True, ui_port=ui_port, database=database)
                )
            except DevServerError as error:
                raise Unreachable(str(error)) from None
            ui = server.ui_url
            served = await Client.connect(server.address, task_queue=task_queue)
        else:
            served = client
        await stack.enter_async_context(serving(served))
        yield Stage(served, ui, embedded=client is None)


def embedded_wanted(profile: str | None, address: str | None) -> bool:
    """Whether a demo brings its own server: nobody named one."""
    return not address and not configured(profile)


async def play(
    stage: Stage, scenario: Scenario, variant: Variant, *, provider: str, auto: bool, quiet: bool, by: str
) -> Played:
    """Run one variant to its end, decided by its own answers (*auto*) or by a person; *quiet* prints nothing."""
    request = scenario.request(provider=provider, variant=variant.name)
    client = stage.client
    started = await client.start(request, id=f"{scenario.name}-{uuid.uuid4().hex[:6]}")
    played = Played(scenario.name, variant.name, started.id)
    if not quiet:
        say((line(scenario.title), "bold"))
        say((f"{scenario.name} · {variant.name}: {variant.shows}" if auto else scenario.name, "dim"))
        say(("run ", "dim"), (started.id, "dim"))
        if stage.ui:
            say((f"{stage.ui}/namespaces/{client.temporal.namespace}/workflows/{started.id}", "dim blue"))
        say("")
    reader, seen = Reader(), 0
    ending = asyncio.create_task(client.result(started.id))
    try:
        while True:
            seen = await _show_news(client, started.id, reader, seen, quiet)
            if ending.done():
                break
            listed = await _first_open(client, started.id, ending)
            if listed is None:
                continue
            seen = await _show_news(client, started.id, reader, seen, quiet)
            if not await _decide(client, listed, variant, played, auto=auto, quiet=quiet, by=by):
                await _leave(stage, started.id)
                return played
        played.result = await ending
    finally:
        ending.cancel()
        with contextlib.suppress(asyncio.CancelledError, SignoffError):
            await ending
    if not quiet:
        say("")
        out.print(views.result(played.result))
    if auto and (missing := _missing(variant, played.result, provider)):
        played.problem = missing
    return played


async def _show_news(client: Client, id: str, reader: Reader, seen: int, quiet: bool) -> int:
    """Print what has happened since the last look; how many events that makes in all."""
    if quiet:
        return seen
    count = 0
    async for event in client.history(id):
        count += 1
        if count <= seen:
            continue
        for happening in reader.read(event):
            if happening.kind != "ended":
                happenings.tell(happening, brief=True)
    return count


async def _first_open(client: Client, id: str, ending: "asyncio.Task[RunResult]") -> Listed | None:
    """The first question that waits, as soon as there is one; nothing if the run ends."""
    pause = 0.05
    with _working():
        while not ending.done():
            page = await client.pending(id)
            if page.interrupts:
                return page.interrupts[0]
            await asyncio.wait([ending], timeout=pause)
            pause = min(pause * 1.3, 0.5)
    return None


@contextlib.contextmanager
def _working() -> Any:
    if not out.is_terminal:
        yield
        return
    with out.status("working …", spinner="dots"):
        yield


async def _decide(
    client: Client, listed: Listed, variant: Variant, played: Played, *, auto: bool, quiet: bool, by: str
) -> bool:
    """Have one question decided; False if the person would rather leave."""
    if auto:
        if not quiet:
            out.print(views.question(listed))
        decision: dict[str, Any] | None = variant.decide(listed, len(played.decisions))
    else:
        decision = await decide_at_prompt(listed)
    if decision is None:
        return False
    try:
        await client.decide(
            listed.workflow_id, listed.id, decision, by=by, run=listed.run, digest=listed.digest
        )
    except DecisionRefused as refused:
        if auto:
            raise
        say(("not taken: ", "red"), visible(str(refused)))
        return True
    played.decisions.append({"interrupt": listed.id, **decision})
    return True


async def _leave(stage: Stage, id: str) -> None:
    if stage.embedded:
        await stage.client.cancel(id, reason="the demo was left")
        say(("left: the embedded server stops, and the run with it", "dim"))
    else:
        say(("left: the run waits. Decide it with ", "dim"), (command("show", id), "dim"))


def _missing(variant: Variant, result: RunResult, provider: str) -> str:
    """What an unattended run should have come to, and did not."""
    if result.status != variant.status:
        return f"it ended {result.status}, not {variant.status}: {line(result.answer, most=200)}"
    if provider == "scripted" and (unsaid := [text for text in variant.says if text not in result.answer]):
        return f"the answer does not say '{unsaid[0]}'"
    return ""
