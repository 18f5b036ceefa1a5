"""The rules of the board, one by one."""

from datetime import UTC, datetime

import pytest

from protocol.board import KEEP_CLOSED, KEEP_HANDLED, Board
from protocol.errors import BadInput, UnfitDecision
from protocol.interrupts import Approval, Interrupt, ResumeRequest, digest_of, parse, parse_decision

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def board(*ids: str) -> Board:
    made = Board(run="run")
    for id in ids:
        question = Approval(tool="pay", arguments={}, when="gate")
        made.ask(Interrupt(id=id, owner="bank", question=question, digest=digest_of(question), created=NOW))
    return made


def test_the_likest_id_is_suggested_first() -> None:
    made = board("bank>send:x1", "bank>pay:call_1", "bank>pay:call_2")
    request = parse_decision("bank>pay:call_11", {"decision": "approve"})
    [problem] = made.check(request, NOW).values()
    assert str(problem).partition("waiting: ")[2].startswith("bank>pay:call_1")


def test_a_check_names_every_target_that_would_be_refused() -> None:
    made = board("bank>pay:1")
    targets = {id: {"decision": "approve"} for id in ("bank>pay:1", "bank>pay:2", "bank>pay:3")}
    refused = made.check(parse(ResumeRequest, {"targets": targets}), NOW)
    assert list(refused) == ["bank>pay:2", "bank>pay:3"]


def test_the_oldest_request_ids_are_forgotten_first() -> None:
    made = board(*(f"bank>pay:{n}" for n in range(KEEP_HANDLED + 5)))
    for n in range(KEEP_HANDLED + 5):
        made.settle(parse_decision(f"bank>pay:{n}", {"decision": "approve", "request_id": f"r{n}"}), NOW)
    assert len(made.handled) <= KEEP_HANDLED
    assert "r0" not in made.handled
    assert f"r{KEEP_HANDLED + 4}" in made.handled


def test_a_refused_request_does_not_use_up_its_id() -> None:
    made = board("bank>pay:1")
    made.settle(parse_decision("bank>pay:2", {"decision": "approve", "request_id": "r"}), NOW)
    reply = made.settle(parse_decision("bank>pay:1", {"decision": "approve", "request_id": "r"}), NOW)
    assert reply.results["bank>pay:1"].status == "taken"
    with pytest.raises(UnfitDecision):
        made.settle(parse_decision("bank>pay:1", {"decision": "reject", "request_id": "r"}), NOW)


def test_the_audit_is_bounded_and_the_rest_is_counted() -> None:
    made = board(*(f"bank>pay:{n}" for n in range(KEEP_CLOSED + 50)))
    for n in range(KEEP_CLOSED + 50):
        made.settle(parse_decision(f"bank>pay:{n}", {"decision": "approve"}), NOW)
    assert len(made.audit.closed) == KEEP_CLOSED
    assert made.audit.older_closed == {"approved": 50}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({}, "decision"),
        ({"decision": "approve", "surprise": 1}, "surprise"),
        ({"decision": "edit", "arguments": "{}"}, "send the object itself"),
        ({"decision": "answer"}, "either"),
        ({"decision": "reject", "reason": 5}, "reason"),
        ([], "a list"),
        ("approve", "a text"),
        (None, "nothing"),
        (True, "true or false"),
    ],
)
def test_what_is_no_decision_is_refused_in_words(value: object, says: str) -> None:
    with pytest.raises(BadInput, match=says) as refusal:
        parse_decision("bank>pay:1", value)
    assert "\n" not in str(refusal.value)


def test_null_counts_as_absent() -> None:
    """Java and Go clients send every field."""
    sent = {
        "decision": "approve",
        "comment": None,
        "reason": None,
        "arguments": None,
        "by": None,
        "run": None,
    }
    assert parse_decision("bank>pay:1", sent) == parse_decision("bank>pay:1", {"decision": "approve"})


def test_nulls_inside_arguments_are_values() -> None:
    request = parse_decision("bank>pay:1", {"decision": "edit", "arguments": {"a": None}})
    assert request.targets is not None
    decision = request.targets["bank>pay:1"]
    assert decision.decision == "edit"
    assert decision.arguments == {"a": None}
