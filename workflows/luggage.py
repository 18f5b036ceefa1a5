"""What travels over a page turn: the state, made light enough to carry, and the result, made small enough to give."""

from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from protocol import strict_json, texts
    from protocol.run import RunRequest, RunResult, RunState

TURN_AT = 1024 * 1024
"""Bytes of state at which the page is turned: luggage over 2 MiB would wedge the run."""
GROWN_SINCE = 256 * 1024
"""Bytes that a page must have added before its weight alone turns it again."""
STUB_DOWN_TO = 700 * 1024
MOST_LUGGAGE = 1_800 * 1024
MOST_RESULT = 900_000
MOST_ANSWER = 200_000
MOST_TRANSCRIPT = 250_000
"""Bytes of the newest messages that a result carries: all of them stand in the history already."""


def weigh(carried: RunState | RunRequest) -> int:
    """Bytes of the state, or of the request with the state in it, as it travels."""
    return len(carried.model_dump_json().encode())


def lighten(state: RunState) -> int:
    """Replace the oldest tool results by stubs if the state nears its limit; returns how many.

    Only at a page turn, when no call is in flight, so that a retry of a model call sees what the first try saw.
    """
    weight, stubbed = weigh(state), 0
    if weight <= TURN_AT:
        return 0
    for memory in state.memories.values():
        for n, turn in enumerate(memory.turns[:-1]):
            if weight <= STUB_DOWN_TO:
                return stubbed
            for call in turn.calls:
                outcome = call.outcome or ""
                stub = texts.stub(len(outcome))
                saved = len(outcome.encode()) - len(stub)
                if saved > 200:
                    call.outcome = stub
                    weight -= saved
                    stubbed += 1
            memory.turns.rewrite(n, turn)
    return stubbed


def fitting(result: RunResult) -> RunResult:
    """The result under `MOST_RESULT` bytes: the oldest messages of a long conversation are left out, and counted."""
    answer = texts.shortened(result.answer, MOST_ANSWER)
    if _written(answer) > MOST_ANSWER:  # a character is written in up to six bytes
        answer = texts.shortened(result.answer, MOST_ANSWER // 6)
    audit = result.audit
    size = 0
    most = min(MOST_TRANSCRIPT, MOST_RESULT - _written(answer) - len(audit.model_dump_json().encode()))
    kept: list[Any] = []
    for message in reversed(result.transcript):
        size += len(message.model_dump_json().encode())
        if size > most:
            break
        kept.append(message)
    return result.model_copy(
        update={
            "answer": answer,
            "transcript": tuple(reversed(kept)),
            "left_out": len(result.transcript) - len(kept),
        }
    )


def _written(text: str) -> int:
    """Bytes of *text* as JSON."""
    return len(strict_json.compact(text).encode())
