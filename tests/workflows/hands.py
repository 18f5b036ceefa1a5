"""Tools with a visible effect, and the two ways a decision comes in."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from pydantic import Field
from temporalio.client import Client, WorkflowUpdateFailedError

from activities.scripted_model import Script
from activities.tools import FunctionTool, tool
from protocol.agents import Chat
from protocol.messages import Reply
from tests.kit import House, Run, eventually, house

ENTRIES = ("update", "signal")
both_entries = pytest.mark.parametrize("entry", ENTRIES)


class Effects:
    """What tools did to the world, in order."""

    def __init__(self) -> None:
        self.done: list[tuple[str, Any]] = []

    def __call__(self, name: str, what: Any = None) -> str:
        self.done.append((name, what))
        return f"{name} done" if what is None else f"{name} {what} done"

    def count(self, name: str, what: Any = None) -> int:
        return len([each for each in self.done if each[0] == name and (what is None or each[1] == what)])

    def tools(self) -> dict[str, FunctionTool]:
        """One of each: gated ``pay``, ``send``, ``wipe``; free ``note``, ``lookup``, ``boom``."""
        effects = self

        @tool(approval=True)
        def pay(amount: Annotated[float, Field(gt=0)], to: str = "A") -> str:
            return effects("pay", amount)

        @tool(approval=True)
        def send(to: str) -> str:
            return effects("send", to)

        @tool(approval=True)
        def wipe() -> str:
            return effects("wipe")

        @tool
        def note(text: str = "") -> str:
            return effects("note", text)

        @tool
        def lookup() -> float:
            effects("lookup")
            return 7.1

        @tool
        def boom() -> str:
            effects("boom")
            raise RuntimeError("db down")

        return {each.spec.name: each for each in (pay, send, wipe, note, lookup, boom)}


@asynccontextmanager
async def bank(
    client: Client, script: Script | Sequence[Reply], *more: FunctionTool, **options: Any
) -> AsyncIterator[tuple[House, Chat, Effects]]:
    """A worker with the tools of `Effects` and *more*, and the agent ``bank`` that has them all.

    At the end the history of every run is replayed, unless the test has a workflow of its own.
    """
    effects = Effects()
    tools = [*effects.tools().values(), *more]
    async with house(client, tools, script, **options) as h:
        yield h, Chat(name="bank", tools=h.specs), effects
        if "workflows" not in options:
            for run in h.runs:
                await run.replay()


async def send(run: Run, entry: str, targets: Mapping[str, Any], **envelope: Any) -> Any:
    """Send decisions as update or as signal; an update's reply, or nothing."""
    request = {"targets": {id: dict(decision) for id, decision in targets.items()}, **envelope}
    if entry == "update":
        return await run.update("resume", request)
    return await run.signal("resume", request)


async def refused(run: Run, entry: str, name: str, *args: Any) -> str:
    """Send what has to be refused under *name*; the reason. Nothing else may have changed."""
    before = [listed.id for listed in await run.pending()]
    if entry == "update":
        with pytest.raises(WorkflowUpdateFailedError) as failure:
            await run.update(name, *args)
        assert [listed.id for listed in await run.pending()] == before
        return str(failure.value.cause)
    tried = (await run.audit()).refused_in_all
    await run.signal(name, *args)

    async def on_record() -> str | None:
        audit = await run.audit()
        return "; ".join(r.reason for r in audit.refused[-3:]) if audit.refused_in_all > tried else None

    reason = await eventually(on_record, "a refused attempt on record")
    assert [listed.id for listed in await run.pending()] == before
    return reason


def ids(listed: Sequence[Any]) -> list[str]:
    return [each.id for each in listed]


def told(house: House, request: int = -1, agent: str = "bank") -> dict[str, str]:
    """The tool messages of a request to the model, by wire id, in order; each id once."""
    messages = house.model.requests(agent)[request]
    found = [(m.tool_call_id, m.content) for m in messages if m.role == "tool"]
    assert len(dict(found)) == len(found)
    return dict(found)
