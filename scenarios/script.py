"""How a script reads a prompt: what is wanted of the agent, what it did about it, and what became of that.

Nothing is counted or kept: the same prompt gives the same reply, on any worker, as often as it is asked.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from activities.scripted_model import ModelFailure, Prompt, Script
from protocol import texts
from protocol.address import Address
from protocol.messages import Asked, Assistant, Reply, Tool, User

_EDITED = texts.edited({}, "").partition("{}")[0]
_RESULT = texts.edited({}, "").partition("{}")[2]


@dataclass(frozen=True)
class Done:
    """A call that the agent made, and what it was told about it."""

    tool: str
    proposed: dict[str, Any]
    told: str

    @property
    def refused(self) -> bool:
        """A person said no, or a rule did."""
        return self.told.startswith(f"tool '{self.tool}' disapproved")

    @property
    def reason(self) -> str:
        """Why it was refused, in the person's words, if they said so."""
        found = re.search(r"disapproved, reason: (.*)\. It did not run\.", self.told, re.DOTALL)
        return found[1] if self.refused and found else ""

    @property
    def edited(self) -> bool:
        """A person changed the arguments."""
        return self.told.startswith(_EDITED)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments it ran with."""
        return _object(self.told.removeprefix(_EDITED)) if self.edited else self.proposed

    @property
    def text(self) -> str:
        """The bare result."""
        return self.told.partition(_RESULT)[2] if self.edited else self.told

    @property
    def result(self) -> dict[str, Any]:
        """The result as an object; empty if there is none, since it did not run or failed."""
        return _object(self.text)


def _object(text: str) -> dict[str, Any]:
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True)
class Scene:
    """One moment of one agent: everything it `heard`, and the calls it made (`done`) since the last of that."""

    agent: str
    heard: tuple[str, ...]
    done: tuple[Done, ...]
    calls: int

    @property
    def request(self) -> str:
        """What the agent is to do now."""
        return self.heard[-1] if self.heard else ""

    def of(self, tool: str) -> list[Done]:
        """The calls of one tool."""
        return [done for done in self.done if done.tool == tool]

    def call(self, because: str, *calls: tuple[str, dict[str, Any]]) -> Reply:
        """Words, and calls beside them. Their ids count the calls of this conversation, as a model's may."""
        return Reply(
            content=because,
            calls=tuple(
                Asked(name=tool, id=f"call_{n}", arguments=json.dumps(arguments, ensure_ascii=False))
                for n, (tool, arguments) in enumerate(calls, self.calls + 1)
            ),
        )


def say(text: str) -> Reply:
    """A reply that ends the agent's turn."""
    return Reply(content=text)


def scene(prompt: Prompt) -> Scene:
    """Read a prompt."""
    told = {message.tool_call_id: message.content for message in prompt.messages if isinstance(message, Tool)}
    heard: list[str] = []
    done: list[Done] = []
    calls = 0
    for message in prompt.messages:
        match message:
            case User():
                heard.append(message.content)
                done.clear()
            case Assistant():
                calls += len(message.tool_calls)
                done += [
                    Done(call.function.name, _object(call.function.arguments), told.get(call.id, ""))
                    for call in message.tool_calls
                ]
            case _:
                pass
    return Scene(Address.parse(prompt.agent).last.name, tuple(heard), tuple(done), calls)


def cast(parts: Mapping[str, Callable[[Scene], Reply]]) -> Script:
    """A script with one part per agent, by the agent's name."""

    def script(prompt: Prompt) -> Reply:
        now = scene(prompt)
        part = parts.get(now.agent)
        if part is None:
            raise ModelFailure(f"the script has no part for '{prompt.agent}'", final=True)
        return part(now)

    return script


def amount_allowed(reason: str) -> int | None:
    """The smaller amount that a refusal names as one that would do."""
    found = re.search(r"(?:at most|up to|no more than|the limit is) \$?(\d[\d,]*)", reason)
    return int(found[1].replace(",", "")) if found else None


@dataclass(frozen=True)
class Progress:
    """Where a plan stands, as the executor (`step` is what it has to do now) and the replanner are told it."""

    objective: str
    done: tuple[tuple[str, str], ...]
    plan: tuple[str, ...]
    step: str

    @property
    def last(self) -> tuple[str, str]:
        """The step that was done last, and its result."""
        return self.done[-1] if self.done else ("", "")

    def result_of(self, start: str) -> str:
        """The latest result of a step that starts so."""
        return next((result for step, result in reversed(self.done) if step.startswith(start)), "")


def progress(text: str) -> Progress:
    """Read what `texts.step_to_do` or `texts.progress` wrote."""

    def section(heading: str, end: str) -> str:
        found = re.search(rf"^## {heading}\n(.*?)(?={end}|\Z)", text, re.DOTALL | re.MULTILINE)
        return found[1] if found else ""

    done = re.findall(
        r"^\d+\. (.*)\n   Result: (.*(?:\n(?!\d+\. ).*)*)",
        section("Done so far", r"\n\n## Plan"),
        re.MULTILINE,
    )
    plan = re.findall(r"^\d+\. (.*)", section("Plan(?: that was followed)?", r"\n\n"), re.MULTILINE)
    return Progress(
        objective=section("Objective", r"\n\n## "),
        done=tuple(done),
        plan=tuple(plan),
        step=section("Your step now", r"\Z"),
    )
