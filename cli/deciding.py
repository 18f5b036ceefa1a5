"""From what a person typed to a decision: which interrupts are meant, and what is sent."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli import keyboard, views
from cli.screen import command, line, out, say
from client import Client
from protocol.address import Address, address_of
from protocol.errors import BadAddress, BadInput, UnknownInterrupt
from protocol.interrupts import ANSWERS, Approval, Custom, Feedback, FollowUp, Review
from protocol.strict_json import HarmfulJson, read
from protocol.views import Listed


@dataclass(frozen=True)
class Target:
    """An interrupt to decide: as it is listed, or only by the id that was typed."""

    id: str
    listed: Listed | None = None


async def targets(
    client: Client, run: str, ids: Sequence[str], verb: str, *, all: bool = False, under: str | None = None
) -> list[Target]:
    """The interrupts that a person means: by id, all of them, or the only one that takes this decision.

    An id that nothing waits under stays in: the run knows best why. Raises `BadInput`.
    """
    if all and ids:
        raise BadInput("give either ids or --all")
    if under is not None and not all:
        raise BadInput("--under goes with --all")
    await client.require_open(run)
    page = await client.pending(run)
    if ids:
        known = {listed.id: listed for listed in page.interrupts}
        return [Target(id, known.get(id)) for id in dict.fromkeys(ids)]
    fitting = [each for each in page.interrupts if verb == "withdraw" or verb in ANSWERS[each.question.kind]]
    if all:
        prefix = _prefix(under)
        covered = [each for each in fitting if prefix is None or address_of(each.id).within(prefix)]
        if not covered:
            raise UnknownInterrupt(f"nothing that waits in '{run}'{_below(under)} takes '{verb}'")
        return [Target(each.id, each) for each in covered]
    if not fitting:
        takes = dict.fromkeys(verb for each in page.interrupts for verb in ANSWERS[each.question.kind])
        others = f"; what waits takes {', '.join(takes)}: {command('show', run)}" if page.interrupts else ""
        raise UnknownInterrupt(f"nothing that waits in '{run}' takes '{verb}'{others}")
    if len(fitting) > 1:
        few = ", ".join(each.id for each in fitting[:5])
        few += f" and {len(fitting) - 5} more" if len(fitting) > 5 else ""
        raise BadInput(
            f"{len(fitting)} interrupts of '{run}' take '{verb}': name those you mean ({few}), or --all"
        )
    return [Target(fitting[0].id, fitting[0])]


def _prefix(under: str | None) -> Address | None:
    if under is None:
        return None
    try:
        return Address.parse(under)
    except BadAddress as error:
        raise BadInput(str(error)) from None


def _below(under: str | None) -> str:
    return f" under '{under}'" if under else ""


def json_of(text: str, what: str) -> Any:
    """JSON that was typed, or is in the file that ``@name`` names. Raises `BadInput`."""
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{what}: the file '{text[1:]}' cannot be read ({error})") from None
    try:
        return read(text)
    except HarmfulJson as error:
        raise BadInput(f"{what}: {error}") from None


def with_values(arguments: dict[str, Any], pairs: Sequence[str]) -> dict[str, Any]:
    """*arguments* with values replaced by ``name=value``; a value that is no JSON is a text."""
    changed = dict(arguments)
    for pair in pairs:
        name, mark, value = pair.partition("=")
        if not mark:
            raise BadInput(f"--set wants name=value, not '{pair}'")
        try:
            changed[name] = read(value)
        except HarmfulJson:
            changed[name] = value
    return changed


# ------------------------------------------------------------------------------------------- at the prompt


async def decide_at_prompt(listed: Listed) -> dict[str, Any] | None:
    """Show a question and let a person decide it; nothing if they would rather not. Raises `NobodyThere`."""
    out.print(views.question(listed))
    verbs = ANSWERS[listed.question.kind]
    while True:
        match listed.question:
            case FollowUp(questions=questions):
                return await _answers(questions)
            case Custom():
                return await _data()
            case _:
                verb = await _choose(verbs)
        match verb, listed.question:
            case None, _:
                return None
            case "?", _:
                out.print(views.question(listed, full=True))
            case "approve" | "accept", _:
                return {"decision": verb}
            case "reject", _:
                reason = await keyboard.ask("  reason", ("(may be empty)", "dim"))
                return {"decision": "reject", "reason": reason} if reason else {"decision": "reject"}
            case "revise", Feedback():
                if feedback := await keyboard.ask("  what should change?"):
                    return {"decision": "revise", "feedback": feedback}
            case "edit", Review() | Approval() as asked:
                if (arguments := await _edit(asked.arguments)) is not None:
                    return {"decision": "edit", "arguments": arguments}
            case _:
                pass


async def _choose(verbs: Sequence[str]) -> str | None:
    choices = "".join(f"[{verb[0]}]{verb[1:]}, " for verb in verbs).rstrip()
    while True:
        answer = (await keyboard.ask(choices, ("[?] all of it, [q]uit:", "dim"))).lower()
        if answer in ("q", "quit"):
            return None
        if answer == "?":
            return answer
        if found := [verb for verb in verbs if answer and verb.startswith(answer)]:
            return found[0]


async def _answers(questions: Sequence[str]) -> dict[str, Any] | None:
    answers = []
    for n, _ in enumerate(questions, 1):
        answer = ""
        while not answer:
            answer = await keyboard.ask(f"answer {n}:" if len(questions) > 1 else "answer:")
        answers.append(answer)
    return {"decision": "answer", "answers": answers}


async def _data() -> dict[str, Any]:
    text = await keyboard.ask("answer", ("(JSON or text; may be empty)", "dim"))
    if not text:
        return {"decision": "resume"}
    try:
        return {"decision": "resume", "data": read(text)}
    except HarmfulJson:
        return {"decision": "resume", "data": text}


async def _edit(arguments: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments as a person wants them: one by one here, an empty line keeps a value."""
    say(("an empty line keeps the value", "dim"), indent=2)
    changed = dict(arguments)
    for name, value in arguments.items():
        now = value if isinstance(value, str) else _compact(value)
        text = await keyboard.ask(f"  {name}", (f"({line(now, most=60)})", "dim"))
        if text:
            changed.update(
                with_values({}, [f"{name}={text}"]) if not isinstance(value, str) else {name: text}
            )
    if changed == arguments:
        say(("nothing changed", "dim"), indent=2)
        return None
    views.difference(arguments, changed)
    return changed if await keyboard.yes("  send this?") else None


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
