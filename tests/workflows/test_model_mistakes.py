"""What a model gets wrong is told to it; nobody is asked about what cannot run, and nothing goes on for ever."""

from typing import Any

import pytest
from temporalio.client import Client

from activities.model import Prompt
from protocol.agents import Chat, Gate, ToolSpec
from protocol.messages import Reply
from tests.kit import calls, house, says
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


UNFIT_SCHEMAS: list[tuple[dict[str, Any], Any]] = [
    ({"type": "string", "pattern": r"^\p{L}+$"}, "x"),
    ({"type": "number", "multipleOf": 0.1}, 10**400),
    ({"type": "integer", "multipleOf": 0}, 3),
    ({"type": ["string", 5]}, 3),
    ({"$ref": "#/nowhere"}, 3),
    ({"$ref": "http://schemas.test/a.json"}, 3),
    ({"$ref": "#/properties/a"}, 3),
]


async def test_a_schema_that_cannot_be_applied_lets_nothing_through_and_wedges_nothing(
    client: Client,
) -> None:
    """Schemas come from any language, and a model may send numbers that no division survives."""
    tools = tuple(
        ToolSpec(
            name=f"t{n}",
            description="",
            parameters={"type": "object", "properties": {"a": schema}},
            gate=Gate(kind="approval"),
        )
        for n, (schema, _) in enumerate(UNFIT_SCHEMAS)
    )
    asked = [(f"t{n}", f"c{n}", {"a": value}) for n, (_, value) in enumerate(UNFIT_SCHEMAS)]
    async with house(client, [], [calls(*asked), says("done")]) as h:
        run = await h.start(Chat(name="bank", tools=tools))
        assert (await run.result()).status == "completed"
        for (schema, value), said in zip(UNFIT_SCHEMAS, told(h).values(), strict=True):
            why = "is too large" if value == 10**400 else "the schema cannot be applied"
            assert why in said, schema
        await run.replay()


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
