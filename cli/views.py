"""How questions, runs, conversations and results look."""

import contextlib
import difflib
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree as Branches

from cli import screen
from cli.screen import command, line, out, say, shown, styled, verbatim
from client import Described, InboxPage
from protocol.board import Audit, AuditEntry
from protocol.errors import SignoffError
from protocol.interrupts import ANSWERS, AnyQuestion, Approval, Custom, Feedback, FollowUp, Review
from protocol.messages import Assistant, Message, System, Tool, User
from protocol.run import RunResult
from protocol.strict_json import HarmfulJson, read
from protocol.views import Listed, PendingPage, Tree

STYLES = {
    "waiting": "bold yellow",
    "running": "cyan",
    "completed": "green",
    "approved": "green",
    "accepted": "green",
    "answered": "green",
    "resumed": "green",
    "taken": "green",
    "edited": "magenta",
    "revised": "magenta",
    "rejected": "red",
    "refused": "red",
    "failed": "bold red",
    "terminated": "bold red",
    "timed_out": "bold red",
    "cancelled": "yellow",
    "canceled": "yellow",
    "expired": "yellow",
    "withdrawn": "yellow",
    "superseded": "yellow",
    "stopped": "yellow",
    "unknown": "bold red",
}
WIDE = 100
"""Columns from which a listing is a table."""


def style_of(status: str) -> str:
    return STYLES.get(status, "")


def ago(moment: datetime | None) -> str:
    """How long ago, or in how long, in one unit."""
    if moment is None:
        return ""
    seconds = (datetime.now(UTC) - moment).total_seconds()
    passed = span(timedelta(seconds=abs(seconds)))
    return f"{passed} ago" if seconds >= 0 else f"in {passed}"


def span(duration: timedelta) -> str:
    seconds = duration.total_seconds()
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def clock(moment: datetime) -> str:
    """The time of day, with the date of another day."""
    local = moment.astimezone()
    today = local.date() == datetime.now(UTC).astimezone().date()
    return local.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S")


# --------------------------------------------------------------------------------------------- questions


def question(listed: Listed, *, full: bool = False) -> RenderableType:
    """A question in a box, with its id below, and everything that a person decides by."""
    asked = listed.question
    facts = [f"{listed.owner} asked {ago(listed.created)}"]
    if listed.expires is not None:
        facts.append(f"expires {ago(listed.expires)}")
    if listed.approvers:
        facts.append(f"for {', '.join(listed.approvers)}")
    body: list[RenderableType] = [_asked(asked, full=full)]
    if asked.because.strip():
        body += ["", styled(("“" + shown(asked.because.strip(), full=full) + "”", "italic"))]
    if asked.result is not None:
        body += ["", styled(("it gave: ", "dim"), shown(asked.result, full=full))]
    body += ["", styled((screen.visible(", ".join(facts)), "dim"))]
    title = styled((f" {headline(asked)} ", "bold yellow"))
    framed = Panel(
        Group(*body),
        width=min(out.width, WIDE),
        title=title,
        title_align="left",
        border_style="yellow",
        box=box.ROUNDED,
        padding=(0, 1),
    )
    return Group(framed, Text(f"  {screen.visible(listed.id)}", "bold", overflow="fold"))


def headline(asked: AnyQuestion) -> str:
    """What kind of answer is wanted, in a few words."""
    match asked:
        case Approval(when="after"):
            return "May this result be used?"
        case Approval():
            return "May this run?"
        case Review():
            return "May this run, and with these arguments?"
        case Feedback(round=n):
            return "Is this good as it is?" + (f" (round {n})" if n > 1 else "")
        case FollowUp():
            return "The agent asks"
        case Custom():
            return "A tool asks"


def _asked(asked: AnyQuestion, *, full: bool) -> RenderableType:
    match asked:
        case Approval() | Review():
            return Group(styled((screen.visible(asked.tool), "bold")), _arguments(asked.arguments, full=full))
        case Feedback(content=content):
            return Text(shown(content, full=full, most=4 * screen.CUT))
        case FollowUp(questions=questions):
            numbered = enumerate(questions, 1)
            return Group(*(styled((f"{n}. ", "bold"), shown(text, full=full)) for n, text in numbered))
        case Custom():
            body: list[RenderableType] = [
                styled((screen.visible(asked.tool), "bold")),
                _value(asked.info, full=full),
            ]
            if asked.problem:
                body.append(
                    styled(("the last answer was of no use: ", "red"), shown(asked.problem, full=full))
                )
            if asked.expects:
                body.append(styled(("wants ", "dim"), shown(_written(asked.expects), full=full)))
            return Group(*body)


def _arguments(arguments: dict[str, Any], *, full: bool) -> RenderableType:
    if not arguments:
        return styled(("without arguments", "dim"))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="cyan", overflow="fold")
    grid.add_column(overflow="fold")
    for name, value in arguments.items():
        grid.add_row(Text(screen.visible(name)), Text(shown(_written(value), full=full)))
    return Padding(grid, (0, 0, 0, 2))


def _value(value: Any, *, full: bool) -> RenderableType:
    if isinstance(value, dict):
        return _arguments(value, full=full)
    return Text(shown(value if isinstance(value, str) else _written(value), full=full))


def _written(value: Any) -> str:
    """A value as JSON, so that ``"5"`` and ``5`` look as different as they are."""
    nested = isinstance(value, dict | list) and len(json.dumps(value)) > 60
    return json.dumps(value, ensure_ascii=False, indent=2 if nested else None)


def summary(asked: AnyQuestion, most: int = 120) -> str:
    """A question on one line."""
    match asked:
        case Approval() | Review():
            return line(f"{asked.tool} {json.dumps(asked.arguments, ensure_ascii=False)}", most=most)
        case Feedback(content=content):
            return line(content, most=most)
        case FollowUp(questions=questions):
            return line(" ".join(questions), most=most)
        case Custom():
            info = asked.info if isinstance(asked.info, str) else json.dumps(asked.info, ensure_ascii=False)
            return line(f"{asked.tool}: {info}", most=most)


def how_to_answer(listed: Listed) -> None:
    """The commands that answer a question, ready to be pasted."""
    for verb in ANSWERS[listed.question.kind]:
        verbatim("  " + command(verb, listed.workflow_id, listed.id), "dim")


def difference(before: dict[str, Any], after: dict[str, Any]) -> None:
    """What an edit changes, line by line."""
    old, new = (json.dumps(each, ensure_ascii=False, indent=2).splitlines() for each in (before, after))
    for changed in list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]:
        style = {"+": "green", "-": "red", "@": "dim"}.get(changed[:1], "")
        if not changed.startswith("@"):
            say((screen.visible(changed), style), indent=2)


# ------------------------------------------------------------------------------------------------- inbox


def inbox(page: InboxPage, found: dict[str, PendingPage | SignoffError], *, full: bool) -> RenderableType:
    """The runs that wait: a table where there is room for one, else one under the other."""
    if not page.rows:
        return styled(
            ("Nothing that fits waits on this page.", "yellow")
            if page.total
            else ("Nothing waits for a decision.", "green")
        )
    if out.width >= WIDE:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), expand=True, show_edge=False)
        for name, ratio in (("RUN", 3), ("AGENT", 2), ("SINCE", 1), ("WAITS FOR", 8)):
            table.add_column(name, ratio=ratio, overflow="fold")
        for row in page.rows:
            table.add_row(
                styled((screen.visible(row.id), "bold")),
                screen.visible(row.agent),
                ago(row.since),
                _waits(row, found.get(row.id), full=full),
            )
        return table
    rows: list[RenderableType] = []
    for row in page.rows:
        rows.append(Text(screen.visible(row.id), "bold", overflow="fold"))
        rows.append(styled((f"{screen.visible(row.agent)}, waits since {ago(row.since)}", "dim")))
        rows.append(Padding(_waits(row, found.get(row.id), full=full), (0, 0, 1, 2)))
    return Group(*rows)


def _waits(row: Described, found: PendingPage | SignoffError | None, *, full: bool) -> RenderableType:
    lines: list[RenderableType] = []
    if isinstance(found, PendingPage):
        for listed in found.interrupts if full else found.interrupts[:5]:
            lines.append(Text(screen.visible(listed.id), "yellow", overflow="fold"))
            lines.append(
                Padding(styled((f"{listed.question.kind}  ", "cyan"), summary(listed.question)), (0, 0, 0, 2))
            )
        hidden = found.count - len(lines) // 2
    else:
        lines += [
            Text(screen.visible(id), "yellow", overflow="fold") for id in (row.ids if full else row.ids[:5])
        ]
        hidden = row.count - len(lines)
        if found is not None:
            lines.append(styled((f"the questions cannot be shown: {found}", "dim italic")))
    if hidden > 0:
        lines.append(styled((f"+{hidden} more", "dim")))
    return Group(*lines)


# ---------------------------------------------------------------------------------------------- one run


def described(found: Described, title: str = "") -> None:
    """The first lines about a run."""
    status = found.status if found.open and found.status else found.state
    say((screen.visible(found.id), "bold"), "  ", (status, style_of(status)), ("  " + found.agent, "dim"))
    if title:
        say((line(title, most=300), ""))
    when = f"started {ago(found.started)}"
    when += f", ended {ago(found.closed)}" if found.closed else ""
    when += f", waits since {ago(found.since)}" if found.open and found.since else ""
    say((when, "dim"))
    for trouble in found.troubles if found.open else ():
        say(("! ", "bold red"), line(trouble, most=500))


def tree(seen: Tree) -> RenderableType:
    """The agents of a run with what runs and what waits."""
    trunk = Branches("", hide_root=True, guide_style="dim")
    branches: dict[str, Branches] = {}
    entered = {agent.address for agent in seen.agents}
    for agent in seen.agents:
        above = agent.address.rpartition(">")[0]
        below = branches.get(above, trunk)
        turns = f", {agent.turns} turns" if agent.turns > 1 else ""
        branch = below.add(
            styled(
                (screen.visible(agent.address.rpartition(">")[2]), "bold"),
                (f"  {agent.kind}{turns}  ", "dim"),
                (agent.status, style_of(agent.status)),
            )
        )
        branches[agent.address] = branch
        for call in agent.calls:
            if call.address in entered:
                continue  # it is an agent, and shown as one
            branch.add(
                styled(
                    (screen.visible(call.address.rpartition(">")[2]), "cyan"),
                    "  ",
                    (call.status, style_of(call.status)),
                )
            )
    return trunk


def conversation(messages: Iterable[Message], *, full: bool) -> None:
    """Who said what, in order."""
    for message in messages:
        match message:
            case System():
                continue
            case User(content=content):
                spoken("user", content, full=full)
            case Assistant():
                if message.refusal:
                    spoken("agent", message.refusal, full=full)
                if message.content:
                    spoken("agent", message.content, full=full)
                for call in message.tool_calls:
                    called(call.function.name, call.function.arguments, full=full)
            case Tool(content=content):
                answered(content, full=full)


WHO = {"user": "bold blue", "agent": "bold magenta", "person": "bold green"}


def spoken(who: str, text: str, *, full: bool = False, name: str = "") -> None:
    """A line of a conversation, its text below its name where it is long."""
    name = screen.visible(name or who)
    text = shown(text.strip(), full=full)
    if "\n" in text or len(text) > 3 * out.width:
        say((name, WHO[who]))
        say(text, indent=2)
    else:
        say((f"{name}  " if text else name, WHO[who]), text)


def called(name: str, arguments: str, *, full: bool = False) -> None:
    """A tool call that a model makes."""
    with contextlib.suppress(HarmfulJson):  # then it is shown as the model wrote it
        arguments = json.dumps(read(arguments), ensure_ascii=False)
    say(("→ ", "cyan"), (screen.visible(name), "cyan"), " ", shown(arguments, full=full), indent=2)


def answered(text: str, *, full: bool = False, failed: bool = False) -> None:
    """What a call came back with."""
    say(("← ", "red" if failed else "cyan"), (shown(text, full=full), "red" if failed else ""), indent=2)


def result(end: RunResult, *, full: bool = False) -> RenderableType:
    """How a run ended, in a box."""
    style = style_of(end.status)
    return Panel(
        width=min(out.width, WIDE),
        renderable=Text(shown(end.answer.strip() or "(no words)", full=full, most=4 * screen.CUT)),
        title=styled((f" {end.status} ", style)),
        title_align="left",
        border_style=style.removeprefix("bold "),
        box=box.ROUNDED,
        padding=(0, 1),
    )


# ------------------------------------------------------------------------------------------------- audit


def audit(found: Audit, *, full: bool) -> None:
    """What was asked and decided, what was refused, and what else is worth knowing."""
    for entry in found.closed:
        _entry(entry, full=full)
    if found.older_closed:
        older = ", ".join(f"{count} {outcome}" for outcome, count in found.older_closed.items())
        say((f"earlier, no longer kept: {older}", "dim"))
    if found.refused:
        hidden = found.refused_in_all - len(found.refused)
        say(("refused attempts", "bold red"), (f"  (and {hidden} earlier ones)" if hidden > 0 else "", "dim"))
        for refused in found.refused:
            by = f" by {refused.by}" if refused.by else ""
            say((f"{clock(refused.at)}  ", "dim"), screen.visible(refused.target + by), indent=2)
            say((shown(refused.reason, full=full), "red"), indent=4)
    for note in found.notes:
        say(
            (f"{clock(note.at)}  ", "dim"),
            screen.visible(note.about),
            ": ",
            shown(note.text, full=full),
            indent=2,
        )
    if not (found.closed or found.refused or found.notes or found.older_closed):
        say(("Nothing was asked, and nothing refused.", "dim"))


def _entry(entry: AuditEntry, *, full: bool) -> None:
    by = f" by {entry.by} (claimed)" if entry.by else ""
    out.print(Text(screen.visible(entry.id), "bold", overflow="fold"))
    waited = span(entry.decided - entry.created)
    say(
        (f"{entry.outcome}", style_of(entry.outcome)),
        screen.visible(by),
        (f"  at {clock(entry.decided)}, after {waited}", "dim"),
        indent=2,
    )
    if entry.reason:
        say(("“" + shown(entry.reason, full=full) + "”", "italic"), indent=2)
    if entry.proposed:
        say((f"{entry.tool or ''} ", "cyan"), shown(entry.proposed, full=full), indent=2)
    if entry.effective and entry.effective != entry.proposed:
        say(("ran with ", "magenta"), shown(entry.effective, full=full), indent=2)


def table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> RenderableType:
    """A plain table."""
    found = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1))
    for name in columns:
        found.add_column(name, overflow="fold")
    for row in rows:
        found.add_row(*row)
    return found
