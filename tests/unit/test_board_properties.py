"""The board, under any order of questions, decisions, withdrawals, expiries and page turns."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from protocol.board import KEEP_CLOSED, KEEP_REFUSED, Board, answer_of
from protocol.errors import DecisionRefused
from protocol.interrupts import (
    ANSWERS,
    AnyQuestion,
    Approval,
    Custom,
    Feedback,
    FollowUp,
    Interrupt,
    ResumeRequest,
    Review,
    WithdrawRequest,
    digest_of,
    parse,
    parse_decision,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
QUESTIONS: dict[str, AnyQuestion] = {
    "approval": Approval(tool="t", arguments={"a": 1}, when="gate"),
    "review": Review(tool="t", arguments={"a": 1}, parameters={"type": "object"}, when="gate"),
    "feedback": Feedback(content="c", round=1, when="tool"),
    "follow_up": FollowUp(questions=("a?", "b?"), when="tool"),
    "custom": Custom(tool="t", info="i", when="tool"),
}
DECISIONS: dict[str, dict[str, Any]] = {
    "approve": {"decision": "approve"},
    "reject": {"decision": "reject", "reason": "r"},
    "edit": {"decision": "edit", "arguments": {"a": 2}},
    "accept": {"decision": "accept"},
    "revise": {"decision": "revise", "feedback": "f"},
    "answer": {"decision": "answer", "answers": ["1", "2"]},
    "resume": {"decision": "resume", "data": 1},
}


class Model(RuleBasedStateMachine):
    """A board, and beside it the simplest list of what must be true of it."""

    def __init__(self) -> None:
        super().__init__()
        self.board = Board(run="run")
        self.now = START
        self.asked: list[str] = []
        self.ended: dict[str, str] = {}
        self.restated: dict[str, str] = {}
        self.refused = 0
        self.replies: dict[str, tuple[Any, Any]] = {}

    def some(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from([*self.asked, "bank>nobody:x"]))

    @rule(kind=st.sampled_from(sorted(QUESTIONS)), expires=st.booleans())
    def ask(self, kind: str, expires: bool) -> None:
        id = f"bank>t:c{len(self.asked)}"
        question = QUESTIONS[kind]
        self.board.ask(
            Interrupt(
                id=id,
                owner="bank",
                question=question,
                digest=digest_of(question),
                created=self.now,
                expires=self.now + timedelta(seconds=2) if expires else None,
            )
        )
        self.asked.append(id)

    @rule(
        data=st.data(),
        any_word=st.booleans(),
        wrong=st.sampled_from(["", "", "run", "digest"]),
        request_id=st.sampled_from([None, "r1", "r2"]),
    )
    def decide(self, data: st.DataObject, any_word: bool, wrong: str, request_id: str | None) -> None:
        id = self.some(data)
        found = self.board.interrupts.get(id)
        words = sorted(DECISIONS) if any_word or found is None else ANSWERS[found.question.kind]
        word = data.draw(st.sampled_from(words))
        envelope = {"by": "ann", "request_id": request_id, **({wrong: "0" * 16} if wrong else {})}
        request = parse_decision(id, {**DECISIONS[word], **envelope})
        before = self.board.model_copy(deep=True)
        known = self.replies.get(request_id or "")
        if known is not None:
            if known[0] == request:
                assert self.board.settle(request, self.now) == known[1]
            else:
                with pytest.raises(DecisionRefused):
                    self.board.settle(request, self.now)
            assert self.board == before
            return
        interrupt = self.board.interrupts.get(id)
        fits = (
            not wrong
            and interrupt is not None
            and interrupt.is_open
            and word in ANSWERS[interrupt.question.kind]
            and (interrupt.expires is None or self.now < interrupt.expires)
        )
        assert (not self.board.check(request, self.now)) == fits
        assert self.board == before  # to check is to change nothing
        reply = self.board.settle(request, self.now)
        if fits:
            assert reply.results[id].status == "taken"
            outcome = self.board.interrupts[id].outcome
            assert outcome is not None
            self.ended[id] = outcome
            if request_id is not None:
                self.replies[request_id] = (request, reply)
        else:
            assert reply.results[id].status == "refused"
            assert reply.results[id].reason
            self.refused += 1
            assert self.board.interrupts == before.interrupts
            assert self.board.audit.closed == before.audit.closed
            assert self.board.handled == before.handled

    def taken_by(self, word: str, ids: list[str]) -> list[str]:
        """Which of *ids* take this decision now."""
        found = [self.board.interrupts[id] for id in ids if id in self.board.interrupts]
        return [
            i.id
            for i in found
            if i.is_open and word in ANSWERS[i.question.kind] and (i.expires is None or self.now < i.expires)
        ]

    @precondition(lambda self: self.replies)
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        request, reply = self.replies[data.draw(st.sampled_from(sorted(self.replies)))]
        before = self.board.model_copy(deep=True)
        assert self.board.settle(request, self.now) == reply
        assert self.board == before

    @rule(data=st.data(), word=st.sampled_from(sorted(DECISIONS)))
    def decide_several(self, data: st.DataObject, word: str) -> None:
        ids = data.draw(
            st.lists(st.sampled_from([*self.asked, "bank>nobody:x"]), min_size=1, max_size=5, unique=True)
        )
        request = parse(ResumeRequest, {"targets": dict.fromkeys(ids, DECISIONS[word])})
        fit = self.taken_by(word, ids)
        assert set(self.board.check(request, self.now)) == set(ids) - set(fit)
        reply = self.board.settle(request, self.now)
        assert {id: r.status for id, r in reply.results.items()} == {
            id: "taken" if id in fit else "refused" for id in ids
        }
        self.refused += len(ids) - len(fit)
        self.end(fit)

    @rule(word=st.sampled_from(["approve", "reject", "accept"]))
    def decide_all(self, word: str) -> None:
        fit = self.taken_by(word, self.asked)
        reply = self.board.settle(parse(ResumeRequest, {"all": DECISIONS[word]}), self.now)
        assert [id for id, result in reply.results.items() if result.status == "taken"] == fit
        self.refused += not fit
        self.end(fit)

    def end(self, ids: list[str]) -> None:
        for id in ids:
            outcome = self.board.interrupts[id].outcome
            assert outcome is not None
            self.ended[id] = outcome

    @precondition(lambda self: self.ended)
    @rule(data=st.data(), outcome=st.sampled_from(["unused", "unknown"]))
    def restate(self, data: st.DataObject, outcome: Any) -> None:
        id = data.draw(st.sampled_from(sorted(self.ended)))
        self.board.restate(id, outcome)
        self.restated[id] = outcome

    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        id = self.some(data)
        interrupt = self.board.interrupts.get(id)
        request = parse(WithdrawRequest, {"target": id})
        open_now = interrupt is not None and interrupt.is_open
        if open_now and interrupt is not None and (interrupt.expires is None or self.now < interrupt.expires):
            self.board.withdraw(request, self.now)
            self.ended[id] = "withdrawn"
        else:
            with pytest.raises(DecisionRefused):
                self.board.withdraw(request, self.now)

    @rule(seconds=st.integers(1, 3))
    def pass_time(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule()
    def timers_fire(self) -> None:
        """Later than the questions end, at times: what is over takes no decision even before."""
        for interrupt in self.board.open:
            if interrupt.expires is not None and self.now >= interrupt.expires:
                self.board.close(interrupt.id, "expired", interrupt.expires)
                self.ended[interrupt.id] = "expired"

    @rule()
    def turn_the_page(self) -> None:
        self.board = Board.model_validate_json(self.board.model_dump_json())

    @precondition(lambda self: self.ended)
    @rule(data=st.data())
    def take_down(self, data: st.DataObject) -> None:
        self.board.forget(data.draw(st.sampled_from(sorted(self.ended))))

    @invariant()
    def the_open_ones_are_those_asked_and_not_ended(self) -> None:
        assert [i.id for i in self.board.open] == [id for id in self.asked if id not in self.ended]

    @invariant()
    def an_outcome_never_changes(self) -> None:
        for id, interrupt in self.board.interrupts.items():
            assert interrupt.outcome == self.ended.get(id)
            assert (answer_of(interrupt) is None) == (id not in self.ended)

    @invariant()
    def each_is_on_record_once(self) -> None:
        closed = [entry.id for entry in self.board.audit.closed]
        assert len(closed) == len(set(closed))
        assert {entry.id: entry.outcome for entry in self.board.audit.closed} == {
            **self.ended,
            **self.restated,
        }
        assert self.board.audit.refused_in_all == self.refused
        assert len(self.board.audit.refused) == min(self.refused, KEEP_REFUSED)
        assert len(closed) <= KEEP_CLOSED


TestBoard = Model.TestCase
TestBoard.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
