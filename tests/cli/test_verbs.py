"""Every verb of the command line, on a real server with a real worker."""

import asyncio
import json
import re
import uuid
from pathlib import Path

import pytest
from temporalio.client import Client as Temporal

from activities.model import ModelFailure, Prompt
from protocol.agents import Chat
from protocol.messages import Reply
from tests.cli.conftest import Cli
from tests.kit import calls, house, says
from tests.workflows.hands import bank

CALL = "ticket_booker>BookTicket:call_1"


def fresh(name: str = "run") -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"


def ended(cli: Cli, id: str) -> dict[str, object]:
    found: dict[str, object] = cli.eventually(
        lambda: (seen := cli("show", id, "--json").json).get("answer") is not None and seen,
        "the run never ended",
    )
    return found


# ------------------------------------------------------------------------------------ from start to end


def test_a_run_is_started_found_in_the_inbox_and_approved(cli: Cli) -> None:
    """B119: processes that know the server's address alone"""
    id = cli.started("approval")
    row = next(row for row in cli("inbox", "--json", "-n", "500").json["rows"] if row["workflow_id"] == id)
    assert row["ids"] == [CALL]
    assert row["interrupts"][0]["question"]["arguments"]["location"] == "Beijing"
    assert row["run"] == row["interrupts"][0]["run"]

    approved = cli("approve", id, CALL)
    assert (approved.code, approved.out) == (0, f"✔ {CALL}  approve\n")
    end = ended(cli, id)
    assert end["status"] == "completed"
    assert "booked for Martin" in str(end["answer"])


def test_a_decision_needs_no_id_if_only_one_question_fits(cli: Cli) -> None:
    id = cli.started("approval")
    assert cli("approve", id).code == 0
    assert ended(cli, id)["status"] == "completed"


def test_a_decision_carries_who_made_it(cli: Cli) -> None:
    id = cli.started("approval")
    assert cli("reject", id, "--reason", "kein Geld 日本 🎫").code == 0
    ended(cli, id)
    [entry] = cli("audit", id, "--json").json["closed"]
    assert (entry["outcome"], entry["by"], entry["reason"]) == ("rejected", "li.wei", "kein Geld 日本 🎫")


def test_start_with_an_id_shows_the_run_that_has_it_and_does_not_double_it(cli: Cli) -> None:
    id = fresh()
    first, second = (
        cli("start", "approval", "--id", id, "--json"),
        cli("start", "approval", "--id", id, "--json"),
    )
    assert (first.json["already_running"], second.json["already_running"]) == (False, True)
    assert first.json["run"] == second.json["run"]
    cli.eventually(lambda: cli("approve", id).code == 0)
    ended(cli, id)
    third = cli("start", "approval", "--id", id)
    assert third.code == 1
    assert "has ended (completed), and its id is not used again" in third.err


def test_an_exported_scenario_starts_from_its_file(cli: Cli) -> None:
    exported = cli("export", "review_edit")
    file = cli.folder / "start.json"
    file.write_text(exported.out, encoding="utf-8")
    from_file = cli("start", "--file", str(file), "--json")
    from_stdin = cli("start", "--file", "-", "--json", input=exported.out)
    for started in (from_file, from_stdin):
        assert started.code == 0, started.err
        assert cli("cancel", started.json["id"]).code == 0


def test_several_are_decided_apart_and_the_rest_together(cli: Cli) -> None:
    id = cli.started("approval", "--variant", "two_calls")
    some = cli("approve", id, CALL, "nothing:there")
    assert some.code == 1
    assert f"✔ {CALL}  approve" in some.out
    assert "nothing waits under 'nothing:there'" in some.out
    rest = cli("reject", id, "--all", "--under", "ticket_booker", "--reason", "no", "--json")
    assert rest.json["results"] == [
        {"id": "ticket_booker>BookTicket:call_2", "status": "taken", "decision": "reject"}
    ]
    assert "No ticket to Shanghai" in str(ended(cli, id)["answer"])


def test_two_that_fit_have_to_be_named(cli: Cli) -> None:
    id = cli.started("approval", "--variant", "two_calls")
    refused = cli("approve", id)
    assert refused.code == 1
    assert CALL in refused.err
    assert len(cli("show", id, "--json").json["interrupts"]) == 2


def test_edit_shows_what_changes_and_sends_it(cli: Cli) -> None:
    id = cli.started("review_edit")
    edited = cli("edit", id, "--set", "location=上海")
    assert edited.code == 0, edited.err
    assert '-  "location": "Beijing"' in edited.out
    assert '+  "location": "上海"' in edited.out
    assert "上海" in str(ended(cli, id)["answer"])


def test_an_edit_that_breaks_the_schema_is_refused_and_the_question_stays(cli: Cli) -> None:
    id = cli.started("review_edit")
    refused = cli("edit", id, "--arguments", '{"location": 5}')
    assert refused.code == 1
    assert "location" in refused.err
    unchanged = cli("edit", id, "--set", "location=Beijing")
    assert "nothing was changed" in unchanged.err
    assert "JSON" in cli("edit", id, "--arguments", "{").err
    assert cli("show", id, CALL, "--json").json["id"] == CALL


def test_questions_are_answered(cli: Cli) -> None:
    id = cli.started("follow_up")
    assert "2 questions want 2 answers" in cli("answer", id, "-a", "x", "-a", "y", "-a", "z").err
    assert cli("answer", id, "-a", "jazz", "-a", "150 dollars").code == 0
    assert "jazz" in str(ended(cli, id)["answer"])


def test_content_is_revised_and_accepted(cli: Cli) -> None:
    id = cli.started("feedback_loop")
    first = cli("show", id, "--json").json["interrupts"][0]["id"]
    assert cli("revise", id, "--feedback", "funnier").code == 0
    second = cli.eventually(
        lambda: [i["id"] for i in cli("show", id, "--json").json["interrupts"] if i["id"] != first]
    )
    assert cli("accept", id, second[0]).code == 0
    assert ended(cli, id)["status"] == "completed"


def test_a_question_is_withdrawn(cli: Cli) -> None:
    id = cli.started("approval")
    assert cli("withdraw", id, CALL, "--reason", "asked by mistake").code == 0
    ended(cli, id)
    assert cli("audit", id, "--json").json["closed"][0]["outcome"] == "withdrawn"


def test_cancelling_says_what_it_came_to(cli: Cli) -> None:
    """B105"""
    id = cli.started("approval")
    assert cli("cancel", id, "--reason", "not needed", "--json").json["status"] == "cancelled"
    for words in (["cancel", id], ["approve", id], ["approve", id, CALL]):
        refused = cli(*words)
        assert refused.code == 1, words
        assert f"the run '{id}' has ended (cancelled at " in refused.err


def test_only_a_conversation_is_spoken_to(cli: Cli) -> None:
    id = cli.started("approval")
    for refused in (cli("say", id, "hello"), cli("end", id)):
        assert refused.code == 1
        assert "start it with chat=true" in refused.err


def test_a_conversation_is_spoken_to_and_ended(cli: Cli) -> None:
    id = cli.started("approval", "--chat")
    assert cli("say", id, "Are you there?").code == 0
    assert cli("end", id).code == 0
    assert "ended" in cli("say", id, "still?").err
    cli("cancel", id)


# ------------------------------------------------------------------------------------------- looking


def test_show_draws_the_tree_the_conversation_and_what_waits(cli: Cli) -> None:
    id = cli.started("nested")
    shown = cli("show", id)
    assert "executor#3  chat  waiting" in shown.out
    assert "allocate_budget:call_1  waiting" in shown.out
    assert "This is one for the project agent." in shown.out
    waiting = "pm_supervisor>project_execution_agent>executor#3>allocate_budget:call_1"
    assert re.search(rf"approve {id} '{waiting}'$", shown.out, flags=re.MULTILINE)
    assert '"Customer Portal"' in cli("show", id, waiting).out
    assert cli("show", id, "--agent", "nobody").code == 1


def test_what_is_cut_says_how_much_is_hidden(cli: Cli) -> None:
    id = cli.started("approval", "--task", "Book a ticket to Beijing for Martin 1234567. " + "x" * 1_000)
    assert "… (445 more characters: --full)" in cli("show", id).out
    full = cli("show", id, "--full").out
    assert "more characters" not in full
    assert full.count("x") >= 1_000


def test_the_inbox_filters(cli: Cli) -> None:
    booked, asked = cli.started("approval"), cli.started("follow_up")

    def found(*words: str) -> set[str]:
        rows = cli("inbox", "--json", "-n", "500", *words).json["rows"]
        return {row["workflow_id"] for row in rows} & {booked, asked}

    assert found() == {booked, asked}
    assert found("--agent", "ticket_booker") == {booked}
    assert found("--kind", "follow_up") == {asked}
    assert found("--prefix", "itinerary_agent>") == {asked}
    assert found("--older-than", "2h") == set()
    assert found("--older-than", "0.1s") == {booked, asked}
    assert found("--approver", "O'Brien\\") == set()
    assert found("--agent", "' OR SignoffStatus = 'waiting") == set()


def test_the_inbox_has_pages(cli: Cli) -> None:
    ids = {cli.started("approval") for _ in range(3)}
    cli.eventually(lambda: cli("inbox", "--json").json["total"] >= 3)
    seen: list[str] = []
    page: list[str] = []
    while True:
        found = cli("inbox", "--json", "-n", "1", *page).json
        seen += [row["workflow_id"] for row in found["rows"]]
        if found["next"] is None:
            break
        page = ["--page", found["next"]]
    assert len(seen) == len(set(seen))
    assert ids <= set(seen)
    assert cli("inbox", "--page", "no page!").code == 1


def test_watch_tells_a_run_from_its_start_to_its_end(cli: Cli) -> None:
    id = cli.started("approval")
    assert cli("reject", id, "--reason", "take Tianjin").code == 0
    cli.eventually(lambda: cli("approve", id).code == 0)
    told = [json.loads(line) for line in cli("watch", id, "--json").out.splitlines()]
    kinds = [each["kind"] for each in told]
    assert kinds[:3] == ["task", "said", "called"]
    assert kinds[-1] == "ended"
    assert [each["who"] for each in told if each["kind"] == "asked"] == [
        CALL,
        "ticket_booker>BookTicket:call_2",
    ]
    assert [each["data"]["decision"] for each in told if each["kind"] == "sent"] == ["reject", "approve"]
    assert "✎ li.wei reject" in cli("watch", id).out
    only_new = cli("watch", id, "--now")
    assert (only_new.code, only_new.out) == (0, "")


# ----------------------------------------------------------------------------------------- bad input


def test_an_id_with_a_typo_is_refused_with_what_was_meant(cli: Cli) -> None:
    id = cli.started("approval")
    for said in (cli("approve", id, CALL + "1"), cli("show", id, CALL + "1")):
        assert said.code == 1
        assert f"nothing waits under '{CALL}1'; waiting: {CALL}" in said.err
        assert said.out == ""


def test_a_decision_that_does_not_fit_is_refused_with_what_does(cli: Cli) -> None:
    id = cli.started("approval")
    assert "it takes approve or reject, not answer" in cli("answer", id, CALL, "-a", "x").err
    assert "what waits takes approve, reject: " in cli("answer", id, "-a", "x").err
    assert cli("approve", id, CALL).code == 0


def test_a_closed_run_is_refused_with_how_it_ended(cli: Cli) -> None:
    """B105"""
    id = cli.started("approval")
    assert cli("approve", id).code == 0
    ended(cli, id)
    for words in (["approve", id], ["approve", id, CALL], ["reject", id, CALL, "--signal"], ["say", id, "x"]):
        refused = cli(*words)
        assert refused.code == 1, words
        assert f"the run '{id}' has ended (completed at" in refused.err
    assert cli("show", id).code == 0


@pytest.mark.parametrize(
    "words",
    [
        ["show"],
        ["approve"],
        ["reject"],
        ["edit"],
        ["answer", "-a", "x"],
        ["revise", "--feedback", "x"],
        ["accept"],
        ["resume"],
        ["withdraw"],
        ["say", "x"],
        ["end"],
        ["watch"],
        ["audit"],
        ["cancel"],
    ],
    ids=lambda words: words[0],
)
def test_a_run_that_never_was_is_refused(cli: Cli, words: list[str]) -> None:
    """B105"""
    verb, *more = words
    for as_json in ([], ["--json"]):
        refused = cli(verb, "no-such-run", *more, *as_json)
        assert (refused.code, refused.out) == (1, "")
        assert "there is no run 'no-such-run'" in refused.err
        [line] = refused.err.splitlines()
        assert not as_json or json.loads(line)["error"] == "NoSuchRun"


def test_a_server_that_is_not_there_is_named(cli: Cli) -> None:
    """B105"""
    for words in (["inbox"], ["approve", "x"], ["start", "approval"], ["watch", "x"], ["demo", "--auto"]):
        said = cli("--address", "127.0.0.1:9", *words)
        assert said.code == 1, words
        assert said.err.splitlines() == [
            "error: no Temporal server answers at 127.0.0.1:9: start one (`signoff dev`), "
            "or name yours in TEMPORAL_ADDRESS"
        ]


def test_a_namespace_that_is_not_there_is_named(cli: Cli) -> None:
    for words in (["inbox"], ["approve", "x"], ["start", "approval"]):
        said = cli("--namespace", "nowhere", *words)
        assert said.code == 1, words
        assert "has no namespace 'nowhere'" in said.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["start", "aproval"], "did you mean approval?"),
        (["start"], "give either a scenario"),
        (["start", "--file", "nowhere.json"], "No such file"),
        (["start", "approval", "--task", "  "], "task is empty"),
        (["start", "approval", "--id", " "], "--id is empty"),
        (["demo", "approval", "--variant", "x"], "no variant 'x'; it has: approve"),
        (["demo", "--model", "gpt"], "there is no model 'gpt'"),
        (["demo", "--model", "openai"], "set OPENAI_API_KEY"),
        (["inbox", "--older-than", "yesterday"], "no age"),
        (["inbox", "--kind", "x"], "there is no kind 'x'"),
        (["approve", "x", "y", "--all"], "either ids or --all"),
    ],
)
def test_bad_input_is_one_line_that_says_what_to_do(cli: Cli, words: list[str], reason: str) -> None:
    said = cli(*words)
    assert said.code == 1
    assert reason in said.err
    assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not valid JSON"),
        ("[]", "no start input"),
        ('{"task": "x", "task": "y"}', "the key 'task' stands twice"),
        ('{"task": "x", "agent": {"kind": "chat", "name": "a"}, "extra": 1}', "unknown field 'extra'"),
        ('{"task": "x", "agent": {"kind": "chat", "name": "resume"}}', "may not be called 'resume'"),
    ],
)
def test_wrong_start_input_is_refused_before_it_is_sent(cli: Cli, text: str, reason: str) -> None:
    """B038"""
    file = Path(cli.folder / "start.json")
    file.write_text(text)
    said = cli("start", "--file", str(file))
    assert said.code == 1
    assert reason in said.err


async def test_an_id_with_separators_in_it_is_named_as_it_is_shown(cli: Cli, client: Temporal) -> None:
    """B077"""
    async with bank(client, [calls(("pay", "a>b x#2", {"amount": 1})), says("done")]) as (h, agent, effects):
        run = await h.start(agent)
        [waiting] = await run.waiting(1)
        assert "%3E" in waiting.id
        shown = await asyncio.to_thread(cli, "show", run.id, waiting.id, "--json")
        assert shown.json["id"] == waiting.id
        assert (await asyncio.to_thread(cli, "approve", run.id, waiting.id)).code == 0
        await run.result()
        assert effects.count("pay") == 1


async def test_what_fails_and_is_tried_again_is_shown(cli: Cli, client: Temporal) -> None:
    """A model endpoint that is down: the run looks alive, and says what keeps it"""

    def down(prompt: Prompt) -> Reply:
        raise ModelFailure("the endpoint refuses the connection", final=False)

    async with house(client, [], down) as h:
        run = await h.start(Chat(name="bank"))

        def trouble() -> object:
            return cli("show", run.id, "--json").json["troubles"]

        [said] = await asyncio.to_thread(cli.eventually, trouble)
        assert said.startswith("a model call fails, attempt ")
        assert "the endpoint refuses the connection" in said
        shown = await asyncio.to_thread(cli, "show", run.id)
        assert "! a model call fails" in shown.out
        await run.handle.terminate()
        h.runs.clear()
