"""The same work by hand: model, wait for a person, tool, model. As little as a Temporal workflow can be."""

from datetime import timedelta
from typing import Any

from temporalio import activity, workflow

MINUTE = timedelta(minutes=1)
INSTRUCTIONS = "You are the bank's assistant. Pay what the user asks for, once, and say briefly what you did."
TASK = "Please pay 5 euros to A for the flowers of last week; the invoice has the number 2025-1134."


@activity.defn
async def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    if len(messages) > 2:
        return {"role": "assistant", "content": "done"}
    function = {"name": "pay", "arguments": '{"amount": 5, "to": "A"}'}
    return {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}


@activity.defn
async def pay(arguments: str) -> str:
    return "paid 5 to A"


@workflow.defn
class Minimal:
    def __init__(self) -> None:
        self._approved: bool | None = None

    @workflow.run
    async def run(self, task: str) -> str:
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": INSTRUCTIONS},
            {"role": "user", "content": task},
        ]
        reply = await workflow.execute_activity(model, messages, start_to_close_timeout=MINUTE)
        call = reply["tool_calls"][0]
        await workflow.wait_condition(lambda: self._approved is not None)
        said = "rejected"
        if self._approved:
            said = await workflow.execute_activity(
                pay, call["function"]["arguments"], start_to_close_timeout=MINUTE
            )
        messages += [reply, {"role": "tool", "tool_call_id": call["id"], "content": said}]
        answer = await workflow.execute_activity(model, messages, start_to_close_timeout=MINUTE)
        return str(answer["content"])

    @workflow.signal
    def decide(self, approved: bool) -> None:
        self._approved = approved
