"""Stopping by configuration: before and after tools, steps and agents, without a change of their code."""

from typing import Any

import pytest
from temporalio.client import Client

from activities.tools import tool
from protocol.agents import Chat, Sequential, Step
from protocol.run import RunRequest
from tests.kit import calls, eventually, house, says
from tests.workflows.hands import bank, told


async def step_by_step(run: Any, *ids: str) -> None:
    """Approve each of these questions as it comes, one after the other."""
    for id in ids:

        async def asked(id: str = id) -> bool:
            return [each.id for each in await run.pending()] == [id]

        await eventually(asked, f"the question {id}")
        await run.approve(id)


async def test_before_gate_and_after_are_questions_of_their_own_in_that_order(client: Client) -> None:
    async with bank(client, [calls(("pay", "p1", {"amount": 5})), says("done")]) as (h, agent, effects):
        run = await h.start(agent, interrupt_before=("pay",), interrupt_after=("bank>pay",))
        [before] = await run.waiting(1)
        assert before.question.when == "before"
        await step_by_step(run, "bank>pay:p1", "bank>pay:p1~2")

        async def after() -> Any:
            return next((each for each in await run.pending() if each.id == "bank>pay:p1~3"), None)

        question = (await eventually(after, "the question after")).question
        assert (question.when, question.result) == ("after", "pay 5.0 done")
        assert effects.done == [("pay", 5)]
        await run.approve("bank>pay:p1~3")
        await run.result()
        assert told(h)["p1"] == "pay 5.0 done"
        await run.replay()


async def test_a_result_can_be_withheld(client: Client) -> None:
    async with bank(client, [calls(("lookup", "l1", {})), says("done")]) as (h, agent, effects):
        run = await h.start(agent, interrupt_after=("*>lookup",))
        [after] = await run.waiting(1)
        await run.reject(after.id, "secret")
        await run.result()
        assert "withholds its result" in told(h)["l1"]
        assert "7.1" not in told(h)["l1"]
        assert effects.done == [("lookup", None)]


class Payout:
    """Check the customer, then pay: two steps without a model."""

    def __init__(self) -> None:
        self.done: list[str] = []
        payout = self

        @tool
        def check(name: str) -> str:
            payout.done.append(f"check {name}")
            return f"{name} is known"

        @tool
        def pay(name: str, basis: str) -> str:
            payout.done.append(f"pay {name}")
            return f"paid {name} since {basis}"

        self.tools = [check, pay]

    def flow(self, **kyc: Any) -> Sequential:
        check, pay = (each.spec for each in self.tools)
        return Sequential(
            name="payout",
            children=(
                Step(name="kyc", tool=check, arguments={"name": "Li Wei"}, **kyc),
                Step(name="payment", tool=pay, arguments={"name": "Li Wei"}, input="basis"),
            ),
        )


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_rejected_kyc_means_no_payment(client: Client, when: str) -> None:
    payout = Payout()
    async with house(client, payout.tools) as h:
        stop: dict[str, Any] = {f"interrupt_{when}": ("kyc",)}
        run = await h.start(payout.flow(), **stop)
        [waiting] = await run.waiting(1)
        assert waiting.id == "payout>kyc"
        await run.reject(waiting.id, "no papers")
        result = await run.result()
        assert result.status == "rejected"
        assert "no papers" in result.answer
        assert payout.done == ([] if when == "before" else ["check Li Wei"])


async def test_an_approved_kyc_leads_to_the_payment(client: Client) -> None:
    payout = Payout()
    async with house(client, payout.tools) as h:
        run = await h.start(payout.flow(), interrupt_before=("payment",), interrupt_after=("kyc",))
        await step_by_step(run, "payout>kyc", "payout>payment")
        result = await run.result()
        assert (result.status, result.answer) == ("completed", "paid Li Wei since Li Wei is known")
        await run.replay()


async def test_continue_on_reject_is_a_matter_of_writing_it_down(client: Client) -> None:
    payout = Payout()
    async with house(client, payout.tools) as h:
        run = await h.start(payout.flow(on_reject="continue"), interrupt_before=("kyc",))
        [waiting] = await run.waiting(1)
        await run.reject(waiting.id)
        assert (await run.result()).status == "completed"
        assert payout.done == ["pay Li Wei"]


async def test_the_root_can_be_stopped_before_and_after(client: Client) -> None:
    async with house(client, [], [says("the answer")]) as h:
        run = await h.start(Chat(name="bank"), interrupt_before=("bank",), interrupt_after=("bank",))
        await step_by_step(run, "bank")

        async def after() -> Any:
            return next(iter(await run.pending()), None)

        question = await eventually(after, "the question after")
        assert (question.id, question.question.result) == ("bank~2", "the answer")
        await run.reject("bank~2")
        result = await run.result()
        assert result.status == "rejected"
        assert len(h.model.prompts) == 1


@pytest.mark.parametrize("pattern", ["pya", "bank>pya", "other>pay", "", "bank>*>check", "*>*>*"])
def test_a_breakpoint_that_matches_nothing_is_refused_at_start(pattern: str) -> None:
    tools = tuple(each.spec for each in Payout().tools)
    agent = Chat(name="bank", tools=tools, agents=(Chat(name="helper"),))
    with pytest.raises(ValueError, match="matches nothing"):
        RunRequest(task="go", agent=agent, interrupt_before=(pattern,))
