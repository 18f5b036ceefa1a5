"""The command line: start runs, see what waits, decide, follow.

    python starter.py demo approval
    signoff inbox
    signoff approve RUN

It parses, calls one verb of `client.py`, and prints. With no server named, `demo` and `dev` bring their own.
"""

import asyncio
import base64
import contextlib
import difflib
import getpass
import os
import re
import signal
import sys
import traceback
import uuid
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import TypeAdapter, ValidationError

from cli import deciding, happenings, keyboard, screen, views
from cli.deciding import Target, json_of, with_values
from cli.keyboard import NobodyThere
from cli.screen import command, complain, hint, out, print_json, say, styled, verbatim
from client import Client, Described, InboxPage, Started
from protocol.errors import BadInput, NoWorker, SignoffError, UnknownInterrupt
from protocol.interrupts import ANSWERS, FollowUp, Review
from protocol.record import explain
from protocol.record import read as read_record
from protocol.run import RunRequest, RunResult
from protocol.strict_json import HarmfulJson, read
from protocol.views import Listed, PendingPage

if TYPE_CHECKING:
    from scenarios import Scenario

app = typer.Typer(
    name="signoff",
    help="AI agents that stop and ask a person, and wait as long as it takes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

DEV_PORT, DEV_UI_PORT, DEV_DATABASE = 7233, 8233, Path(".signoff/dev.db")
INTERRUPTED, BROKEN_PIPE, TERMINATED = 130, 141, 143
REFRESH = 2.0
"""Seconds between two looks of ``inbox --watch``."""

Run = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, as `signoff inbox` shows it.")]
Id = Annotated[
    str | None, typer.Argument(metavar="[ID]", help="The interrupt's id; not needed if only one fits.")
]
Ids = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="Interrupt ids; not needed if only one fits.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Full = Annotated[bool, typer.Option("--full", help="Cut no text.")]
By = Annotated[
    str, typer.Option("--by", envvar="SIGNOFF_BY", help="Who decides; by default your login name.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask again at the terminal.")]
Signal = Annotated[
    bool, typer.Option("--signal", help="Leave the decision for later: no worker has to answer now.")
]
All = Annotated[bool, typer.Option("--all", help="Everything that waits now and takes this decision.")]
Under = Annotated[
    str | None, typer.Option("--under", metavar="ADDRESS", help="With --all: only below this agent.")
]


class _Options:
    """What stands before the verb."""

    address: str | None = None
    namespace: str | None = None
    profile: str | None = None
    timeout: float = 10.0
    as_json: bool = False


options = _Options()


@app.callback()
def _common(
    address: Annotated[
        str | None,
        typer.Option("--address", metavar="HOST:PORT", help="The Temporal server (TEMPORAL_ADDRESS)."),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", help="The Temporal namespace (TEMPORAL_NAMESPACE).")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option("--profile", help="A profile of the Temporal configuration (TEMPORAL_PROFILE)."),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long to wait for an answer.")
    ] = 10.0,
) -> None:
    options.address, options.namespace = address, namespace
    options.profile, options.timeout = profile, timeout


# --------------------------------------------------------------------------------------- demo, start, dev


@app.command()
def demo(
    name: Annotated[
        str, typer.Argument(metavar="[SCENARIO|all]", help="Which pattern; `all` with --auto.")
    ] = "approval",
    variant: Annotated[str, typer.Option("--variant", help="Which course the answers of --auto take.")] = "",
    auto: Annotated[bool, typer.Option("--auto", help="Give the scenario's own answers.")] = False,
    model: Annotated[str, typer.Option("--model", help="scripted (offline) or openai.")] = "scripted",
    list_: Annotated[bool, typer.Option("--list", help="Show the scenarios and their variants.")] = False,
    task_queue: Annotated[str | None, typer.Option("--task-queue")] = None,
    by: By = "",
    as_json: Json = False,
) -> None:
    """Play a scenario: an agent works, and you decide what it asks."""
    _run(_demo(name, variant, auto, model, list_, task_queue, by, as_json), as_json)


async def _demo(
    name: str,
    variant: str,
    auto: bool,
    model: str,
    list_: bool,
    task_queue: str | None,
    by: str,
    as_json: bool,
) -> int:
    from cli.demo import Played, embedded_wanted, play, stage
    from scenarios import SCENARIOS

    if list_:
        return _list_scenarios(as_json)
    if model not in ("scripted", "openai"):
        raise BadInput(f"there is no model '{model}': give scripted or openai")
    auto = auto or as_json or not keyboard.present()
    if name == "all":
        if variant:
            raise BadInput("--variant goes with one scenario, not with all")
        chosen = [(each, way) for each in SCENARIOS.values() for way in each.variants.values()]
        auto = True
    else:
        chosen = [(_scenario(name), _scenario(name).variant(variant))]
    if model == "openai":
        from worker import endpoint

        endpoint()  # says in one line what is missing, before anything starts
    client = None if embedded_wanted(options.profile, options.address) else await _connect(task_queue)
    played: list[Played] = []
    with _progress("starting a Temporal server …" if client is None else "starting a worker …") as progress:
        async with stage(client, task_queue=task_queue) as ready:
            progress.stop()
            for each, way in chosen:
                quiet = as_json or len(chosen) > 1
                try:
                    end = await play(
                        ready, each, way, provider=model, auto=auto, quiet=quiet, by=by or _login()
                    )
                except SignoffError as error:
                    if len(chosen) == 1:
                        raise
                    end = Played(each.name, way.name, "", problem=str(error))
                played.append(end)
                if len(chosen) > 1 and not as_json:
                    _played_line(end)
    if as_json:
        print_json([_played(end) for end in played] if len(chosen) > 1 else _played(played[0]))
    elif len(chosen) > 1:
        bad = [end for end in played if not end.ended_well]
        say("")
        say(
            (
                f"{len(played) - len(bad)} of {len(played)} went as they should",
                "bold red" if bad else "bold green",
            )
        )
    elif played[0].problem:
        complain(played[0].problem)
    return 0 if all(end.ended_well or (end.result is None and not end.problem) for end in played) else 1


def _list_scenarios(as_json: bool) -> int:
    from scenarios import SCENARIOS

    if as_json:
        print_json(
            {
                name: {"title": each.title, "variants": {v.name: v.shows for v in each.variants.values()}}
                for name, each in SCENARIOS.items()
            }
        )
        return 0
    for name, each in SCENARIOS.items():
        say((name, "bold"), "  ", each.title)
        for way in each.variants.values():
            say((way.name, "cyan"), "  ", (way.shows, "dim"), indent=4)
    return 0


def _played(end: Any) -> dict[str, Any]:
    return {
        "scenario": end.scenario,
        "variant": end.variant,
        "run": end.run,
        "ok": end.ended_well,
        "problem": end.problem or None,
        "decisions": end.decisions,
        "result": screen.as_json(end.result),
    }


def _played_line(end: Any) -> None:
    status = end.result.status if end.result else "failed"
    mark = ("✔ ", "green") if end.ended_well else ("✘ ", "bold red")
    decided = f"{len(end.decisions)} decision" + ("" if len(end.decisions) == 1 else "s")
    names = (20, 26) if out.width >= 80 else (0, 0)
    say(
        mark,
        (f"{end.scenario:<{names[0]}}  ", "bold"),
        f"{end.variant:<{names[1]}}  ",
        (status, views.style_of(status)),
        (f", {decided}", "dim"),
    )
    if end.problem:
        say((screen.line(end.problem), "red"), indent=4)


@app.command()
def start(
    name: Annotated[
        str | None, typer.Argument(metavar="[SCENARIO]", help="A scenario; or give --file.")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="Start input as JSON; - reads standard input."),
    ] = None,
    id: Annotated[
        str | None, typer.Option("--id", help="The run's id. One that runs is shown, not doubled.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", help="Another opening line.")] = None,
    variant: Annotated[str, typer.Option("--variant", help="The opening line of this variant.")] = "",
    model: Annotated[
        str, typer.Option("--model", help="scripted, openai, or what the worker has.")
    ] = "scripted",
    chat: Annotated[bool, typer.Option("--chat", help="Keep it open for `say` until `end`.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end and print the result.")] = False,
    task_queue: Annotated[
        str | None, typer.Option("--task-queue", help="SIGNOFF_TASK_QUEUE, or signoff.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Start a run, and leave it to the workers."""
    _run(_start(name, file, id, task, variant, model, chat, wait, task_queue, as_json), as_json)


async def _start(
    name: str | None,
    file: str | None,
    id: str | None,
    task: str | None,
    variant: str,
    model: str,
    chat: bool,
    wait: bool,
    task_queue: str | None,
    as_json: bool,
) -> int:
    if id is not None and not id.strip():
        raise BadInput("--id is empty")
    request = _request(name, file, variant, model)
    changes = {**({"task": task} if task is not None else {}), **({"chat": True} if chat else {})}
    if changes:
        request = _as_request({**request.model_dump(mode="json"), **changes})
    client = await _connect(task_queue)
    started = await client.start(request, id=id or f"{name or request.agent.name}-{uuid.uuid4().hex[:6]}")
    if not wait:
        if as_json:
            print_json({"id": started.id, "run": started.run, "already_running": started.already})
        else:
            await _show_started(client, started)
        return 0
    if not as_json:
        say(
            ("running already " if started.already else "started ", "dim"),
            (screen.visible(started.id), "bold"),
        )
    with _progress("waiting for its end …", quiet=as_json):
        end = await client.result(started.id)
    return _show_end(started.id, end, full=True, as_json=as_json)


def _request(name: str | None, file: str | None, variant: str, model: str) -> RunRequest:
    if (name is None) == (file is None):
        raise BadInput(f"give either a scenario (`{command('demo', '--list')}` shows them) or --file")
    if file is None:
        assert name is not None
        return _scenario(name).request(provider=model, variant=variant)
    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return _as_request(read(text))
    except OSError as error:
        raise BadInput(f"the file '{file}' cannot be read: {error.strerror}") from None
    except (HarmfulJson, BadInput) as error:
        name = "standard input" if str(file) == "-" else f"'{file}'"
        raise BadInput(f"{name} is no start input: {error}") from None


def _as_request(value: Any) -> RunRequest:
    try:
        return read_record(TypeAdapter(RunRequest), value)
    except ValidationError as error:
        raise BadInput(explain(error)) from None


def _scenario(name: str) -> "Scenario":
    from scenarios import SCENARIOS

    if name not in SCENARIOS:
        near = difflib.get_close_matches(name, SCENARIOS, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise BadInput(f"there is no scenario '{name}': {meant}there are {', '.join(SCENARIOS)}")
    return SCENARIOS[name]


async def _show_started(client: Client, started: Started) -> None:
    if started.already:
        say(("running already, not started again", "yellow"))
        views.described(await client.describe(started.id))
    else:
        say(("started ", "dim"), (screen.visible(started.id), "bold"))
        if not await client.is_served(client.task_queue):
            hint(f"no worker serves the task queue '{client.task_queue}' yet: start one")
    verbatim("  " + command("watch", started.id), "dim")
    verbatim("  " + command("show", started.id), "dim")


@app.command()
def export(
    name: Annotated[str, typer.Argument(metavar="SCENARIO")],
    variant: Annotated[str, typer.Option("--variant", help="The opening line of this variant.")] = "",
    model: Annotated[
        str, typer.Option("--model", help="scripted, openai, or what the worker has.")
    ] = "scripted",
    as_json: Json = True,
) -> None:
    """Print a scenario's start input, for `temporal workflow start --input-file` or any other client."""
    _run(_export(name, variant, model), as_json)


async def _export(name: str, variant: str, model: str) -> int:
    print_json(_request(name, None, variant, model))
    return 0


@app.command()
def dev(
    port: Annotated[int, typer.Option("--port", help="Of the server.")] = DEV_PORT,
    ui_port: Annotated[int, typer.Option("--ui-port", help="Of the Temporal UI.")] = DEV_UI_PORT,
    database: Annotated[Path, typer.Option("--database", help="Where runs are kept.")] = DEV_DATABASE,
    task_queue: Annotated[str | None, typer.Option("--task-queue")] = None,
    as_json: Json = False,
) -> None:
    """Keep an embedded Temporal server, its UI and a worker until Ctrl-C; the runs stay in a file."""
    _run(_dev(port, ui_port, database, task_queue, as_json), as_json)


async def _dev(port: int, ui_port: int, database: Path, task_queue: str | None, as_json: bool) -> int:
    from cli.demo import stage

    told_to_end = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(each, told_to_end.set)
    with _progress("starting …", quiet=as_json) as progress:
        async with stage(None, task_queue=task_queue, port=port, ui_port=ui_port, database=database) as ready:
            progress.stop()
            if as_json:
                print_json(
                    {"address": ready.client.address, "ui": ready.ui, "task_queue": ready.client.task_queue}
                )
            else:
                say(("Temporal  ", "bold"), ready.client.address)
                say(("UI        ", "bold"), (ready.ui or "", "blue"))
                say(("worker    ", "bold"), f"serves the task queue '{ready.client.task_queue}'")
                say(("runs      ", "bold"), f"are kept in {database}")
                say(("In another terminal:", "dim"))
                at = [] if port == DEV_PORT else ["--address", ready.client.address]
                verbatim("  " + command(*at, "start", "approval"), "dim")
                verbatim("  " + command(*at, "inbox"), "dim")
                say(("Ctrl-C ends this; the runs stay.", "dim"))
            await told_to_end.wait()
    return 0


# -------------------------------------------------------------------------------------------------- looking


@app.command()
def inbox(
    agent: Annotated[str | None, typer.Option("--agent", help="Only runs of this agent.")] = None,
    approver: Annotated[
        str | None, typer.Option("--approver", help="Only what waits for this approver.")
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="AGE", help="Only what waits longer: 30s, 15m, 2h, 3d."),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option("--kind", help="Of the rows shown: approval, review, feedback, follow_up, custom."),
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(
            "--prefix", metavar="ID", help="Of the rows shown: ids of runs or interrupts that start so."
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="Rows of a page.")] = 20,
    page: Annotated[str | None, typer.Option("--page", help="The page that an earlier one named.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep it live until Ctrl-C.")] = False,
    full: Full = False,
    as_json: Json = False,
) -> None:
    """Show the runs that wait for a person."""
    _run(_inbox(agent, approver, older_than, kind, prefix, limit, page, watch, full, as_json), as_json)


async def _inbox(
    agent: str | None,
    approver: str | None,
    older_than: str | None,
    kind: str | None,
    prefix: str | None,
    limit: int,
    page: str | None,
    watch: bool,
    full: bool,
    as_json: bool,
) -> int:
    age, token = _age(older_than), _token(page)
    if kind is not None and kind not in ANSWERS:
        raise BadInput(f"there is no kind '{kind}': give {', '.join(ANSWERS)}")
    client = await _connect()

    async def look() -> tuple[InboxPage, dict[str, PendingPage | SignoffError]]:
        found = await client.inbox(agent=agent, approver=approver, older_than=age, limit=limit, page=token)
        questions = await client.look_into(found.rows)
        return _narrowed(found, questions, kind, prefix)

    if watch and not as_json and out.is_terminal:
        from rich.console import Group
        from rich.live import Live

        with Live(console=out, auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                found, questions = await look()
                top = styled((f"{found.total} waiting, as of {_now()}; Ctrl-C ends", "dim"))
                live.update(Group(top, views.inbox(found, questions, full=full)), refresh=True)
                await asyncio.sleep(REFRESH)
    while True:
        with _progress("looking …", quiet=as_json):
            found, questions = await look()
        if as_json:
            print_json(_inbox_json(found, questions))
        else:
            out.print(views.inbox(found, questions, full=full))
            if found.total > len(found.rows):
                hint(f"{len(found.rows)} of {found.total:,} that wait")
            if found.next:
                hint(
                    f"the next page: {command('inbox', '--page', base64.urlsafe_b64encode(found.next).decode())}"
                )
        if not watch:
            return 0
        await asyncio.sleep(REFRESH)


def _narrowed(
    found: InboxPage, questions: dict[str, PendingPage | SignoffError], kind: str | None, prefix: str | None
) -> tuple[InboxPage, dict[str, PendingPage | SignoffError]]:
    """Only the rows, and of each only the questions, that fit; a row that cannot be looked into fits by its ids. A
    *prefix* is that of a run's id or of an interrupt's."""
    rows: list[Described] = []
    narrowed: dict[str, PendingPage | SignoffError] = {}
    for row in found.rows:
        seen = questions[row.id]
        start = "" if prefix is None or row.id.startswith(prefix) else prefix
        if isinstance(seen, PendingPage):
            fitting = tuple(
                each
                for each in seen.interrupts
                if (kind is None or each.question.kind == kind) and each.id.startswith(start)
            )
            if not fitting and (kind is not None or start or not seen.interrupts):
                continue  # decided since visibility heard of it, or not meant
            count = seen.count if kind is None and not start else len(fitting)
            seen = seen.model_copy(update={"interrupts": fitting, "count": count})
        elif start and not any(id.startswith(start) for id in row.ids):
            continue
        rows.append(row)
        narrowed[row.id] = seen
    return InboxPage(tuple(rows), found.total, found.next), narrowed


def _inbox_json(found: InboxPage, questions: dict[str, PendingPage | SignoffError]) -> dict[str, Any]:
    rows = []
    for row in found.rows:
        seen = questions[row.id]
        rows.append(
            {
                "workflow_id": row.id,
                "run": row.run,
                "agent": row.agent,
                "status": row.status,
                "since": row.since.isoformat() if row.since else None,
                "count": row.count,
                "ids": list(row.ids),
                "approvers": list(row.approvers),
                "interrupts": screen.as_json(seen.interrupts) if isinstance(seen, PendingPage) else None,
                "problem": None if isinstance(seen, PendingPage) else str(seen),
            }
        )
    token = base64.urlsafe_b64encode(found.next).decode() if found.next else None
    return {"total": found.total, "rows": rows, "next": token}


def _age(text: str | None) -> timedelta | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd])", text.strip())
    if not found or float(found[1]) > 100_000:
        raise BadInput(f"'{text}' is no age: give a number and s, m, h or d, like 15m")
    return timedelta(seconds=float(found[1]) * {"s": 1, "m": 60, "h": 3_600, "d": 86_400}[found[2]])


def _token(text: str | None) -> bytes | None:
    try:
        return None if text is None else base64.b64decode(text, altchars=b"-_", validate=True)
    except ValueError:
        raise BadInput("that --page is none that `signoff inbox` has named") from None


@app.command()
def show(
    run: Run,
    id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Show this interrupt whole.")] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="ADDRESS", help="The conversation of this agent.")
    ] = None,
    full: Full = False,
    as_json: Json = False,
) -> None:
    """Show a run: its agents, its conversation, and what waits; or one interrupt whole."""
    _run(_show(run, id, agent, full, as_json), as_json)


async def _show(run: str, id: str | None, agent: str | None, full: bool, as_json: bool) -> int:
    client = await _connect()
    with _progress("asking the run …", quiet=as_json):
        if id is not None:
            return await _show_one(client, run, id, as_json)
        found = await client.describe(run)
        if not found.open:
            end = await client.result(run)
            if not as_json:
                views.described(found)
            _show_end(run, end, full=full, as_json=as_json, found=found)
            return 0
        tree, messages, page = await asyncio.gather(
            client.tree(run), client.transcript(run, agent=agent), client.pending(run)
        )
    if agent is not None and not messages:
        known = ", ".join(each.address for each in tree.agents)
        raise BadInput(f"no agent '{agent}' has spoken in this run; there are: {known}")
    if as_json:
        facts = {"workflow_id": found.id, "run": found.run, "status": page.status, "agent": found.agent}
        seen = {
            "tree": tree,
            "transcript": messages,
            "interrupts": page.interrupts,
            "troubles": found.troubles,
        }
        print_json({**facts, **seen})
        return 0
    views.described(found)
    say("")
    out.print(views.tree(tree))
    say("")
    views.conversation(messages, full=full)
    for listed in page.interrupts:
        say("")
        out.print(views.question(listed, full=full))
        views.how_to_answer(listed)
    return 0


async def _show_one(client: Client, run: str, id: str, as_json: bool) -> int:
    listed = await _listed(client, run, id)
    if as_json:
        print_json(listed)
    else:
        out.print(views.question(listed, full=True))
        views.how_to_answer(listed)
    return 0


async def _listed(client: Client, run: str, id: str) -> Listed:
    """The open interrupt of that id; else the reason of the run itself why it is none."""
    await client.require_open(run)
    page = await client.pending(run, interrupt=id)
    if page.interrupts:
        return page.interrupts[0]
    closed = next((each for each in (await client.interrupts(run)).closed if each.id == id), None)
    if closed is not None:
        by = f" by {closed.by}" if closed.by else ""
        raise UnknownInterrupt(f"'{id}' is closed: {closed.outcome}{by}; `{command('audit', run)}` says more")
    raise UnknownInterrupt(
        f"nothing waits under '{id}'; {_nearest(id, (await client.pending(run)).interrupts)}"
    )


def _nearest(id: str, interrupts: Sequence[Listed]) -> str:
    ids = sorted(
        (each.id for each in interrupts),
        key=lambda known: -difflib.SequenceMatcher(None, known, id[:400]).quick_ratio(),
    )
    more = f" and {len(ids) - 5} more" if len(ids) > 5 else ""
    return f"waiting: {', '.join(ids[:5])}{more}" if ids else "nothing waits in this run"


def _show_end(id: str, end: RunResult, *, full: bool, as_json: bool, found: Described | None = None) -> int:
    if as_json:
        facts = {"run": found.run, "agent": found.agent} if found else {}
        print_json({"workflow_id": id, **facts, **end.model_dump(mode="json")})
    else:
        if found is not None:
            say("")
            views.conversation(end.transcript, full=full)
            say("")
        out.print(views.result(end, full=full))
    return 1 if end.status == "failed" else 0


@app.command()
def watch(
    run: Run,
    now: Annotated[bool, typer.Option("--now", help="Leave out what has happened already.")] = False,
    full: Full = False,
    as_json: Json = False,
) -> None:
    """Follow a run as it happens, until its end; Ctrl-C leaves the run alone."""
    _run(_watch(run, now, full, as_json), as_json)


async def _watch(run: str, now: bool, full: bool, as_json: bool) -> int:
    client = await _connect()
    found = await client.describe(run)
    if found.open and not await client.is_served(found.task_queue):
        hint(f"no worker serves its task queue '{found.task_queue}': nothing happens until one does")
    end = ""
    async for what in happenings.of(client, run, follow=True, from_now=now):
        if as_json:
            print_json(vars(what) | {"at": what.at.isoformat()})
        else:
            happenings.tell(what, full=full)
        end = what.who if what.kind == "ended" else end
    return 1 if end in ("failed", "terminated", "timed_out") else 0


@app.command()
def audit(run: Run, full: Full = False, as_json: Json = False) -> None:
    """Show who decided what, and which attempts were refused."""
    _run(_audit(run, full, as_json), as_json)


async def _audit(run: str, full: bool, as_json: bool) -> int:
    found = await (await _connect()).audit(run)
    if as_json:
        print_json(found)
    else:
        views.audit(found, full=full)
    return 0


# ------------------------------------------------------------------------------------------------- deciding


@app.command()
def approve(
    run: Run,
    ids: Ids = None,
    comment: Annotated[str | None, typer.Option("--comment", "-c", help="A note the agent reads.")] = None,
    remember: Annotated[
        bool, typer.Option("--remember", help="Also release later calls of this run with the same arguments.")
    ] = False,
    all_: All = False,
    under: Under = None,
    by: By = "",
    by_signal: Signal = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Let it run."""
    decision = _decision("approve", comment=comment, remember="call" if remember else None)
    _run(_decide_many(run, ids, decision, all_, under, by, by_signal, yes, as_json), as_json)


@app.command()
def reject(
    run: Run,
    ids: Ids = None,
    reason: Annotated[str | None, typer.Option("--reason", "-r", help="What the agent is told.")] = None,
    all_: All = False,
    under: Under = None,
    by: By = "",
    by_signal: Signal = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Do not let it run; the agent hears the reason and may change its plan."""
    decision = _decision("reject", reason=reason)
    _run(_decide_many(run, ids, decision, all_, under, by, by_signal, yes, as_json), as_json)


@app.command()
def accept(
    run: Run,
    ids: Ids = None,
    comment: Annotated[str | None, typer.Option("--comment", "-c", help="A note for the record.")] = None,
    all_: All = False,
    under: Under = None,
    by: By = "",
    by_signal: Signal = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Take the content as it is."""
    decision = _decision("accept", comment=comment)
    _run(_decide_many(run, ids, decision, all_, under, by, by_signal, yes, as_json), as_json)


@app.command()
def revise(
    run: Run,
    id: Id = None,
    feedback: Annotated[str | None, typer.Option("--feedback", "-f", help="What should change.")] = None,
    by: By = "",
    by_signal: Signal = False,
    as_json: Json = False,
) -> None:
    """Have the content revised."""

    async def decision(target: Target) -> dict[str, Any] | None:
        if feedback is not None:
            return _decision("revise", feedback=feedback)
        _wants_terminal("--feedback", as_json)
        _show_target(target)
        return _decision("revise", feedback=await keyboard.ask("what should change?"))

    _run(_decide_one(run, id, "revise", decision, by, by_signal, as_json), as_json)


@app.command()
def answer(
    run: Run,
    id: Id = None,
    answers: Annotated[
        list[str] | None, typer.Option("--answer", "-a", help="One for all questions, or one each, in order.")
    ] = None,
    by: By = "",
    by_signal: Signal = False,
    as_json: Json = False,
) -> None:
    """Answer what an agent asks."""

    async def decision(target: Target) -> dict[str, Any] | None:
        if answers and len(answers) == 1:
            return _decision("answer", answer=answers[0])
        if answers:
            return _decision("answer", answers=answers)
        _wants_terminal("--answer", as_json)
        if target.listed is None or not isinstance(target.listed.question, FollowUp):
            raise BadInput(f"'{target.id}' asks nothing: {command('show', run)}")
        return await deciding.decide_at_prompt(target.listed)

    _run(_decide_one(run, id, "answer", decision, by, by_signal, as_json), as_json)


@app.command()
def edit(
    run: Run,
    id: Id = None,
    arguments: Annotated[
        str | None, typer.Option("--arguments", metavar="JSON", help="The whole object, or @FILE.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Replace one argument; may be repeated."),
    ] = None,
    by: By = "",
    by_signal: Signal = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Let it run with other arguments: given here, or edited in $EDITOR."""

    async def decision(target: Target) -> dict[str, Any] | None:
        if arguments is not None and set_:
            raise BadInput("give either --arguments or --set")
        asked = target.listed.question if target.listed else None
        if arguments is not None:
            changed = json_of(arguments, "--arguments")
            if not isinstance(changed, dict):
                raise BadInput("--arguments is one JSON object")
        elif not isinstance(asked, Review):
            raise BadInput(f"'{target.id}' has no arguments to edit: {command('show', run)}")
        elif set_:
            changed = with_values(asked.arguments, set_)
        else:
            _wants_terminal("--arguments or --set", as_json)
            changed = await keyboard.edited(asked.arguments)
        if isinstance(asked, Review):
            if changed == asked.arguments:
                raise BadInput("nothing was changed, so nothing was sent: to let it run as it is, approve it")
            if not as_json:
                views.difference(asked.arguments, changed)
        if keyboard.present() and not yes and not as_json and not await keyboard.yes("send this?"):
            return None
        return _decision("edit", arguments=changed)

    _run(_decide_one(run, id, "edit", decision, by, by_signal, as_json), as_json)


@app.command()
def resume(
    run: Run,
    id: Id = None,
    data: Annotated[
        str | None, typer.Option("--data", metavar="JSON", help="What the tool asked for: JSON, or @FILE.")
    ] = None,
    text: Annotated[str | None, typer.Option("--text", help="The same, as a plain text.")] = None,
    targets: Annotated[
        str | None, typer.Option("--targets", metavar="JSON", help="Many at once: {id: decision}, or @FILE.")
    ] = None,
    by: By = "",
    by_signal: Signal = False,
    as_json: Json = False,
) -> None:
    """Answer what a tool asks from inside, with data or without; or decide many interrupts, all or none."""
    if targets is not None:
        _run(_resume_many(run, id, targets, by, by_signal, as_json), as_json)
        return

    async def decision(target: Target) -> dict[str, Any] | None:
        if data is not None and text is not None:
            raise BadInput("give either --data or --text")
        value = json_of(data, "--data") if data is not None else text
        return _decision("resume", data=value)

    _run(_decide_one(run, id, "resume", decision, by, by_signal, as_json), as_json)


@app.command()
def withdraw(
    run: Run,
    id: Id = None,
    reason: Annotated[str | None, typer.Option("--reason", "-r", help="For the record.")] = None,
    by: By = "",
    as_json: Json = False,
) -> None:
    """Close a question without running what it asks about."""
    _run(_withdraw(run, id, reason, by, as_json), as_json)


async def _withdraw(run: str, id: str | None, reason: str | None, by: str, as_json: bool) -> int:
    client = await _connect()
    (target,) = await deciding.targets(client, run, [id] if id else [], "withdraw")
    await client.withdraw(run, target.id, by=by or _login(), reason=reason, **_proof(target))
    return _report(run, [_sent(target.id, "withdrawn")], as_json)


Decision = Callable[[Target], Coroutine[Any, Any, dict[str, Any] | None]]


async def _decide_one(
    run: str, id: str | None, verb: str, decision: Decision, by: str, by_signal: bool, as_json: bool
) -> int:
    client = await _connect()
    (target,) = await _targets(client, run, [id] if id else None, verb, False, None, by_signal)
    decided = await decision(target)
    if decided is None:
        hint("nothing was sent")
        return 1
    with _progress("sending …", quiet=as_json):
        sent = await _send(client, run, target, decided, by, by_signal)
    return _report(run, [sent], as_json)


async def _decide_many(
    run: str,
    ids: list[str] | None,
    decision: dict[str, Any],
    all_: bool,
    under: str | None,
    by: str,
    by_signal: bool,
    yes: bool,
    as_json: bool,
) -> int:
    client = await _connect()
    verb = decision["decision"]
    found = await _targets(client, run, ids, verb, all_, under, by_signal)
    if not ids and keyboard.present() and not yes and not as_json:
        for target in found:
            _show_target(target)
        if not await keyboard.yes(f"{verb} this?" if len(found) == 1 else f"{verb} these {len(found)}?"):
            hint("nothing was sent")
            return 1
    sent = []
    for target in found:
        try:
            sent.append(await _send(client, run, target, decision, by, by_signal))
        except SignoffError as error:
            if len(found) == 1:
                raise
            sent.append({"id": target.id, "status": "refused", "reason": str(error)})
    return _report(run, sent, as_json)


async def _resume_many(
    run: str, id: str | None, targets: str, by: str, by_signal: bool, as_json: bool
) -> int:
    if id is not None:
        raise BadInput("give either an ID or --targets")
    client = await _connect()
    request = {"targets": json_of(targets, "--targets"), "by": by or _login()}
    if by_signal:
        await client.resume_by_signal(run, request)
        return _report(run, [_sent(target, "left") for target in request["targets"]], as_json)
    reply = await client.resume(run, request)
    return _report(
        run, [{"id": id, **result.model_dump(mode="json")} for id, result in reply.results.items()], as_json
    )


async def _targets(
    client: Client, run: str, ids: list[str] | None, verb: str, all_: bool, under: str | None, by_signal: bool
) -> list[Target]:
    """What is meant. A decision left for later needs ids: there may be nobody to ask what waits."""
    if by_signal and ids and not all_:
        return [Target(id) for id in dict.fromkeys(ids)]
    try:
        return await deciding.targets(client, run, ids or [], verb, all=all_, under=under)
    except NoWorker as error:
        waiting = (await client.describe(run)).ids
        later = command(verb, run, waiting[0] if len(waiting) == 1 else "ID", "--signal")
        raise NoWorker(f"{error}; or leave the decision for later: {later}") from None


async def _send(
    client: Client, run: str, target: Target, decision: dict[str, Any], by: str, by_signal: bool
) -> dict[str, Any]:
    envelope = {"by": by or _login(), **_proof(target)}
    if by_signal:
        waiting = await client.describe(run)
        await client.resume_by_signal(run, {"targets": {target.id: decision}, **envelope})
        if target.id not in waiting.ids and len(waiting.ids) == waiting.count:
            return _sent(target.id, "left") | {
                "reason": "nothing is known to wait under this id: it may be refused"
            }
        return _sent(target.id, "left")
    reply = await client.decide(run, target.id, decision, **envelope)
    result = reply.results[target.id]
    return {"id": target.id, **result.model_dump(mode="json")}


def _proof(target: Target) -> dict[str, Any]:
    """What the decision must still be true of: the run and the question as they were listed."""
    return {"run": target.listed.run, "digest": target.listed.digest} if target.listed else {}


def _sent(id: str, status: str) -> dict[str, Any]:
    return {"id": id, "status": status}


def _report(run: str, sent: list[dict[str, Any]], as_json: bool) -> int:
    """What became of each, and the exit code."""
    bad = [each for each in sent if each["status"] in ("refused", "skipped")]
    if as_json:
        print_json({"workflow_id": run, "results": sent})
        return 1 if bad else 0
    for each in sent:
        said = each.get("decision") if each["status"] == "taken" else each["status"]
        refused = each in bad
        mark = ("✘ ", "bold red") if refused else ("✔ ", "green")
        if each["status"] == "left":
            mark = ("→ ", "yellow")
        out.print(styled(mark, (screen.visible(each["id"]), "bold"), f"  {said}"), soft_wrap=True)
        if each.get("reason"):
            say((screen.shown(each["reason"]), "red" if refused else ""), indent=4)
    if any(each["status"] == "left" for each in sent):
        hint(f"left for the run; whether it was taken: {command('audit', run)}")
    return 1 if bad else 0


def _decision(verb: str, **fields: Any) -> dict[str, Any]:
    return {"decision": verb, **{name: value for name, value in fields.items() if value is not None}}


def _show_target(target: Target) -> None:
    if target.listed is not None:
        out.print(views.question(target.listed))
    else:
        say((screen.visible(target.id), "bold"))


def _wants_terminal(option: str, as_json: bool) -> None:
    if as_json or not keyboard.present():
        raise BadInput(f"give {option}: there is no terminal to ask at")


# --------------------------------------------------------------------------------------- say, end, cancel


@app.command(name="say")
def say_(
    run: Run, text: Annotated[str, typer.Argument(metavar="TEXT")], by: By = "", as_json: Json = False
) -> None:
    """Say something in a conversation."""
    _run(_say(run, text, by, as_json), as_json)


async def _say(run: str, text: str, by: str, as_json: bool) -> int:
    await (await _connect()).say(run, text, by=by or _login())
    return _done(run, "said", as_json)


@app.command()
def end(run: Run, by: By = "", as_json: Json = False) -> None:
    """End a conversation in good order."""
    _run(_end(run, by, as_json), as_json)


async def _end(run: str, by: str, as_json: bool) -> int:
    await (await _connect()).end(run, by=by or _login())
    return _done(run, "ended", as_json)


@app.command()
def cancel(
    run: Run,
    reason: Annotated[str, typer.Option("--reason", "-r", help="For the record.")] = "",
    as_json: Json = False,
) -> None:
    """Stop a run: open questions close as cancelled, and it ends with what it has."""
    _run(_cancel(run, reason, as_json), as_json)


async def _cancel(run: str, reason: str, as_json: bool) -> int:
    client = await _connect()
    await client.cancel(run, reason=reason)
    with _progress("waiting for its end …", quiet=as_json):
        try:
            async with asyncio.timeout(min(options.timeout, 5.0)):
                end = await client.result(run)
        except TimeoutError:
            if not as_json:
                hint("asked to stop; it ends when a worker has answered and tools in flight have come home")
            return _done(run, "cancel requested", as_json)
    return _done(run, end.status, as_json)


def _done(run: str, what: str, as_json: bool) -> int:
    if as_json:
        print_json({"workflow_id": run, "status": what})
    else:
        say(("✔ ", "green"), (screen.visible(run), "bold"), f"  {what}")
    return 0


# --------------------------------------------------------------------------------------------------- running


async def _connect(task_queue: str | None = None) -> Client:
    return await Client.connect(
        options.address,
        namespace=options.namespace,
        profile=options.profile,
        task_queue=task_queue,
        timeout=options.timeout,
    )


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "somebody"


def _now() -> str:
    from datetime import datetime

    return datetime.now().strftime("%H:%M:%S")


class _Progress:
    """A spinner on standard error for what takes longer than a second; nothing where nobody sees it."""

    def __init__(self, text: str, quiet: bool) -> None:
        self._status = None if quiet or not screen.err.is_terminal else screen.err.status(text)
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> "_Progress":
        if self._status is not None:
            self._timer = asyncio.get_running_loop().call_later(0.7, self._status.start)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._status is not None:
            self._status.stop()


def _progress(text: str, *, quiet: bool = False) -> _Progress:
    return _Progress(text, quiet)


async def _until_told(verb: Coroutine[Any, Any, int]) -> int:
    """Run a verb; SIGTERM and a closed terminal end it as Ctrl-C does, with whatever it had started."""
    task = asyncio.current_task()
    assert task is not None
    for each in ("SIGTERM", "SIGHUP"):
        with contextlib.suppress(NotImplementedError, AttributeError):
            asyncio.get_running_loop().add_signal_handler(getattr(signal, each), task.cancel)
    return await verb


def _run(verb: Coroutine[Any, Any, int], as_json: bool) -> None:
    """Run a verb to its exit code; what goes wrong is one line."""
    options.as_json = as_json
    try:
        code = asyncio.run(_until_told(verb))
    except SignoffError as error:
        complain(str(error), as_data=type(error).__name__ if as_json else None)
        code = 1
    except NobodyThere:
        out.print()
        hint("the input has ended: nothing more was sent")
        code = 1
    except KeyboardInterrupt:
        screen.err.print()
        hint("stopped: nothing more was sent")
        code = INTERRUPTED
    except asyncio.CancelledError:
        code = TERMINATED
    except BrokenPipeError:
        code = BROKEN_PIPE
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(code)


def main() -> None:
    """The entry point: runs the command line and ends the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # both are text files
    try:
        app(prog_name="signoff")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:  # a mistake of ours: one line for the person, the rest for whoever mends it
        if os.environ.get("SIGNOFF_DEBUG"):
            traceback.print_exc()
        complain(f"{type(error).__name__}: {error} (a bug; SIGNOFF_DEBUG=1 shows where)")
        code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = BROKEN_PIPE
    # A Python that ends while the SDK's threads return aborts now and then.
    os._exit(code)


if __name__ == "__main__":
    main()
