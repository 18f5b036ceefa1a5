"""Everything that grows is bounded, and a run that can no longer turn its page ends before the server ends it."""

from datetime import UTC, datetime

import pytest
from temporalio.client import Client

from activities.model import Prompt
from activities.tools import tool
from protocol import strict_json, texts
from protocol.agents import Chat
from protocol.board import Audit, AuditEntry, Note, Refused
from protocol.messages import Assistant, Message, Reply, Tool, User
from protocol.run import RunResult
from tests.kit import calls, house, says
from tests.play import assert_valid
from workflows import luggage

NOW = datetime(2026, 1, 1, tzinfo=UTC)
each_character = pytest.mark.parametrize(
    "character", ["a", "预", "😀", "\x01"], ids=["a", "wide", "emoji", "control"]
)


def full_audit(character: str) -> Audit:
    """An audit that was given much more than it keeps."""
    audit = Audit()
    for n in range(600):
        text = character * 2_048
        entry = AuditEntry(
            id=f"bank>pay:p{n}",
            kind="review",
            owner="bank",
            digest="0" * 16,
            proposed=text,
            effective=text,
            outcome="edited",
            reason=text,
            created=NOW,
            decided=NOW,
        )
        audit.close(entry)
        audit.note(Note(at=NOW, about=f"bank>pay:p{n}", text=text))
    for _ in range(200):
        audit.refuse(Refused(at=NOW, target="bank>pay:x", reason=character * 2_048, by=character * 300))
    return audit


@each_character
def test_an_audit_counts_what_it_does_not_keep(character: str) -> None:
    audit = full_audit(character)
    assert len(audit.model_dump_json().encode()) < 800_000
    assert len(audit.closed) + sum(audit.older_closed.values()) == 600
    assert audit.closed[-1].id == "bank>pay:p599"
    assert (len(audit.refused), audit.refused_in_all, len(audit.notes)) == (100, 200, 100)


@each_character
def test_a_result_is_smaller_than_a_megabyte_whatever_was_said(character: str) -> None:
    transcript: list[Message] = [
        User(content="go"),
        *(Assistant(content=character * 10_000) for _ in range(200)),
    ]
    result = luggage.fitting(
        RunResult(
            status="completed",
            answer=character * 400_000,
            transcript=tuple(transcript),
            audit=full_audit(character),
        )
    )
    assert len(result.model_dump_json().encode()) < 1_000_000
    assert result.left_out + len(result.transcript) == 201
    assert result.transcript == tuple(transcript[result.left_out :])
    assert "characters hidden" in result.answer
    assert result.answer.startswith(character * 20_000)
    assert strict_json.read(result.model_dump_json())["status"] == "completed"


async def test_a_run_that_outgrows_history_ends_as_stopped_with_what_it_has(client: Client) -> None:
    """It cannot turn its page, since the arguments of its calls are too much to carry, and goes on to the last."""

    @tool
    def store(text: str) -> str:
        return "ok"

    @tool(approval=True)
    def pay() -> str:
        return "paid"

    def script(prompt: Prompt) -> Reply:
        if prompt.agent == "bank":
            return calls(("pay", "p1", {}), ("keeper", "k1", {"request": "keep"}))
        n = sum(message.role == "assistant" for message in prompt.messages)
        return calls(("store", f"s{n}", {"text": "y" * 900_000})) if n < 100 else says("stored")

    async with house(client, [store, pay], script) as h:
        keeper = Chat(name="keeper", tools=(store.spec,), max_turns=200)
        run = await h.start(Chat(name="bank", tools=(pay.spec,), agents=(keeper,)))
        result = await run.result()
        assert result.status == "stopped"
        assert "history" in result.answer
        assert [(entry.id, entry.outcome) for entry in result.audit.closed] == [("bank>pay:p1", "cancelled")]
        assert "too large" in result.audit.notes[0].text
        assert len(result.audit.notes) < 10
        assert_valid(result.transcript)
        said = {
            message.tool_call_id: message.content
            for message in result.transcript
            if isinstance(message, Tool)
        }
        assert said == {"p1": texts.stopped_below("pay"), "k1": texts.stopped_below("keeper")}
        assert await run.events("WORKFLOW_TASK_FAILED") == 0
        assert (await run.pending()) == []
