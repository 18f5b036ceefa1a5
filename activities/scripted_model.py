"""A model that reads from a script: offline, free, and safe to retry, since it derives its next line from the
conversation and counts nothing."""

from collections.abc import Callable, Mapping, Sequence

from activities.model import ModelFailure, Prompt
from protocol.messages import Assistant, Reply

__all__ = ["ModelFailure", "Prompt", "Script", "ScriptedModel", "lines"]  # a script needs nothing else

Script = Callable[[Prompt], Reply]
"""Finds the next reply in a prompt."""


def lines(replies: Sequence[Reply]) -> Script:
    """A script of fixed lines: the n-th reply follows n assistant messages."""

    def script(prompt: Prompt) -> Reply:
        said = sum(isinstance(message, Assistant) for message in prompt.messages)
        if said >= len(replies):
            raise ModelFailure(f"the script of '{prompt.agent}' has no line {said + 1}", final=True)
        return replies[said]

    return script


class ScriptedModel:
    """Answers with the script that the model spec names; a spec without a name gets the only one there is."""

    def __init__(self, scripts: Mapping[str, Script]) -> None:
        self._scripts = scripts

    async def complete(self, prompt: Prompt) -> Reply:
        name = prompt.model.name
        script = self._scripts.get(name)
        if script is None and not name and len(self._scripts) == 1:
            script = next(iter(self._scripts.values()))
        if script is None:
            known = ", ".join(sorted(self._scripts)) or "none"
            raise ModelFailure(
                f"there is no script '{name}' for '{prompt.agent}'; there are: {known}", final=True
            )
        return script(prompt)
