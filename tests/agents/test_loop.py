"""Loops with a person's way out: drafts, feedback, and the limit."""

import pytest
from temporalio.client import Client

from activities.scripted_model import Prompt
from protocol import texts
from protocol.agents import AnyAgent, Chat, Deadline, Loop, Parallel, Review, Sequential, Step
from protocol.interrupts import Feedback
from protocol.messages import Reply, User
from protocol.views import Listed
from tests.agents.hands import Hands, by_address, contents, ids
from tests.kit import Run, house, says


def drafts(prompt: Prompt) -> Reply:
    """The n-th draft follows n - 1 of its own."""
    mine = [m for m in prompt.messages if isinstance(m, User) and m.content.startswith("[writer]: ")]
    return says(f"v{len(mine) + 1}")


def editor(max_rounds: int | None = None) -> Loop:
    return Loop(name="editor", children=(Chat(name="writer"), Review(name="reviewer")), max_rounds=max_rounds)


async def shown(run: Run) -> Listed:
    [listed] = await run.waiting(1)
    return listed


async def revise(run: Run, feedback: str) -> Listed:
    """Answer what is shown with *feedback*; returns what was shown."""
    listed = await shown(run)
    await run.decide(listed.id, {"decision": "revise", "feedback": feedback})
    return listed


async def test_the_writer_hears_all_feedback_and_the_reviewer_sees_the_latest_draft(client: Client) -> None:
    """B156 P034: the writer's third request holds both drafts and both wishes in order; each round asks anew."""
    async with house(client, [], drafts) as h:
        run = await h.start(editor())
        asked = [await revise(run, "add moon"), await revise(run, "shorter"), await shown(run)]
        await run.decide(asked[-1].id, {"decision": "accept"})
        result = await run.result()
        await run.replay()
    questions = [listed.question for listed in asked]
    assert [(q.content, q.round) for q in questions if isinstance(q, Feedback)] == [
        ("v1", 1),
        ("v2", 2),
        ("v3", 3),
    ]
    assert [listed.id for listed in asked] == ["editor>reviewer", "editor>reviewer#2", "editor>reviewer#3"]
    assert contents(h.model.requests("writer")[2]) == [
        "do it",
        "[writer]: v1",
        "[reviewer]: add moon",
        "[writer]: v2",
        "[reviewer]: shorter",
    ]
    assert result.answer == "v3"


async def test_accepting_exits_at_once_without_a_model_call(client: Client) -> None:
    """P022 C111: what stands after the reviewer in the loop does not run."""
    hands = Hands()
    loop = Loop(
        name="editor",
        children=(
            Chat(name="writer"),
            Review(name="reviewer"),
            Step(name="later", tool=hands.look.spec, arguments={"what": "it"}),
        ),
    )
    async with house(client, hands.all, drafts) as h:
        run = await h.start(loop)
        await run.decide((await shown(run)).id, {"decision": "accept"})
        result = await run.result()
    assert (result.status, result.answer) == ("completed", "v1")
    assert (len(h.model.prompts), hands.ran) == (1, [])


async def test_acceptance_is_a_flag_of_its_own_not_a_word_in_the_feedback(client: Client) -> None:
    """B153: feedback that sounds like a yes is feedback; three revisions, then the flag."""
    said = ["notes are missing", "I cannot find the costs", "yes, fine, but change the title"]
    async with house(client, [], drafts) as h:
        run = await h.start(editor())
        for n, feedback in enumerate(said):
            await revise(run, feedback)
            await shown(run)
            assert contents(h.model.prompts[n + 1].messages)[-1] == f"[reviewer]: {feedback}"
        await run.decide((await shown(run)).id, {"decision": "accept"})
        result = await run.result()
    assert (len(h.model.prompts), result.answer) == (4, "v4")


async def test_a_loop_is_bounded_and_says_so(client: Client) -> None:
    """B153 C110 P028: a person who is never content stops it at max_rounds, with a status that names the limit."""
    async with house(client, [], drafts) as h:
        run = await h.start(editor(max_rounds=5))
        for n in range(5):
            await revise(run, f"again {n}")
        result = await run.result()
    assert result.status == "stopped"
    assert result.answer == f"{texts.after_rounds(5)}; the latest content: v5"
    assert len(h.model.prompts) == 5


async def test_a_draft_that_is_withdrawn_or_expires_is_not_accepted(client: Client) -> None:
    async with house(client, [], drafts) as h:
        run = await h.start(editor())
        await run.update("withdraw", {"target": (await shown(run)).id})
        withdrawn = await run.result()
        loop = Loop(
            name="editor",
            children=(Chat(name="writer"), Review(name="reviewer", deadline=Deadline(after=0.2))),
        )
        expired = await (await h.start(loop)).result()
    assert (withdrawn.status, expired.status) == ("rejected", "rejected")
    assert [entry.outcome for entry in expired.audit.closed] == ["expired"]


@pytest.mark.parametrize("inner", ["sequential", "parallel"])
async def test_a_reviewer_may_stand_deeper_in_the_loop(client: Client, inner: str) -> None:
    """Acceptance ends the loop around it, and feedback reaches the writer, also through a sequence or branches."""
    below: AnyAgent
    if inner == "sequential":
        below = Sequential(name="inner", children=(Chat(name="writer"), Review(name="reviewer")))
        loop = Loop(name="editor", children=(below,))
    else:
        below = Parallel(name="inner", children=(Review(name="reviewer"), Chat(name="other")))
        loop = Loop(name="editor", children=(Chat(name="writer"), below))

    def script(prompt: Prompt) -> Reply:
        return says("me too") if prompt.agent.endswith("other") else says(f"v{prompt.agent.count('#2') + 1}")

    async with house(client, [], script) as h:
        run = await h.start(loop)
        await revise(run, "add moon")
        listed = await shown(run)
        assert isinstance(listed.question, Feedback)
        assert listed.question.content == "v2"
        await run.decide(listed.id, {"decision": "accept"})
        result = await run.result()
    assert result.status == "completed"
    assert "v2" in result.answer
    second = contents(h.model.requests("writer")[1])
    assert "[reviewer]: add moon" in second[-1]


async def test_in_parallel_all_reviewers_must_accept(client: Client) -> None:
    both = Parallel(name="both", children=(Review(name="law"), Review(name="style")))
    loop = Loop(name="editor", children=(Chat(name="writer"), both))
    async with house(client, [], drafts) as h:
        run = await h.start(loop)
        law, style = sorted(await ids(run, 2))
        await run.decide(law, {"decision": "accept"})
        await run.decide(style, {"decision": "revise", "feedback": "add moon"})
        law, style = sorted(await ids(run, 2))
        assert (law, style) == ("editor>both#2>law", "editor>both#2>style")
        await run.update("resume", {"all": {"decision": "accept"}})
        assert (await run.result()).status == "completed"
    assert len(h.model.prompts) == 2


async def test_feedback_is_no_content_for_the_step_after_a_review(client: Client) -> None:
    """Outside of a loop a wish for changes is heard by what follows, but the draft is what goes on."""
    hands = Hands()
    line = Sequential(
        name="line",
        children=(
            Chat(name="writer"),
            Review(name="reviewer"),
            Step(name="print", tool=hands.look.spec, input="what"),
        ),
    )
    async with house(client, hands.all, drafts) as h:
        run = await h.start(line)
        await revise(run, "add moon")
        await run.result()
    assert hands.ran == ["look v1"]


async def test_a_loop_in_a_loop_is_left_alone(client: Client) -> None:
    """P022 C095: acceptance ends the loop that stands around the reviewer, and no other."""
    script = by_address({f"outer>inner{n}>writer": [says("draft")] for n in ("", "#2")})
    inner = Loop(name="inner", children=(Chat(name="writer"), Review(name="reviewer")))
    async with house(client, [], script) as h:
        run = await h.start(Loop(name="outer", children=(inner,), max_rounds=2))
        for visit in ("", "#2"):
            listed = await shown(run)
            assert listed.id == f"outer>inner{visit}>reviewer"
            await run.decide(listed.id, {"decision": "accept"})
        assert (await run.result()).status == "stopped"
