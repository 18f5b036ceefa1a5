"""Records what the tests compare with: python -m tests.record

- tests/snapshots: every request to a model, of every variant of every scenario.
- tests/histories: a history of every pattern, waiting for its first decision and finished.

Until version 1.0 both may be recorded anew, with a line in the CHANGELOG; from then on only snapshots may.
"""

import asyncio
import os
import sys
from pathlib import Path

from temporalio.client import Client

from converter import DATA_CONVERTER
from devserver import dev_server
from scenarios import SCENARIOS
from tests.kit import Run
from tests.play import Stage, play, snapshot, snapshot_file

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


async def keep(run: Run, name: str) -> None:
    """Keep the whole history, and its beginning up to where the run waits for its first decision."""
    history = await run.history()
    (HISTORIES / f"{name}.finished.json").write_text(history.to_json())
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
    (HISTORIES / f"{name}.paused.json").write_text(paused.to_json())


if __name__ == "__main__":
    asyncio.run(record())
    sys.stdout.flush()
    os._exit(0)
