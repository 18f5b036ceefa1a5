"""A run's own history, read as what happens in it: who says what, which tools run, what is asked and decided."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from temporalio.api.common.v1 import Payloads
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent

from cli import views
from cli.screen import line, say, shown, visible
from client import PENDING, Client
from protocol.strict_json import HarmfulJson, read
from protocol.work import COMPLETE

Kind = Literal["task", "said", "called", "result", "failed", "asked", "sent", "page", "ended"]


@dataclass(frozen=True)
class Happening:
    """Something that a person may want to know. `who` is an agent's or interrupt's address, or a person's name."""

    at: datetime
    kind: Kind
    who: str = ""
    text: str = ""
    data: Any = None


@dataclass
class Reader:
    """Reads the events of one run, in order."""

    _scheduled: dict[int, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    _waiting: frozenset[str] = frozenset()

    def read(self, event: HistoryEvent) -> list[Happening]:
        """What an event says; often nothing, sometimes several things."""
        found = [Happening(event.event_time.ToDatetime(UTC), *each) for each in self._read(event)]
        return found

    def _read(self, event: HistoryEvent) -> list[tuple[Any, ...]]:
        match event.WhichOneof("attributes"):
            case "workflow_execution_started_event_attributes":
                request = _object(event.workflow_execution_started_event_attributes.input)
                return [] if "state" in request else [("task", "", str(request.get("task", "")))]
            case "activity_task_scheduled_event_attributes":
                scheduled = event.activity_task_scheduled_event_attributes
                self._scheduled[event.event_id] = (scheduled.activity_type.name, _object(scheduled.input))
                return []
            case "activity_task_completed_event_attributes":
                completed = event.activity_task_completed_event_attributes
                name, input = self._scheduled.pop(completed.scheduled_event_id, ("", {}))
                return (
                    _model(input, completed.result)
                    if name == COMPLETE
                    else _tool(name, input, completed.result)
                )
            case "activity_task_failed_event_attributes":
                failed = event.activity_task_failed_event_attributes
                return self._failed(failed.scheduled_event_id, failed.failure)
            case "activity_task_timed_out_event_attributes":
                timed_out = event.activity_task_timed_out_event_attributes
                return self._failed(timed_out.scheduled_event_id, timed_out.failure)
            case "workflow_execution_signaled_event_attributes":
                signal = event.workflow_execution_signaled_event_attributes
                return _sent(signal.signal_name, _object(signal.input))
            case "workflow_execution_update_accepted_event_attributes":
                update = event.workflow_execution_update_accepted_event_attributes.accepted_request.input
                return _sent(update.name, _object(update.args))
            case "upsert_workflow_search_attributes_event_attributes":
                return self._asked(event.upsert_workflow_search_attributes_event_attributes.search_attributes)
            case _:
                return _ended(event)

    def _failed(self, scheduled: int, failure: Failure) -> list[tuple[Any, ...]]:
        name, input = self._scheduled.pop(scheduled, ("", {}))
        who = str(input.get("agent" if name == COMPLETE else "address", name))
        while failure.HasField("cause"):
            failure = failure.cause
        return [("failed", who, failure.message)]

    def _asked(self, attributes: Any) -> list[tuple[Any, ...]]:
        if PENDING.name not in attributes.indexed_fields:
            return []
        try:
            ids = read(attributes.indexed_fields[PENDING.name].data) or []
        except HarmfulJson:
            return []
        listed = [ids] if isinstance(ids, str) else [str(id) for id in ids]
        new = [id for id in listed if id not in self._waiting]
        self._waiting = frozenset(listed)
        return [("asked", id) for id in new]


def _model(input: Mapping[str, Any], result: Payloads) -> list[tuple[Any, ...]]:
    reply, agent = _object(result), str(input.get("agent", ""))
    said: list[tuple[Any, ...]] = [
        ("said", agent, str(text)) for text in (reply.get("content"), reply.get("refusal")) if text
    ]
    calls = _list(reply.get("calls"))
    if calls and not said:
        said.append(("said", agent, ""))  # so that it is seen who calls
    for call in calls:
        said.append(("called", agent, str(call.get("name", "")), str(call.get("arguments") or "{}")))
    return said


def _tool(name: str, input: Mapping[str, Any], result: Payloads) -> list[tuple[Any, ...]]:
    reply, address = _object(result), str(input.get("address", name))
    match reply.get("outcome"):
        case "finished":
            return [("result", address, str(reply.get("text", "")))]
        case "unusable":
            return [("failed", address, str(reply.get("problem", "")))]
        case _:
            return []  # it asks, which is told when the question opens


def _sent(name: str, message: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    by = str(message.get("by") or "somebody")
    match name:
        case "resume":
            targets = message.get("targets")
            if isinstance(targets, dict):
                return [("sent", by, target, decision) for target, decision in targets.items()]
            return [("sent", by, f"all under {message.get('under') or 'the run'}", message.get("all"))]
        case "withdraw":
            return [("sent", by, str(message.get("target")), {"decision": "withdraw", **_reason(message)})]
        case "say":
            return [("sent", by, "", {"decision": "say", "text": message.get("text")})]
        case "end":
            return [("sent", by, "", {"decision": "end"})]
        case _:
            return [("sent", by, name, dict(message))]


def _reason(message: Mapping[str, Any]) -> dict[str, Any]:
    return {"reason": message["reason"]} if message.get("reason") else {}


def _ended(event: HistoryEvent) -> list[tuple[Any, ...]]:
    match event.WhichOneof("attributes"):
        case "workflow_execution_continued_as_new_event_attributes":
            return [("page",)]
        case "workflow_execution_completed_event_attributes":
            end = _object(event.workflow_execution_completed_event_attributes.result)
            return [("ended", str(end.get("status", "completed")), str(end.get("answer", "")))]
        case "workflow_execution_failed_event_attributes":
            return [("ended", "failed", event.workflow_execution_failed_event_attributes.failure.message)]
        case "workflow_execution_canceled_event_attributes":
            return [("ended", "cancelled", "")]
        case "workflow_execution_terminated_event_attributes":
            return [("ended", "terminated", event.workflow_execution_terminated_event_attributes.reason)]
        case "workflow_execution_timed_out_event_attributes":
            return [("ended", "timed_out", "")]
        case "workflow_execution_cancel_requested_event_attributes":
            cause = event.workflow_execution_cancel_requested_event_attributes.cause
            return [("sent", "somebody", "", {"decision": "cancel", **({"reason": cause} if cause else {})})]
        case _:
            return []


def _object(payloads: Payloads) -> dict[str, Any]:
    """The one JSON object of a message, or an empty one: what cannot be read is not shown."""
    try:
        value = read(payloads.payloads[0].data) if payloads.payloads else None
    except HarmfulJson:
        return {}
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> Sequence[Any]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


# ------------------------------------------------------------------------------------------------ showing


def tell(what: Happening, *, full: bool = False, brief: bool = False) -> None:
    """Print what happened; *brief* beside the questions themselves, which then need no further mention."""
    if what.kind == "asked" and brief:
        return
    agent = what.who.rpartition(">")[2].partition(":")[0]
    match what.kind:
        case "task":
            views.spoken("user", what.text, full=full)
        case "said":
            views.spoken("agent", what.text, full=full, name=agent)
        case "called":
            views.called(what.text, str(what.data), full=full)
        case "result" | "failed":
            failed = what.kind == "failed"
            views.answered(f"{agent}: {what.text}", full=full, failed=failed)
        case "asked":
            say(("? ", "bold yellow"), (visible(what.who), "yellow"), indent=2)
        case "sent":
            decision = what.data if isinstance(what.data, dict) else {}
            verb = str(decision.get("decision", "sends something"))
            words = next((_words(decision[k]) for k in _WORDS if decision.get(k)), "")
            say(
                ("✎ ", "bold green"),
                (visible(what.who), WHO_DECIDES),
                f" {line(verb, most=40)}",
                f" {visible(what.text)}" if what.text and not brief else "",
                f": {shown(words, full=full)}" if words else "",
                indent=2,
            )
        case "page":
            say(("(the run turned a page)", "dim"), indent=2)
        case "ended":
            say(("● ", views.style_of(what.who)), (what.who, views.style_of(what.who)), indent=2)
            if what.text:
                say(shown(what.text, full=full, most=2_400), indent=4)


def _words(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_WORDS = ("reason", "comment", "feedback", "answer", "answers", "arguments", "data", "text")
WHO_DECIDES = "bold green"


async def of(
    client: Client, id: str, *, follow: bool = False, from_now: bool = False
) -> AsyncIterator[Happening]:
    """What happens in a run, over all its pages."""
    reader = Reader()
    async for event in client.history(id, follow=follow, from_now=from_now):
        for happening in reader.read(event):
            yield happening
