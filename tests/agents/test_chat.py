"""Chat agents: the loop of model and tools, its ends, and other agents as tools."""

import asyncio
from typing import Any

import pytest
from temporalio.client import Client

from activities.tools import tool
from protocol import texts
from protocol.agents import Chat, Sequential, Supervisor, follow_up
from protocol.messages import Reply, User
from tests.agents.hands import Hands, by_address, contents, ids, told
from tests.kit import Run, by_agent, calls, eventually, house, says

PAY: Any = {"to": "B", "amount": 500}


async def test_a_gate_in_an_agent_used_as_a_tool_is_asked_at_the_root(client: Client) -> None:
    """B062 P029 C003 C079: one question with the full path, and nothing runs before it is answered."""
    hands = Hands()
    script = by_address(
        {
            "supervisor": [calls(("transaction_agent", "a1", {"request": "pay B"})), says("all done")],
            "supervisor>transaction_agent": [calls(("pay", "call_1", PAY)), says("B was paid")],
        }
    )
    async with house(client, hands.all, script) as h:
        agent = Chat(name="transaction_agent", tools=hands.specs)
        run = await h.start(Chat(name="supervisor", agents=(agent,)))
        [waiting] = await run.waiting(1)
        assert waiting.id == "supervisor>transaction_agent>pay:call_1"
        assert waiting.owner == "supervisor>transaction_agent"
        assert hands.ran == []
        await run.approve(waiting.id)
        result = await run.result()
    assert hands.ran == ["pay B 500"]
    assert told(result.transcript) == {"a1": "B was paid"}
    assert result.answer == "all done"


async def test_an_agent_used_as_a_tool_takes_one_request_and_keeps_its_work_to_itself(client: Client) -> None:
    """C083 C084 C087 C090 C091 C092: its request opens a conversation of its own; only its last words come back."""
    hands = Hands()
    script = by_address(
        {
            "lead": [calls(("helper", "h1", {"request": "look at the moon"})), says("thanks")],
            "lead>helper": [calls(("look", "l1", {"what": "moon"}), text="first I look"), says("it is full")],
        }
    )
    async with house(client, hands.all, script) as h:
        helper = Chat(name="helper", description="Looks at things.", tools=hands.specs)
        run = await h.start(Chat(name="lead", agents=(helper,)), "what about the moon?")
        result = await run.result()
    [offer] = h.model.prompts[0].offers
    assert (offer.name, offer.description, offer.parameters["required"]) == (
        "helper",
        "Looks at things.",
        ["request"],
    )
    assert contents(h.model.requests("helper")[0]) == ["look at the moon"]
    assert told(result.transcript) == {"h1": "it is full"}
    assert contents(h.model.requests("lead")[1]) == ["what about the moon?", "", "it is full"]


async def test_an_error_in_a_sub_agent_reaches_its_parent_as_text(client: Client) -> None:
    """C086 C096: the parent reads who failed and why, and goes on."""
    script = by_address(
        {"lead": [calls(("helper", "h1", {"request": "x"})), says("I go on")], "lead>helper": []}
    )
    async with house(client, [], script) as h:
        run = await h.start(Chat(name="lead", agents=(Chat(name="helper"),)))
        result = await run.result()
    assert (result.status, result.answer) == ("completed", "I go on")
    assert told(result.transcript)["h1"].startswith("agent 'helper' failed: the model gave no reply")


async def test_the_same_sub_agent_twice_has_two_addresses_also_after_a_cold_start(client: Client) -> None:
    """B069: no decision of its first visit can hit the second, though the inner call id is the same."""
    hands = Hands()
    inner = [calls(("pay", "call_1", PAY)), says("paid")]
    script = by_address(
        {
            "lead": [
                calls(("helper", "t1", {"request": "one"})),
                calls(("look", "t2", {"what": "it"})),
                calls(("helper", "t3", {"request": "two"})),
                says("done"),
            ],
            "lead>helper": inner,
            "lead>helper#2": inner,
        }
    )
    agent = Chat(name="lead", agents=(Chat(name="helper", tools=hands.specs),), tools=(hands.look.spec,))
    async with house(client, hands.all, script) as h:
        run = await h.start(agent)
        [first] = await run.waiting(1)
        assert first.id == "lead>helper>pay:call_1"
    async with house(client, hands.all, script, queue=h.queue, max_cached_workflows=0):
        assert await run.waiting(1) == [first]
        await run.approve(first.id)
        assert await ids(run, 1) == ["lead>helper#2>pay:call_1"]
        with pytest.raises(Exception, match="Workflow update failed"):
            await run.approve(first.id)
        assert hands.ran == ["pay B 500", "look it"]
        await run.reject("lead>helper#2>pay:call_1")
        assert (await run.result()).status == "completed"
        await run.replay()


async def test_each_question_of_a_sub_agent_needs_an_answer_of_its_own(client: Client) -> None:
    """B066 C009: the answer to its first question is not used again for its second."""
    hands = Hands()
    script = by_address(
        {
            "lead": [calls(("helper", "t1", {"request": "twice"})), says("done")],
            "lead>helper": [calls(("pay", "c1", PAY)), calls(("pay", "c2", PAY)), says("paid twice")],
        }
    )
    async with house(client, hands.all, script) as h:
        run = await h.start(Chat(name="lead", agents=(Chat(name="helper", tools=hands.specs),)))
        assert await ids(run, 1) == ["lead>helper>pay:c1"]
        await run.approve("lead>helper>pay:c1")
        assert await ids(run, 1) == ["lead>helper>pay:c2"]
        assert len(hands.ran) == 1
        await run.approve("lead>helper>pay:c2")
        await run.result()
    assert len(hands.ran) == 2


async def test_the_tool_of_the_asking_agent_runs_not_its_namesake_above(client: Client) -> None:
    """B065: two agents have a tool of one name; the question and the code that runs belong to the inner one."""
    ran: list[str] = []

    @tool(name="secret_tool", approval=True, activity_type="inner_secret")
    def inner_secret() -> str:
        ran.append("inner")
        return "inner secret"

    @tool(name="secret_tool", activity_type="outer_secret")
    def outer_secret() -> str:
        ran.append("outer")
        return "outer secret"

    script = by_address(
        {
            "outer": [calls(("inner", "i1", {"request": "tell"})), says("done")],
            "outer>inner": [calls(("secret_tool", "s1", {})), says("told")],
        }
    )
    agent = Chat(
        name="outer",
        tools=(outer_secret.spec,),
        agents=(Chat(name="inner", tools=(inner_secret.spec,)),),
    )
    async with house(client, [inner_secret, outer_secret], script) as h:
        run = await h.start(agent)
        [waiting] = await run.waiting(1)
    async with house(client, [inner_secret, outer_secret], script, queue=h.queue):
        [again] = await run.waiting(1)
        assert again == waiting
        assert (again.id, again.owner) == ("outer>inner>secret_tool:s1", "outer>inner")
        await run.approve(again.id)
        await run.result()
    assert ran == ["inner"]


async def test_a_sub_agent_goes_on_right_after_its_wait(client: Client) -> None:
    """B019 C071: nothing before the wait is done again, also when the run was in nobody's memory meanwhile."""
    hands = Hands()
    script = by_address(
        {
            "lead": [calls(("helper", "t1", {"request": "three steps"})), says("done")],
            "lead>helper": [
                calls(("look", "s1", {"what": "step1"})),
                calls(("pay", "s2", PAY)),
                calls(("look", "s3", {"what": "step3"})),
                says("three steps done"),
            ],
        }
    )
    async with house(client, hands.all, script, max_cached_workflows=0) as h:
        run = await h.start(Chat(name="lead", agents=(Chat(name="helper", tools=hands.specs),)))
        await run.approve(*await ids(run, 1))
        await run.result()
    assert hands.ran == ["look step1", "pay B 500", "look step3"]
    assert len(h.model.requests("helper")) == 4
    assert len(h.model.requests("lead")) == 2


# --------------------------------------------------------------------------------------------- its ends


async def test_return_direct_ends_the_loop_with_the_tools_result(client: Client) -> None:
    """C099 P020: the calls beside it run too, and the model is not called again; the last such call counts."""
    hands = Hands()
    script = [
        calls(("look", "a", {"what": "one"}), ("boom", "b", {}), ("look", "c", {"what": "two"})),
    ]
    async with house(client, hands.all, script) as h:
        run = await h.start(Chat(name="bank", tools=hands.specs, return_direct=("look",)))
        result = await run.result()
    assert (result.status, result.answer) == ("completed", "looked at two")
    assert sorted(hands.ran) == ["boom", "look one", "look two"]
    assert len(h.model.prompts) == 1


async def test_return_direct_holds_after_a_wait_and_not_for_a_rejected_call(client: Client) -> None:
    """C080: an approved call ends the loop with its result; a rejected one is told to the model like any other."""
    hands = Hands()
    script = [calls(("pay", "p1", PAY)), calls(("pay", "p2", PAY))]
    async with house(client, hands.all, script) as h:
        run = await h.start(Chat(name="bank", tools=hands.specs, return_direct=("pay",)))
        await run.reject(*await ids(run, 1))
        await run.approve(*await ids(run, 1))
        result = await run.result()
    assert result.answer == "paid 500 to B"
    assert len(h.model.prompts) == 2
    assert told(result.transcript)["p1"] == texts.disapproved("pay", None)


async def test_an_agent_can_be_returned_directly(client: Client) -> None:
    script = by_address({"lead": [calls(("helper", "h", {"request": "x"}))], "lead>helper": [says("42")]})
    async with house(client, [], script) as h:
        run = await h.start(Chat(name="lead", agents=(Chat(name="helper"),), return_direct=("helper",)))
        assert (await run.result()).answer == "42"


async def test_the_turn_limit_is_a_result_that_names_it(client: Client) -> None:
    """B161 P016 C101: the tools of the last permitted reply run; waiting used no turn; the transcript is kept."""
    hands = Hands()
    script = [
        calls(("look", "l1", {"what": "it"})),
        calls(("pay", "p1", PAY), text="now I pay"),
        says("never"),
    ]
    async with house(client, hands.all, script) as h:
        run = await h.start(Chat(name="bank", tools=hands.specs, max_turns=2))
        await run.approve(*await ids(run, 1))
        result = await run.result()
        await run.replay()
    assert result.status == "stopped"
    assert result.answer == f"{texts.after_turns(2)}; its last words: now I pay"
    assert told(result.transcript) == {"l1": "looked at it", "p1": "paid 500 to B"}
    assert hands.ran == ["look it", "pay B 500"]
    assert len(h.model.prompts) == 2


@pytest.mark.parametrize(("limit", "status"), [(6, "completed"), (5, "stopped")])
async def test_max_turns_counts_model_calls(client: Client, limit: int, status: str) -> None:
    """C101: five rounds of tools and an answer are six calls of the model."""
    hands = Hands()
    script = [*(calls(("look", f"l{n}", {"what": str(n)})) for n in range(5)), says("five looks")]
    async with house(client, hands.all, script) as h:
        run = await h.start(Chat(name="bank", tools=hands.specs, max_turns=limit))
        assert (await run.result()).status == status
    assert len(hands.ran) == 5


@pytest.mark.parametrize("empty", [Reply(), says("  \n")], ids=["null", "blank"])
async def test_an_empty_reply_is_told_to_the_model_which_may_mend_it(client: Client, empty: Reply) -> None:
    hands = Hands()
    script = [calls(("look", "l1", {"what": "it"})), empty, says("it is there")]
    async with house(client, hands.all, script) as h:
        run = await h.start(Chat(name="bank", tools=hands.specs))
        result = await run.result()
    assert (result.status, result.answer) == ("completed", "it is there")
    assert h.model.prompts[2].messages[-1] == User(content=texts.EMPTY_REPLY)


async def test_a_model_that_says_nothing_again_and_again_is_stopped(client: Client) -> None:
    async with house(client, [], lambda prompt: Reply()) as h:
        run = await h.start(Chat(name="bank"))
        result = await run.result()
    assert (result.status, result.answer) == ("stopped", "the model gave no answer in 3 replies in a row")


async def test_an_unknown_tool_is_told_and_its_siblings_run(client: Client) -> None:
    """C061: the model reads which tools exist; nobody is asked, nothing fails."""
    hands = Hands()
    script = [calls(("lok", "x1", {}), ("look", "l1", {"what": "it"})), says("done")]
    async with house(client, hands.all, script) as h:
        run = await h.start(Chat(name="bank", tools=hands.specs))
        result = await run.result()
    assert told(result.transcript) == {
        "x1": texts.unknown_tool("lok", ["look", "pay", "book", "boom"]),
        "l1": "looked at it",
    }


async def test_calls_run_at_once_and_are_told_in_call_order(client: Client) -> None:
    """C058 C098 C149: the first call of a reply waits for the second, which only works if both run at once."""
    came = asyncio.Event()

    @tool
    async def first() -> str:
        await asyncio.wait_for(came.wait(), 10)
        return "first"

    @tool
    async def second() -> str:
        came.set()
        return "second"

    script = [calls(("first", "a", {}), ("second", "b", {})), says("done")]
    async with house(client, [first, second], script) as h:
        run = await h.start(Chat(name="bank", tools=h.specs))
        result = await run.result()
    assert list(told(result.transcript).items()) == [("a", "first"), ("b", "second")]
    assert contents(h.model.prompts[1].messages) == ["do it", "", "first", "second"]


async def test_instructions_are_sent_as_written(client: Client) -> None:
    """P019 C142: no hidden templating of braces."""
    async with house(client, [], [says("yes")]) as h:
        run = await h.start(Chat(name="bank", instructions="Answer as {json}, never {{twice}}."))
        await run.result()
    assert h.model.prompts[0].instructions == "Answer as {json}, never {{twice}}."


async def test_an_accepted_approval_is_always_acted_on(client: Client) -> None:
    """B163: after an earlier turn, with more given at the start, nested, and after a wait that was rejected."""
    hands = Hands()
    script = by_agent(
        {
            "bank": [
                calls(("look", "l1", {"what": "it"})),
                calls(("pay", "p1", {"to": "A", "amount": 1})),
                calls(("pay", "p2", {"to": "B", "amount": 2})),
                calls(("clerk", "c1", {"request": "pay C"})),
                says("done"),
            ],
            "clerk": [calls(("pay", "p1", {"to": "C", "amount": 3})), says("paid C")],
        }
    )
    agent = Chat(name="bank", tools=hands.specs, agents=(Chat(name="clerk", tools=hands.specs),))
    async with house(client, hands.all, script) as h:
        run = await h.start(
            agent, deadline={"after": 3600}, model={"options": {"temperature": 0}}, interrupt_after=("clerk",)
        )
        asked = []
        for decision in ("reject", "approve", "approve", "approve"):
            [waiting] = await run.waiting(1)
            asked.append((waiting.id, waiting.question.when))
            await run.decide(waiting.id, {"decision": decision})
        assert (await run.result()).status == "completed"
    assert asked == [
        ("bank>pay:p1", "gate"),
        ("bank>pay:p2", "gate"),
        ("bank>clerk>pay:p1", "gate"),
        ("bank>clerk", "after"),
    ]
    assert hands.ran == ["look it", "pay B 2", "pay C 3"]


# ------------------------------------------------------------------------------------------ conversations


async def test_empty_words_are_refused_while_a_call_waits(client: Client) -> None:
    """B090: no extra model request, however often the state is looked at, and the run is as if undisturbed."""
    hands = Hands()
    script = [calls(("pay", "p1", PAY)), says("paid")]
    async with house(client, hands.all, script) as h:
        run = await h.start(Chat(name="bank", tools=hands.specs), chat=True)
        [waiting] = await run.waiting(1)
        for nothing in ({"text": ""}, {"text": " \n "}, {"text": None}, {}, None, ""):
            with pytest.raises(Exception, match="Workflow update failed"):
                await run.update("say", nothing)
            await run.signal("say", nothing)
        for _ in range(100):
            assert await run.pending() == [waiting]
        assert len(h.model.prompts) == 1
        await run.approve(waiting.id)
        await run.update("end", {})
        result = await run.result()
    assert [message.role for message in result.transcript] == ["user", "assistant", "tool", "assistant"]
    assert (len(h.model.prompts), hands.ran) == (2, ["pay B 500"])


async def test_a_conversation_has_max_turns_for_every_message(client: Client) -> None:
    """Each thing said may use `max_turns` model calls anew; a limit is on record and does not end it."""
    hands = Hands()
    script = [
        calls(("look", "l1", {"what": "1"})),
        says("one"),
        calls(("look", "l2", {"what": "2"})),
        calls(("look", "l3", {"what": "3"})),
        says("never mind"),
    ]
    async with house(client, hands.all, script) as h:
        run = await h.start(Chat(name="bank", tools=hands.specs, max_turns=2), chat=True)
        await _length(run, 4)
        await run.update("say", {"text": "and two?"})
        await _length(run, 9)
        await run.update("say", {"text": "and three?"})
        await run.update("end", {})
        result = await run.result()
    assert (result.status, result.answer) == ("completed", "never mind")
    assert len(h.model.prompts) == 5
    assert [note.text for note in result.audit.notes] == [texts.after_turns(2)]


async def _length(run: Run, messages: int) -> None:
    """Wait until the conversation has so many messages."""

    async def long_enough() -> bool:
        return (await run.transcript()).length == messages

    await eventually(long_enough, f"{messages} messages")


# ----------------------------------------------------------------------------------------- when all waits


async def test_two_answers_sent_together_reach_two_sub_agents(client: Client) -> None:
    """B004: one request serves both, no third question appears, and the parent hears both at once."""
    hands = Hands()

    @tool(approval=True)
    def publish(text: str) -> str:
        hands.ran.append(f"publish {text}")
        return "published"

    script = by_address(
        {
            "lead": [
                calls(
                    ("writer_agent", "t1", {"request": "publish"}),
                    ("finance_agent", "t2", {"request": "pay"}),
                ),
                says("both done"),
            ],
            "lead>writer_agent": [calls(("publish", "p1", {"text": "news"})), says("it is out")],
            "lead>finance_agent": [calls(("pay", "p1", PAY)), says("it is paid")],
        }
    )
    agents = (Chat(name="writer_agent", tools=(publish.spec,)), Chat(name="finance_agent", tools=hands.specs))
    async with house(client, [*hands.all, publish], script) as h:
        run = await h.start(Chat(name="lead", agents=agents))
        both = await ids(run, 2)
        assert sorted(both) == ["lead>finance_agent>pay:p1", "lead>writer_agent>publish:p1"]
        reply = await run.update("resume", {"targets": {id: {"decision": "approve"} for id in both}})
        assert [result.status for result in reply.results.values()] == ["taken", "taken"]
        result = await run.result()
    assert sorted(hands.ran) == ["pay B 500", "publish news"]
    assert told(h.model.requests("lead")[1]) == {"t1": "it is out", "t2": "it is paid"}
    assert len(result.audit.closed) == 2


async def test_a_failed_agent_does_not_keep_a_later_question_from_its_answer(client: Client) -> None:
    """B070: one sub-agent runs into its limit, another asks; the answer reaches it on another worker, and the
    supervisor hears of both."""
    hands = Hands()
    script = by_address(
        {
            "boss": [
                calls(("transfer_to_agent", "t1", {"agent_name": "a"})),
                calls(("transfer_to_agent", "t2", {"agent_name": "b"})),
                says("over"),
            ],
            "boss>a": [calls(("look", f"l{n}", {"what": "it"})) for n in range(3)],
            "boss>b": [calls(("follow_up", "q1", {"questions": ["Which sector?"]})), says("tech it is")],
        }
    )
    agent = Supervisor(
        name="boss",
        agents=(
            Chat(name="a", tools=hands.specs, max_turns=2),
            Chat(name="b", tools=(follow_up(),)),
        ),
    )
    async with house(client, hands.all, script) as h:
        run = await h.start(agent)
        [waiting] = await run.waiting(1)
    async with house(client, hands.all, script, queue=h.queue) as second:
        await run.decide(waiting.id, {"decision": "answer", "answer": "tech"})
        result = await run.result()
    assert told(second.model.requests("b")[-1]) == {"q1": "tech"}
    assert told(result.transcript) == {
        "t1": f"agent 'a' stopped: {texts.after_turns(2)}",
        "t2": "tech it is",
    }


async def test_a_chat_agent_in_a_sequence_hears_what_came_before(client: Client) -> None:
    """C103 C117: the task, then every answer so far as a user message under its name."""
    script = by_address({"s>a": [says("A says")], "s>b": [says("B says")], "s>c": [says("end")]})
    async with house(client, [], script) as h:
        run = await h.start(Sequential(name="s", children=(Chat(name="a"), Chat(name="b"), Chat(name="c"))))
        assert (await run.result()).answer == "end"
    assert contents(h.model.requests("c")[0]) == ["do it", "[a]: A says", "[b]: B says"]


async def test_a_rejected_breakpoint_on_a_sub_agent_is_told_to_its_parent(client: Client) -> None:
    """The sub-agent does not start, and its parent goes on; rejected after it ran, its answer is withheld."""
    script = by_address(
        {
            "lead": [
                calls(("helper", "h1", {"request": "x"})),
                calls(("helper", "h2", {"request": "y"})),
                says("ok"),
            ],
            "lead>helper#2": [says("a secret")],
        }
    )
    async with house(client, [], script) as h:
        run = await h.start(
            Chat(name="lead", agents=(Chat(name="helper"),)),
            interrupt_before=("lead>helper",),
            interrupt_after=("helper",),
        )
        assert await ids(run, 1) == ["lead>helper"]
        await run.reject("lead>helper")
        assert await ids(run, 1) == ["lead>helper#2"]
        await run.approve("lead>helper#2")
        assert await ids(run, 1) == ["lead>helper#2~2"]
        await run.reject("lead>helper#2~2", "not for you")
        result = await run.result()
    assert told(result.transcript) == {
        "h1": f"agent 'helper' rejected: {texts.disapproved('helper', None)}",
        "h2": f"agent 'helper' rejected: {texts.withheld('helper', 'not for you')}",
    }
    assert "secret" not in result.model_dump_json(include={"transcript", "answer"})


@pytest.mark.parametrize("breaks", ["interrupt_before", "interrupt_after"])
async def test_a_rejected_breakpoint_on_the_root_ends_the_run_as_rejected(
    client: Client, breaks: str
) -> None:
    stops: Any = {breaks: ("bank",)}
    async with house(client, [], [says("done")]) as h:
        run = await h.start(Chat(name="bank"), **stops)
        await run.reject(*await ids(run, 1))
        result = await run.result()
    assert result.status == "rejected"
    assert len(h.model.prompts) == (0 if breaks == "interrupt_before" else 1)
