"""Every variant of every scenario, on a real server with a real worker and real tools."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from temporalio.client import Client

from activities.model import Prompt
from protocol import texts
from protocol.interrupts import Review
from protocol.messages import Assistant, Tool, User
from protocol.run import RunResult
from protocol.views import Listed
from scenarios import SCENARIOS, Scenario, Variant
from tests.kit import Run, eventually, house

VARIANTS = [(scenario, variant) for scenario in SCENARIOS.values() for variant in scenario.variants.values()]


@dataclass(frozen=True)
class Told:
    """A run told to its end: what people were asked, in the order of their decisions, and what models were."""

    run: Run
    result: RunResult
    asked: Sequence[Listed]
    prompts: Sequence[Prompt]

    @property
    def ids(self) -> list[str]:
        return [listed.id for listed in self.asked]

    def heard(self, agent: str) -> list[str]:
        """The last message that each model call of an agent (by its address) was asked with."""
        found = [prompt.messages[-1] for prompt in self.prompts if prompt.agent == agent]
        return [message.content or "" for message in found]


async def tell(client: Client, scenario: Scenario, variant: Variant) -> Told:
    """Run a variant; its person decides one question at a time."""
    async with house(client, scenario.tools, scenario.script) as h:
        run = await h.start_json(scenario.request(provider="", variant=variant.name))
        asked: list[Listed] = []

        async def decided_or_done() -> bool | None:
            if (await run.handle.describe()).close_time is not None:
                return True
            for listed in await run.pending():
                if listed.id in [each.id for each in asked]:
                    continue  # decided, and listed by a query that was faster
                await run.decide(listed.id, variant.decide(listed, len(asked)), digest=listed.digest)
                asked.append(listed)
                return None
            return None

        await eventually(decided_or_done, f"the end of {scenario.name} {variant.name}")
        result = await run.result()
        await run.replay()
        return Told(run, result, asked, h.model.prompts)


@pytest.mark.parametrize(
    ("scenario", "variant"),
    VARIANTS,
    ids=[f"{scenario.name}-{variant.name}" for scenario, variant in VARIANTS],
)
async def test_every_variant_ends_as_it_says(
    client: Client, caplog: pytest.LogCaptureFixture, scenario: Scenario, variant: Variant
) -> None:
    """B142: whatever people decide, nothing is logged as wrong, and nothing in the history has failed"""
    told = await tell(client, scenario, variant)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    failed = (
        "ACTIVITY_TASK_FAILED",
        "ACTIVITY_TASK_TIMED_OUT",
        "WORKFLOW_TASK_FAILED",
        "WORKFLOW_TASK_TIMED_OUT",
    )
    assert await told.run.events(*failed) == 0
    assert (told.result.status, told.result.answer) == (variant.status, told.result.answer)
    for words in variant.says:
        assert words in told.result.answer
    assert told.asked, "nobody was asked"
    assert not told.result.audit.refused
    assert [entry.id for entry in told.result.audit.closed] == told.ids
    for prompt in told.prompts:
        assert_valid(prompt)


def assert_valid(prompt: Prompt) -> None:
    """Every call has its one tool message, in call order, before anything else is said; none of them went wrong."""
    waiting: list[str] = []
    for message in prompt.messages:
        if isinstance(message, Tool):
            assert message.tool_call_id == waiting.pop(0)
            assert "cannot be used" not in message.content
            assert "There is no" not in message.content
            continue
        assert not waiting
        if isinstance(message, Assistant):
            waiting = [call.id for call in message.tool_calls]
    assert not waiting
    assert not isinstance(prompt.messages[-1], Assistant)
    nudges = (texts.EMPTY_REPLY, texts.must_call([""])[:12])
    assert not [m for m in prompt.messages if isinstance(m, User) and m.content.startswith(nudges)]


async def run_variant(client: Client, scenario: str, variant: str) -> Told:
    return await tell(client, SCENARIOS[scenario], SCENARIOS[scenario].variants[variant])


# What is told below of single variants is where people are asked, and what the agents make of it.


@pytest.mark.parametrize(
    ("scenario", "variant", "ids"),
    [
        ("approval", "reject", ["ticket_booker>BookTicket:call_1", "ticket_booker>BookTicket:call_2"]),
        ("review_edit", "edit", ["ticket_booker>BookTicket:call_1"]),
        ("feedback_loop", "two_rounds", ["editor>reviewer", "editor>reviewer#2", "editor>reviewer#3"]),
        (
            "follow_up",
            "two_rounds",
            [
                "itinerary_agent>follow_up_agent>follow_up:call_1",
                "itinerary_agent>follow_up_agent>follow_up:call_2",
            ],
        ),
        (
            "supervisor",
            "reject",
            [
                "financial_supervisor>transaction_agent>transfer_funds:call_1",
                "financial_supervisor>transaction_agent#2>transfer_funds:call_1",
            ],
        ),
        (
            "plan_execute_replan",
            "no_edit",
            [
                "travel_planner>executor#2>book_flight:call_1",
                "travel_planner>executor#3>book_hotel:call_1",
                "travel_planner>executor#4>book_flight:call_1",
            ],
        ),
        ("deep_agent", "one_round", ["data_analysis_agent>follow_up:call_1"]),
        (
            "nested",
            "reject_then_smaller_amount",
            [
                "pm_supervisor>project_execution_agent>executor#3>allocate_budget:call_1",
                "pm_supervisor>project_execution_agent>executor#4>allocate_budget:call_1",
            ],
        ),
    ],
)
async def test_people_are_asked_under_the_path_through_the_agents(
    client: Client, scenario: str, variant: str, ids: list[str]
) -> None:
    assert (await run_variant(client, scenario, variant)).ids == ids


@pytest.mark.parametrize(
    ("scenario", "variant", "ids"),
    [
        ("approval", "two_calls", ["ticket_booker>BookTicket:call_1", "ticket_booker>BookTicket:call_2"]),
        (
            "supervisor",
            "two_transfers",
            [
                "financial_supervisor>transaction_agent#2>transfer_funds:call_1",
                "financial_supervisor>transaction_agent>transfer_funds:call_1",
            ],
        ),
        (
            "deep_agent",
            "answered_apart",
            [
                "data_analysis_agent>follow_up:call_1",
                "data_analysis_agent>research_agent#2>follow_up:call_1",
                "data_analysis_agent>research_agent>follow_up:call_1",
            ],
        ),
    ],
)
async def test_what_waits_at_once_is_decided_apart(
    client: Client, scenario: str, variant: str, ids: list[str]
) -> None:
    assert sorted((await run_variant(client, scenario, variant)).ids) == ids


async def test_the_reviewer_sees_the_latest_draft_and_the_writer_all_feedback(client: Client) -> None:
    """B156, P034"""
    told = await run_variant(client, "feedback_loop", "two_rounds")
    drafts = [listed.question.content for listed in told.asked if listed.question.kind == "feedback"]
    assert len(set(drafts)) == 3
    assert told.result.answer == drafts[-1]
    third = [prompt.messages for prompt in told.prompts if prompt.agent == "editor>writer#3"]
    assert [message.content for message in third[0]] == [
        SCENARIOS["feedback_loop"].task,
        texts.said_by("writer", drafts[0]),
        texts.said_by("reviewer", "Make it funnier."),
        texts.said_by("writer", drafts[1]),
        texts.said_by("reviewer", "Put the moon into it."),
    ]


async def test_accepting_needs_no_other_model_call(client: Client) -> None:
    told = await run_variant(client, "feedback_loop", "accept")
    assert len(told.prompts) == 1


async def test_the_replanner_knows_what_a_person_edited(client: Client) -> None:
    """B157"""
    told = await run_variant(client, "plan_execute_replan", "edit")
    [record] = told.heard("travel_planner>replanner#2")
    assert "Decided by people: a person changed the arguments of 'book_flight'" in record
    assert '"date":"2025-10-16"' in record
    questions = [listed.question for listed in told.asked]
    assert [q.arguments["date"] for q in questions if isinstance(q, Review) and q.tool == "book_flight"] == [
        "2025-10-15",
        "2025-10-19",
    ]
    [stay] = [q.arguments for q in questions if isinstance(q, Review) and q.tool == "book_hotel"]
    assert (stay["check_in"], stay["check_out"]) == ("2025-10-16", "2025-10-19")


async def test_the_replanner_knows_what_a_person_refused_and_done_steps_stay_done(client: Client) -> None:
    """B158"""
    told = await run_variant(client, "plan_execute_replan", "reject")
    [record] = told.heard("travel_planner>replanner#3")
    assert "Decided by people: tool 'book_hotel' disapproved, reason: too dear, a standard room" in record
    assert record.count("disapproved") == 1
    steps = [prompt for prompt in told.prompts if prompt.agent.startswith("travel_planner>executor")]
    assert len({prompt.agent for prompt in steps}) == 6  # five steps, and the room once more


@pytest.mark.parametrize("variant", SCENARIOS["nested"].variants)
async def test_the_supervisor_sums_up_after_the_plan_below_it(client: Client, variant: str) -> None:
    """P026, C132"""
    told = await run_variant(client, "nested", variant)
    assert told.prompts[-1].agent == "pm_supervisor"
    assert told.result.answer.startswith("Summary.")
