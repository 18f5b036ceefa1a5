"""What a scenario is: an agent with its tools, an opening line, a script for it offline, and people who answer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from activities.scripted_model import Script
from activities.tools import FunctionTool
from protocol.agents import AnyAgent, ModelSpec
from protocol.errors import BadInput
from protocol.run import RunRequest, Status
from protocol.views import Listed

SCRIPTED = "scripted"
"""The provider that reads its lines from the scenario's script."""

Decide = Callable[[Listed, int], dict[str, Any]]
"""A person of few words: the decision for an open question, given how many this run has had before it."""

APPROVE = {"decision": "approve"}
ACCEPT = {"decision": "accept"}


def reject(reason: str | None = None) -> dict[str, Any]:
    return {"decision": "reject", "reason": reason} if reason else {"decision": "reject"}


def in_turn(*decisions: dict[str, Any]) -> Decide:
    """Somebody who decides these one after the other, and keeps to the last."""

    def decide(question: Listed, before: int) -> dict[str, Any]:
        return decisions[min(before, len(decisions) - 1)]

    return decide


def by_subject(subjects: dict[str, dict[str, Any]], otherwise: dict[str, Any]) -> Decide:
    """Somebody who decides by what the question is about: the first word of *subjects* that stands in it."""

    def decide(question: Listed, before: int) -> dict[str, Any]:
        about = question.question.model_dump_json(include={"arguments", "questions", "content", "info"})
        return next((decision for word, decision in subjects.items() if word in about), otherwise)

    return decide


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way the people in it may decide. `task` replaces the opening line, `says` stands in the last answer.

    `decide` looks at the question where several may be open at once: their order is nobody's promise.
    """

    name: str
    shows: str
    decide: Decide
    task: str = ""
    status: Status = "completed"
    says: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One of the patterns, ready to run: offline from its script, or with a real model. The first variant is its
    default."""

    name: str
    title: str
    agent: AnyAgent
    task: str
    tools: tuple[FunctionTool, ...] = ()
    script: Script
    variants: dict[str, Variant]

    def variant(self, name: str = "") -> Variant:
        """The variant of that name; the first one without a name. Raises `BadInput` naming those there are."""
        found = self.variants.get(name or next(iter(self.variants)))
        if found is None:
            known = ", ".join(self.variants)
            raise BadInput(f"the scenario '{self.name}' has no variant '{name}'; it has: {known}")
        return found

    def request(self, *, provider: str = SCRIPTED, model: str = "", variant: str = "") -> RunRequest:
        """The start input of a run. The provider ``""`` is whatever the worker has as its default."""
        spec = ModelSpec(provider=provider, name=self.name if provider == SCRIPTED else model)
        return RunRequest(
            task=self.variant(variant).task or self.task,
            agent=self.agent,
            model=spec if spec != ModelSpec() else None,
        )


def by_name(*variants: Variant) -> dict[str, Variant]:
    return {variant.name: variant for variant in variants}
