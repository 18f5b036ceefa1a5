"""Records what the tests compare with: python -m tests.record

- tests/snapshots: every request to a model, of every variant of every scenario.
- tests/histories: histories of every pattern: waiting for its first decision, finished, and the last page of a run
  that turned its page at every chance.

Snapshots are written anew. A history is recorded once and stays as it is: somebody's run may be waiting in it.
"""

import asyncio
import os
import sys
from pathlib import Path

from temporalio.client import Client, WorkflowHistory

from converter import DATA_CONVERTER
from devserver import dev_server
from scenarios import SCENARIOS
from tests.kit import Run
from tests.play import Stage, TurnsAtEveryChance, play, snapshot, snapshot_file

HISTORIES = Path(__file__).parent / "histories"


async def record() -> None:
    async with dev_server() as server:
        client = await Client.connect(server.address, data_converter=DATA_CONVERTER)
        async with Stage(client).served() as stage:
            for scenario in SCENARIOS.values():
                for variant in scenario.variants.values():
                    played = await play(stage, scenario, variant)
                    snapshot_file(scenario, variant).write_text(snapshot(played.prompts))
                    if variant is scenario.variant():
                        await keep(played.run, scenario.name)
        async with Stage(client, workflows=(TurnsAtEveryChance,)).served() as stage:
            for scenario in SCENARIOS.values():
                played = await play(stage, scenario, scenario.variant())
                keep_first(f"{scenario.name}.page", await played.run.history())


async def keep(run: Run, name: str) -> None:
    """Keep the whole history, and its beginning up to where the run waits for its first decision."""
    history = await run.history()
    keep_first(f"{name}.finished", history)
    events = list(history.events)
    decided = next(
        n for n, e in enumerate(events) if e.HasField("workflow_execution_update_accepted_event_attributes")
    )
    # The task that took the update was scheduled, started and completed just before it.
    waiting = max(
        n
        for n, e in enumerate(events[:decided])
        if e.HasField("upsert_workflow_search_attributes_event_attributes")
    )
    paused = type(history)(history.workflow_id, events[: waiting + 1])
    keep_first(f"{name}.paused", paused)


def keep_first(name: str, history: WorkflowHistory) -> None:
    file = HISTORIES / f"{name}.json"
    if not file.exists():
        file.write_text(history.to_json())


if __name__ == "__main__":
    asyncio.run(record())
    sys.stdout.flush()
    os._exit(0)
