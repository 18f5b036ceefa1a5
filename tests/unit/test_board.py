"""The rules of the board, one by one."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from protocol.board import (
    CLIP_TEXT,
    KEEP_CLOSED,
    KEEP_CLOSED_BYTES,
    KEEP_HANDLED,
    KEEP_HANDLED_BYTES,
    KEEP_REFUSED,
    Board,
)
from protocol.errors import AlreadyDecided, BadInput, DecisionRefused, UnfitDecision, UnknownInterrupt
from protocol.interrupts import (
    MAX_TARGETS,
    AnyQuestion,
    Approval,
    Edit,
    FollowUp,
    Interrupt,
    ResumeReply,
    ResumeRequest,
    Review,
    WithdrawRequest,
    digest_of,
    parse,
    parse_decision,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GATE = Approval(tool="pay", arguments={}, when="gate")
REVIEW = Review(tool="pay", arguments={"a": 1}, parameters={"type": "object"}, when="gate")
ONE = "bank>pay:1"


def board(*ids: str, question: AnyQuestion = GATE, expires: datetime | None = None) -> Board:
    made = Board(run="run")
    for id in ids:
        made.ask(
            Interrupt(
                id=id,
                owner="bank",
                question=question,
                digest=digest_of(question),
                created=NOW,
                expires=expires,
            )
        )
    return made


def decide(made: Board, id: str, at: datetime = NOW, /, **decision: Any) -> ResumeReply:
    return made.settle(parse_decision(id, decision), at)


def refusal(made: Board, id: str, at: datetime = NOW, /, **decision: Any) -> DecisionRefused:
    """Why a decision would be refused; it must be, and must leave the question as it was."""
    before = made.model_copy(deep=True)
    [problem] = made.check(parse_decision(id, decision), at).values()
    assert decide(made, id, at, **decision).results[id].status == "refused"
    assert made.interrupts == before.interrupts
    assert made.audit.closed == before.audit.closed
    return problem


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


def test_each_target_that_fits_is_taken_whatever_became_of_the_others() -> None:
    made = board(ONE, "bank>pay:2")
    targets = {id: {"decision": "approve"} for id in (ONE, "bank>pay:9", "bank>pay:2")}
    reply = made.settle(parse(ResumeRequest, {"targets": targets}), NOW)
    assert {id: result.status for id, result in reply.results.items()} == {
        ONE: "taken",
        "bank>pay:9": "refused",
        "bank>pay:2": "taken",
    }
    assert made.open == []


def test_a_decision_on_a_question_that_changed_is_refused() -> None:
    made = board(ONE)
    problem = refusal(made, ONE, decision="approve", digest="0" * 16)
    assert isinstance(problem, UnfitDecision)
    assert "changed" in str(problem)
    assert decide(made, ONE, decision="approve", digest=digest_of(GATE)).results[ONE].status == "taken"


def test_a_decision_meant_for_an_earlier_run_is_refused() -> None:
    made = board(ONE)
    assert "earlier run" in str(refusal(made, ONE, decision="approve", run="another"))
    assert decide(made, ONE, decision="approve", run="run").results[ONE].status == "taken"


def test_a_decision_for_all_that_is_meant_for_an_earlier_run_takes_nothing() -> None:
    made = board(ONE)
    request = parse(ResumeRequest, {"all": {"decision": "approve"}, "run": "another"})
    assert made.settle(request, NOW).results["all"].status == "refused"
    assert [interrupt.id for interrupt in made.open] == [ONE]


def test_only_the_question_of_a_gate_can_be_remembered() -> None:
    made = board(ONE, question=Approval(tool="pay", arguments={}, when="before"))
    assert "remember" in str(refusal(made, ONE, decision="approve", remember="call"))
    gate = board(ONE)
    assert decide(gate, ONE, decision="approve", remember="call").results[ONE].status == "taken"


@pytest.mark.parametrize("answers", [["yes"], ["yes", "no", "perhaps"]])
def test_answers_are_as_many_as_questions(answers: list[str]) -> None:
    made = board(ONE, question=FollowUp(questions=("a?", "b?"), when="tool"))
    assert "2 questions want 2 answers" in str(refusal(made, ONE, decision="answer", answers=answers))
    assert decide(made, ONE, decision="answer", answers=["yes", "no"]).results[ONE].status == "taken"


def test_one_text_answers_all_questions() -> None:
    made = board(ONE, question=FollowUp(questions=("a?", "b?"), when="tool"))
    assert decide(made, ONE, decision="answer", answer="both").results[ONE].status == "taken"


def test_a_decision_of_the_wrong_kind_is_refused_with_those_that_fit() -> None:
    made = board(ONE, question=REVIEW)
    problem = refusal(made, ONE, decision="accept")
    assert isinstance(problem, UnfitDecision)
    assert "approve or edit or reject, not accept" in str(problem)


def test_a_decided_question_says_how_and_by_whom_also_once_it_is_taken_down() -> None:
    made = board(ONE)
    decide(made, ONE, decision="reject", by="ann")
    for _ in range(2):
        problem = refusal(made, ONE, decision="approve")
        assert isinstance(problem, AlreadyDecided)
        assert "rejected by ann" in str(problem)
        made.forget(ONE)


def test_a_question_takes_no_decision_from_the_moment_it_expires() -> None:
    end = NOW + timedelta(seconds=5)
    made = board(ONE, expires=end)
    assert isinstance(refusal(made, ONE, end, decision="approve"), AlreadyDecided)
    request = parse(ResumeRequest, {"all": {"decision": "approve"}})
    assert isinstance(made.check(request, end)["all"], UnknownInterrupt)
    early = end - timedelta(microseconds=1)
    assert decide(made, ONE, early, decision="approve").results[ONE].status == "taken"


def test_an_open_question_is_not_taken_down() -> None:
    made = board(ONE)
    made.forget(ONE)
    made.forget("bank>pay:9")
    assert [interrupt.id for interrupt in made.open] == [ONE]


def test_a_question_that_is_asked_again_stays_as_it_was() -> None:
    made = board(ONE)
    decide(made, ONE, decision="approve")
    again = Interrupt(id=ONE, owner="bank", question=GATE, digest=digest_of(GATE), created=NOW)
    assert made.ask(again).outcome == "approved"


def test_a_decision_for_all_takes_what_fits_and_skips_the_rest() -> None:
    made = board(ONE, "bank>pay:2")
    feedback = FollowUp(questions=("a?",), when="tool")
    made.ask(
        Interrupt(id="bank>ask:3", owner="bank", question=feedback, digest=digest_of(feedback), created=NOW)
    )
    reply = made.settle(parse(ResumeRequest, {"all": {"decision": "approve"}}), NOW)
    assert [result.status for result in reply.results.values()] == ["taken", "taken", "skipped"]
    assert [interrupt.id for interrupt in made.open] == ["bank>ask:3"]


@pytest.mark.parametrize(
    ("under", "taken"),
    [
        ("bank", ["bank>a>pay:1", "bank>ab>pay:1", "bank>a>pay:1~2"]),
        ("bank>a", ["bank>a>pay:1", "bank>a>pay:1~2"]),
        ("bank>a>pay:1", ["bank>a>pay:1", "bank>a>pay:1~2"]),
        ("bank>a>pay", []),
        ("nobody", []),
        (">", []),
    ],
)
def test_a_decision_for_all_under_a_place_stays_below_it(under: str, taken: list[str]) -> None:
    made = board("bank>a>pay:1", "bank>ab>pay:1", "bank>a>pay:1~2")
    made.settle(parse(ResumeRequest, {"all": {"decision": "approve"}, "under": under}), NOW)
    assert [id for id, interrupt in made.interrupts.items() if not interrupt.is_open] == taken


def test_content_is_judged_by_what_the_board_was_given() -> None:
    made = board(ONE, question=REVIEW)
    made.judge_by(lambda _, decision: "too much" if isinstance(decision, Edit) else None)
    assert "too much" in str(refusal(made, ONE, decision="edit", arguments={"a": 2}))
    assert decide(made, ONE, decision="approve").results[ONE].status == "taken"


def test_an_edit_that_changes_nothing_is_an_approval() -> None:
    made = board(ONE, "bank>pay:2", question=REVIEW)
    decide(made, ONE, decision="edit", arguments={"a": 1})
    decide(made, "bank>pay:2", decision="edit", arguments={"a": 2})
    same, other = made.audit.closed
    assert (same.outcome, same.proposed, same.effective) == ("approved", '{"a":1}', None)
    assert (other.outcome, other.proposed, other.effective) == ("edited", '{"a":1}', '{"a":2}')


def test_only_the_record_of_an_answer_is_restated() -> None:
    """What became of an answer later is put right in the audit; the decision itself stands."""
    made = board(ONE, "bank>pay:2")
    for id in (ONE, "bank>pay:2"):
        decide(made, id, decision="approve")
    made.restate(ONE, "unknown")
    made.restate("bank>pay:9", "unknown")
    assert [entry.outcome for entry in made.audit.closed] == ["unknown", "approved"]
    assert made.interrupts[ONE].outcome == "approved"


def test_a_withdrawal_sent_again_gets_the_same_reply() -> None:
    made = board(ONE)
    request = parse(WithdrawRequest, {"target": ONE, "request_id": "r"})
    reply = made.withdraw(request, NOW)
    assert made.withdraw(request, NOW) == reply
    assert [entry.outcome for entry in made.audit.closed] == ["withdrawn"]
    with pytest.raises(UnfitDecision):
        decide(made, ONE, decision="approve", request_id="r")
    with pytest.raises(AlreadyDecided):
        made.withdraw(parse(WithdrawRequest, {"target": ONE}), NOW)


def test_a_withdrawal_of_a_question_that_changed_is_refused() -> None:
    made = board(ONE)
    with pytest.raises(UnfitDecision):
        made.withdraw(parse(WithdrawRequest, {"target": ONE, "digest": "0" * 16}), NOW)
    assert [interrupt.id for interrupt in made.open] == [ONE]


def test_the_last_refused_attempts_are_kept_clipped_and_all_are_counted() -> None:
    made = board()
    for n in range(KEEP_REFUSED + 20):
        made.refuse(f"{n} " + "x" * 5_000, "y" * 5_000, "z" * 5_000, NOW)
    refused = made.audit.refused
    assert (len(refused), made.audit.refused_in_all) == (KEEP_REFUSED, KEEP_REFUSED + 20)
    assert refused[0].target.startswith("20 ")
    for text in (refused[0].target, refused[0].reason, refused[0].by or ""):
        assert len(text) < CLIP_TEXT + 40


def test_a_refused_attempt_that_counted_after_all_is_taken_off_the_record() -> None:
    made = board()
    kept, taken = made.refuse("a", "r", None, NOW), made.refuse("b", "r", None, NOW)
    for _ in range(2):
        made.audit.take_back(taken)
    assert (made.audit.refused, made.audit.refused_in_all) == ([kept], 1)


def test_large_entries_push_out_the_oldest_before_there_are_too_many() -> None:
    ids = [f"bank>pay:{n}" for n in range(300)]
    made = board(*ids, question=Approval(tool="pay", arguments={"a": "x" * 5_000}, when="gate"))
    for n, id in enumerate(ids):
        if n == 80:
            made = Board.model_validate_json(made.model_dump_json())  # a page turn
        decide(made, id, decision="approve")
    kept = made.audit.closed
    assert len(made.audit.model_dump_json()) < KEEP_CLOSED_BYTES * 1.1
    assert 100 < len(kept) < 300
    assert made.audit.older_closed == {"approved": 300 - len(kept)}
    assert kept[-1].id == ids[-1]


def test_a_thousand_decisions_at_once_are_settled_within_one_workflow_task() -> None:
    """The SDK gives up a task after two seconds, and would try this one again for ever."""
    ids = [f"bank>pay:{n}" for n in range(KEEP_CLOSED + MAX_TARGETS)]
    made = board(*ids, question=Approval(tool="pay", arguments={"a": "é" * 300}, when="gate"))
    for id in ids[:KEEP_CLOSED]:
        decide(made, id, decision="approve")
    targets = {id: {"decision": "approve"} for id in ids[KEEP_CLOSED:]}
    request = parse(ResumeRequest, {"targets": targets})
    started = time.process_time()
    made.settle(request, NOW)
    assert made.open == []
    assert time.process_time() - started < 0.5


def test_the_replies_that_are_remembered_stay_within_their_bytes() -> None:
    ids = [f"bank>pay:{n}" for n in range(4_000)]
    made = board(*ids)
    for n in range(40):
        targets = {id: {"decision": "approve"} for id in ids[100 * n : 100 * n + 100]}
        made.settle(parse(ResumeRequest, {"targets": targets, "request_id": f"r{n}"}), NOW)
    assert sum(len(each.model_dump_json()) for each in made.handled.values()) < KEEP_HANDLED_BYTES * 1.1
    again = parse(ResumeRequest, {"targets": {ids[0]: {"decision": "approve"}}, "request_id": "r0"})
    with pytest.raises(UnfitDecision, match="another request"):
        made.settle(again, NOW)
    assert len(made.handled["r39"].reply.results) == 100


def test_a_request_is_known_to_be_handled_for_longer_than_its_reply() -> None:
    """That a request id was used is never forgotten for its neighbours' size"""
    ids = [f"bank>pay:{n}" for n in range(4_001)]
    made = board(*ids)
    first = parse(ResumeRequest, {"targets": {ids[0]: {"decision": "approve"}}, "request_id": "first"})
    assert made.settle(first, NOW).results[ids[0]].status == "taken"
    for n in range(40):
        targets = {id: {"decision": "approve"} for id in ids[100 * n + 1 : 100 * n + 101]}
        made.settle(parse(ResumeRequest, {"targets": targets, "request_id": f"r{n}"}), NOW)
    repeated = made.settle(first, NOW)
    assert repeated.results[ids[0]].status == "skipped"
    assert "handled before" in repeated.results[ids[0]].reason
    assert [entry.id for entry in made.audit.closed].count(ids[0]) <= 1


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
