"""What a model gets wrong is told to it; nobody is asked about what cannot run, and nothing goes on for ever."""

import pytest
from temporalio.client import Client

from activities.model import Prompt
from protocol.messages import Reply
from tests.kit import calls, says
from tests.workflows.hands import bank, ids, told


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ('{"to":"A","amount": 50', "JSON"),
        ('{"amount": NaN}', "NaN"),
        ('{"amount": 1e400}', "too large"),
        ('{"amount": 1, "amount": 2}', "twice"),
        ("[1]", "object"),
        ('"pay"', "object"),
        ('{"amount": "50"}', "amount"),
        ('{"amount": -5}', "amount"),
        ("{}", "amount"),
        ('{"amount": 5, "is_admin": true}', "is_admin"),
        ("", "amount"),
    ],
)
async def test_arguments_that_cannot_be_used_are_told_and_nobody_is_asked(
    client: Client, broken: str, why: str
) -> None:
    """B079 B087 B051"""
    script = [calls(("pay", "t1", broken)), calls(("pay", "t2", {"amount": 50})), says("done")]
    async with bank(client, script) as (h, agent, effects):
        run = await h.start(agent)
        assert ids(await run.waiting(1)) == ["bank>pay:t2"]
        assert why in told(h)["t1"]
        assert "nobody was asked" in told(h)["t1"]
        await run.approve("bank>pay:t2")
        await run.result()
        assert effects.done == [("pay", 50)]


async def test_the_same_mistake_again_and_again_is_bounded_and_no_success(client: Client) -> None:
    """B081"""
    async with bank(client, lambda prompt: calls(("pay", "t", '{"amount": 5'))) as (h, agent, effects):
        run = await h.start(agent)
        result = await run.result()
        assert result.status == "stopped"
        assert "20 turns" in result.answer
        assert len(h.model.prompts) == 20
        assert effects.done == []


async def test_an_unknown_tool_is_answered_with_the_tools_that_exist(client: Client) -> None:
    """B082"""
    script = [calls(("look_up", "x1", {}), ("lookup", "g1", {})), says("done")]
    async with bank(client, script) as (h, agent, effects):
        run = await h.start(agent)
        assert (await run.result()).status == "completed"
        assert "lookup" in told(h)["x1"]
        assert told(h)["g1"] == "7.1"
        assert effects.done == [("lookup", None)]


@pytest.mark.parametrize("name", ["", "pay>x", "a b", "n" * 200, "工具"])
async def test_an_invented_name_of_any_form_is_answered(client: Client, name: str) -> None:
    """B082"""
    async with bank(client, [calls((name, "x1", {})), says("done")]) as (h, agent, _):
        run = await h.start(agent)
        assert (await run.result()).status == "completed"
        assert "There is no tool" in told(h)["x1"]


async def test_an_empty_reply_gets_another_chance(client: Client) -> None:
    """B084"""
    script = [calls(("lookup", "l", {})), Reply(), says("7.1 it is")]
    async with bank(client, script) as (h, agent, _):
        run = await h.start(agent)
        result = await run.result()
        assert (result.status, result.answer) == ("completed", "7.1 it is")


async def test_nothing_but_empty_replies_is_an_explicit_end(client: Client) -> None:
    """B084"""

    def silent(prompt: Prompt) -> Reply:
        return Reply(content="  ")

    async with bank(client, silent) as (h, agent, _):
        run = await h.start(agent)
        result = await run.result()
        assert result.status == "stopped"
        assert "no answer" in result.answer
        assert len(h.model.prompts) == 3
