"""The real client against a loopback endpoint: what is sent, what comes back, and what goes wrong."""

import asyncio
import contextlib
import email.utils
import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from temporalio.client import Client

from activities.model import ModelFailure, Prompt
from activities.openai_model import DEFAULT_MODEL, OPENAI, Endpoint, OpenAIModel, retry_after
from activities.tools import tool
from protocol.agents import Chat, ModelSpec
from protocol.errors import BadInput
from protocol.messages import (
    Asked,
    Assistant,
    Function,
    Message,
    Reply,
    Tool,
    ToolCall,
    ToolOffer,
    Usage,
    User,
)
from tests.kit import calls, house, says
from tests.loopback import KEY, Body, Break, Delay, Events, Loopback, Status, breach, loopback

PAY = ToolOffer(name="pay", description="Pay somebody.", parameters={"type": "object", "properties": {}})
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
HALF = "\ud83d"

both_ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def prompt(*messages: Message, **more: Any) -> Prompt:
    return Prompt(
        **{
            "agent": "bank",
            "instructions": "",
            "messages": messages or (User(content="pay"),),
            "offers": (),
            "model": ModelSpec(),
            **more,
        }
    )


@contextlib.asynccontextmanager
async def opened(endpoint: Endpoint) -> AsyncIterator[OpenAIModel]:
    model = OpenAIModel(endpoint)
    try:
        yield model
    finally:
        await model.aclose()


async def ask(server: Loopback, asked: Prompt | None = None, **endpoint: Any) -> Reply:
    async with opened(server.endpoint(**endpoint)) as model:
        return await model.complete(asked or prompt())


async def failure(server: Loopback, asked: Prompt | None = None, **endpoint: Any) -> ModelFailure:
    with pytest.raises(ModelFailure) as caught:
        await ask(server, asked, **endpoint)
    said = str(caught.value)
    assert "\n" not in said
    assert KEY not in said
    assert caught.value.__cause__ is None
    return caught.value


def answered(message: dict[str, Any], **more: Any) -> Body:
    return Body({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], **more})


def chunks(*deltas: dict[str, Any], finish: str | None = "stop") -> list[dict[str, Any]]:
    pieces = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    return [*pieces, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}]


def piece(*tool_calls: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": list(tool_calls)}


# ----------------------------------------------------------------------------------------- what comes back

REPLIES = {
    "words": Reply(content="The rent is paid.", usage=Usage(prompt_tokens=12, completion_tokens=5)),
    "a call": calls(("pay", "call_1", {"amount": 5})),
    "words and calls": calls(
        ("pay", "call_1", {"amount": 5}), ("look", "call_2", {"at": "x" * 40}), text="Two things."
    ),
    "a refusal": Reply(refusal="I will not do that."),
    "a call without id": calls(("pay", "", {"amount": 5})),
    "calls without arguments": calls(("now", "call_1", ""), ("here", "call_2", "")),
    "broken arguments": calls(("pay", "call_1", '{"amount": ')),
    "many scripts": calls(
        ("pay", "call_1", {"姓名": "王小明", "note": f"{FAMILY} é السلام"}), text="预算不足"
    ),
    "nothing": Reply(),
}


@both_ways
@pytest.mark.parametrize("name", REPLIES)
async def test_a_reply_arrives_as_it_was_sent_in_one_or_in_pieces(name: str, stream: bool) -> None:
    """B131."""
    async with loopback([REPLIES[name]]) as server:
        assert await ask(server, stream=stream) == REPLIES[name]


async def test_calls_that_the_stream_does_not_number_are_told_apart() -> None:
    reply = calls(("pay", "call_1", {"amount": 5}), ("pay", "call_2", {"amount": 6}), ("look", "", {"at": 1}))
    async with loopback([reply], indices=False) as server:
        assert await ask(server, stream=True) == reply


async def test_equal_calls_without_id_and_number_are_two_calls() -> None:
    reply = calls(("pay", "", {"amount": 5}), ("pay", "", {"amount": 6}))
    async with loopback([reply], indices=False) as server:
        assert await ask(server, stream=True) == reply


async def test_pieces_of_two_calls_may_come_mixed() -> None:
    mixed = chunks(
        piece({"index": 0, "id": "a", "function": {"name": "pay", "arguments": ""}}),
        piece({"index": 1, "id": "b", "function": {"name": "look", "arguments": "{"}}),
        piece({"index": 0, "function": {"arguments": "{}"}}, {"index": 1, "function": {"arguments": "}"}}),
    )
    async with loopback([Events(mixed)]) as server:
        assert (await ask(server, stream=True)).calls == calls(("pay", "a", "{}"), ("look", "b", "{}")).calls


async def test_calls_that_are_all_numbered_zero_are_told_apart_by_id() -> None:
    zeros = chunks(
        piece({"index": 0, "id": "a", "function": {"name": "pay", "arguments": "{}"}}),
        piece({"index": 0, "id": "b", "function": {"name": "look", "arguments": "{"}}),
        piece({"index": 0, "function": {"arguments": "}"}}),
    )
    async with loopback([Events(zeros)]) as server:
        assert (await ask(server, stream=True)).calls == calls(("pay", "a", "{}"), ("look", "b", "{}")).calls


@pytest.mark.parametrize("numbered", [{"index": 0}, {}], ids=["numbered", "unnumbered"])
async def test_an_id_and_a_name_that_come_with_every_piece_make_one_call(numbered: dict[str, int]) -> None:
    repeated = chunks(
        *[
            piece({**numbered, "id": "a", "function": {"name": "pay", "arguments": text}})
            for text in ("{", '"amount"', ": 5}")
        ]
    )
    async with loopback([Events(repeated)]) as server:
        assert (await ask(server, stream=True)).calls == calls(("pay", "a", '{"amount": 5}')).calls


async def test_odd_pieces_of_a_stream_do_no_harm() -> None:
    odd = [
        {"choices": []},
        {"choices": None},
        {},
        "data: null\n\n",
        ": a comment\n\n",
        {"choices": [{"delta": None}]},
        {"choices": [{"index": 1, "delta": {"content": "another choice"}}]},
        *chunks(
            {"content": None, "tool_calls": None},
            {"content": "wo", "role": None},
            {"content": ["r", {"type": "text", "text": "ds"}]},
            piece({"index": 0, "id": None, "function": {"name": "pay", "arguments": None}}),
            piece({"index": 0, "id": "", "function": None}),
            piece({"index": 0, "id": "late", "function": {"arguments": {"amount": 5}}}),
        ),
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}},
    ]
    async with loopback([Events(odd)]) as server:
        assert await ask(server, stream=True) == Reply(
            content="words",
            calls=(Asked(name="pay", id="late", arguments='{"amount": 5}'),),
            usage=Usage(prompt_tokens=3, completion_tokens=4),
        )


@pytest.mark.parametrize(
    ("message", "reply"),
    [
        ({"content": None}, Reply()),
        ({"content": ""}, Reply()),
        ({}, Reply()),
        ({"content": 7, "tool_calls": "none", "refusal": 1}, Reply()),
        ({"content": [{"type": "text", "text": "two "}, "parts", {"type": "image"}, 3]}, says("two parts")),
        ({"content": [{"type": "refusal", "refusal": "no"}]}, Reply(refusal="no")),
        ({"content": None, "refusal": "no"}, Reply(refusal="no")),
        ({"content": "x", "reasoning_content": "hm", "annotations": []}, says("x")),
        (
            {"tool_calls": [{"id": 7, "function": {"name": "pay", "arguments": {"姓名": 1}}}]},
            Reply(calls=(Asked(name="pay", id="7", arguments='{"姓名": 1}'),)),
        ),
        (
            {"tool_calls": [{"id": None, "function": {"name": "pay", "arguments": None}}, None, 3]},
            Reply(calls=(Asked(name="pay"),)),
        ),
        ({"tool_calls": [{"id": "a"}]}, Reply(calls=(Asked(name="", id="a"),))),
        (
            {"function_call": {"name": "pay", "arguments": "{}"}},
            Reply(calls=(Asked(name="pay", arguments="{}"),)),
        ),
        ({"content": f"half {HALF} of one"}, says("half \ufffd of one")),
        (
            {"tool_calls": [{"id": HALF, "function": {"name": HALF, "arguments": HALF}}]},
            Reply(calls=(Asked(name="\ufffd", id="\ufffd", arguments="\ufffd"),)),
        ),
    ],
    ids=str,
)
async def test_what_servers_make_of_the_format_is_understood(message: dict[str, Any], reply: Reply) -> None:
    async with loopback([answered(message)]) as server:
        assert await ask(server) == reply
        reply.model_dump_json()  # and can be recorded


@pytest.mark.parametrize(
    ("usage", "read"),
    [
        (None, None),
        ([], None),
        (
            {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7, "cost": 0.1},
            Usage(prompt_tokens=3, completion_tokens=4),
        ),
        ({"prompt_tokens": None, "completion_tokens": -1}, Usage()),
        ({"prompt_tokens": 3.0, "completion_tokens": True}, Usage()),
    ],
    ids=str,
)
async def test_a_usage_that_counts_nothing_is_nothing(usage: Any, read: Usage | None) -> None:
    async with loopback([answered({"content": "x"}, usage=usage)]) as server:
        assert (await ask(server)).usage == read


async def test_a_pair_of_surrogates_cut_in_two_by_the_stream_is_one_character() -> None:
    """B131."""
    async with loopback([Events(chunks({"content": "\ud83d"}, {"content": "\ude00"}))]) as server:
        assert (await ask(server, stream=True)).content == "\U0001f600"


# -------------------------------------------------------------------------------------------- what is sent


async def test_the_request_says_what_the_prompt_says() -> None:
    """B131: instructions go as they were written."""
    instructions = "You are {name}. Use {{braces}}. 预算"
    spec = ModelSpec(name="big", options={"temperature": 0.2, "stream": True, "model": "x", "messages": []})
    async with loopback([says("done")]) as server:
        await ask(server, prompt(instructions=instructions, offers=(PAY,), model=spec))
        [request] = server.requests
    assert request.body == {
        "model": "big",
        "temperature": 0.2,
        "messages": [{"role": "system", "content": instructions}, {"role": "user", "content": "pay"}],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "pay",
                    "description": "Pay somebody.",
                    "parameters": {"type": "object", "properties": {}},
                },
            }
        ],
    }


async def test_without_instructions_and_tools_only_the_conversation_is_sent() -> None:
    async with loopback([says("done")]) as server:
        await ask(server, model="small")
        [request] = server.requests
    assert request.body == {"model": "small", "messages": [{"role": "user", "content": "pay"}]}


async def test_the_model_of_the_endpoint_is_the_default() -> None:
    async with loopback([says("done")]) as server:
        await ask(server)
        assert [request.model for request in server.requests] == [DEFAULT_MODEL]


@pytest.mark.parametrize(("offers", "choice"), [((PAY,), "required"), ((), None)], ids=["tools", "no tools"])
async def test_a_call_is_demanded_where_there_is_something_to_call(
    offers: Sequence[ToolOffer], choice: str | None
) -> None:
    async with loopback([says("done")]) as server:
        await ask(server, prompt(offers=offers, must_call=True))
        assert server.requests[0].body.get("tool_choice") == choice


async def test_a_stream_is_asked_for_with_its_usage() -> None:
    async with loopback([says("done")]) as server:
        await ask(server, stream=True)
        body = server.requests[0].body
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})


def called(id: str, name: str = "pay", arguments: str = "{}", content: str | None = None) -> Assistant:
    call = ToolCall(id=id, function=Function(name=name, arguments=arguments))
    return Assistant(content=content, tool_calls=(call,))


async def test_every_kind_of_message_is_sent_as_the_strictest_server_wants_it() -> None:
    """B127."""
    conversation = (
        User(content="pay"),
        called("a", arguments='{"姓名": "王小明"}'),
        Tool(tool_call_id="a", content="tool 'pay' failed: ValueError"),
        called("b", arguments='{"amount": ', content="Once more."),
        Tool(tool_call_id="b", content="no JSON"),
        called("c", arguments="[5]"),
        Tool(tool_call_id="c", content="no object"),
        Assistant(refusal="I will not."),
        User(content="why?"),
    )
    async with loopback(lambda _: says("done")) as server:
        await ask(server, prompt(*conversation))
        sent = server.requests[0].messages
        assert server.breaches == []
    assert sent[1]["content"] is None
    assert sent[1]["tool_calls"][0]["function"]["arguments"] == '{"姓名": "王小明"}'
    assert sent[3]["content"] == "Once more."
    assert json.loads(sent[3]["tool_calls"][0]["function"]["arguments"]) == {"unreadable": '{"amount": '}
    assert json.loads(sent[5]["tool_calls"][0]["function"]["arguments"]) == {"unreadable": "[5]"}
    assert sent[7] == {"role": "assistant", "content": "I will not."}


@both_ways
@pytest.mark.parametrize(
    "conversation",
    [
        (User(content="pay"), called("a")),
        (User(content="pay"), called("a"), User(content="well?")),
        (User(content="pay"), Tool(tool_call_id="a", content="done")),
        (User(content="pay"), called("a"), Tool(tool_call_id="b", content="done")),
        (
            User(content="pay"),
            called("a"),
            Tool(tool_call_id="a", content="done"),
            Tool(tool_call_id="a", content="done"),
        ),
        (
            User(content="pay"),
            called("a"),
            Tool(tool_call_id="a", content="done"),
            called("a"),
            Tool(tool_call_id="a", content="done"),
        ),
        (User(content="pay"), called("a" * 41), Tool(tool_call_id="a" * 41, content="done")),
        (User(content="pay"), called("a", "pay it"), Tool(tool_call_id="a", content="done")),
        (User(content="pay"), called("a"), Tool(tool_call_id="a", content="")),
        (User(content=""),),
    ],
    ids=[
        "no tool message",
        "a message before it",
        "a tool message without a call",
        "a tool message for another call",
        "two tool messages",
        "an id used twice",
        "an id too long",
        "a name with a space",
        "an empty tool message",
        "an empty message",
    ],
)
async def test_a_conversation_that_breaks_the_protocol_is_refused_for_good(
    conversation: tuple[Message, ...], stream: bool
) -> None:
    async with loopback(lambda _: says("done")) as server:
        refused = await failure(server, prompt(*conversation), stream=stream)
        assert refused.final
        assert "answered 400" in str(refused)
        [why] = server.breaches
        assert why in str(refused)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant"},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "a"}]},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "assistant", "tool_calls": [{"id": None, "type": "function"}]},
        {
            "role": "assistant",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "pay", "arguments": {}}}],
        },
        {"role": "user", "content": None},
        {"role": "system", "content": "late"},
        {"role": "developer", "content": "x"},
        {"role": "user", "content": "x", "refusal": "x"},
    ],
    ids=str,
)
def test_the_endpoint_of_the_tests_takes_no_malformed_message(message: dict[str, Any]) -> None:
    assert breach({"model": "m", "messages": [{"role": "user", "content": "x"}, message]}) is not None


# ----------------------------------------------------------------------------------------- what goes wrong


@both_ways
@pytest.mark.parametrize(
    ("status", "final"),
    [
        (400, True),
        (401, True),
        (402, True),
        (403, True),
        (404, True),
        (405, True),
        (413, True),
        (422, True),
        (408, False),
        (409, False),
        (425, False),
        (429, False),
        (500, False),
        (502, False),
        (503, False),
        (529, False),
    ],
)
async def test_a_status_says_whether_it_is_worth_another_try(status: int, final: bool, stream: bool) -> None:
    async with loopback([says("done")]) as server:
        server.trouble(Status(status, "because of this"))
        failed = await failure(server, stream=stream)
        assert failed.final is final
        assert f"answered {status}: because of this" in str(failed)
        assert len(server.requests) == 1  # Temporal owns the retries


async def test_trouble_passes_and_the_line_is_the_same() -> None:
    async with loopback([says("done")]) as server:
        server.trouble(Status(500), times=2)
        await failure(server)
        await failure(server)
        assert await ask(server) == says("done")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({"retry-after": "0"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, None),
        ({"retry-after": "1e300"}, 86_400.0),
        ({}, None),
    ],
    ids=str,
)
async def test_the_endpoint_says_when_to_come_back(headers: dict[str, str], seconds: float | None) -> None:
    async with loopback([says("done")]) as server:
        server.trouble(Status(429, headers=headers))
        assert (await failure(server)).retry_after == seconds


def test_the_time_to_come_back_may_be_a_date() -> None:
    date = email.utils.formatdate(time.time() + 60, usegmt=True)
    assert retry_after({"retry-after": date}) == pytest.approx(60, abs=2)


@both_ways
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Status(503, text="<html>\n<b>down</b></html>"), "answered 503: <html> <b>down</b></html>"),
        (Status(503, text=""), "answered 503: no reason was given"),
        (Status(422, text='{"detail": [{"msg": "bad"}]}'), '[{"msg": "bad"}]'),
        (Status(404, text='{"error": "no such model"}'), "no such model (model 'm'; SIGNOFF_MODEL"),
        (Status(400, text='[{"error": {"message": "listed"}}]'), "listed"),
        (Status(400, text='{"error": {"code": 7}}'), '{"code": 7}'),
        (Status(500, f"half {HALF} of one"), "half \ufffd of one"),
    ],
    ids=str,
)
async def test_an_error_is_told_in_the_endpoints_words(answer: Status, said: str, stream: bool) -> None:
    async with loopback([says("done")]) as server:
        server.trouble(answer)
        assert said in str(await failure(server, model="m", stream=stream))


async def test_a_long_error_is_cut() -> None:
    async with loopback([says("done")]) as server:
        server.trouble(Status(500, "x" * 10_000))
        assert 500 < len(str(await failure(server))) < 600


@both_ways
@pytest.mark.parametrize(
    "echo",
    [
        Status(401, f"Incorrect API key provided: {KEY}."),
        Status(500, "x" * 490 + KEY),
        Status(500, text=f"<pre>Bearer {KEY}</pre>"),
        Status(401, f"Incorrect API key provided: {KEY[:6]}****{KEY[-4:]}."),
        Body({"error": {"message": f"bad key {KEY}", "code": 401}}),
    ],
    ids=["in full", "across the cut", "in a page", "masked", "with status 200"],
)
async def test_no_error_holds_the_key(echo: Status | Body, stream: bool) -> None:
    async with loopback([says("done")]) as server:
        server.trouble(echo)
        said = str(await failure(server, stream=stream))
    assert KEY not in said
    assert KEY[-4:] not in said


async def test_a_wrong_key_is_final_and_is_not_shown_either() -> None:
    async with loopback([says("done")]) as server:
        failed = await failure(server, api_key="letmein-42")
    assert failed.final
    assert "answered 401: Incorrect API key provided: [key]" in str(failed)


async def test_a_server_that_is_not_there_may_come_back() -> None:
    async with loopback([says("done")]) as server:
        gone = server.endpoint()
    async with opened(gone) as model:
        with pytest.raises(ModelFailure, match=r"127\.0\.0\.1:\d+: cannot be reached") as failed:
            await model.complete(prompt())
    assert not failed.value.final


@pytest.mark.parametrize("url", ["http://user:secret-word@127.0.0.1:9/v1"])
async def test_an_error_names_the_endpoint_without_what_is_secret_in_its_address(url: str) -> None:
    async with opened(Endpoint(base_url=url)) as model:
        with pytest.raises(ModelFailure) as failed:
            await model.complete(prompt())
    assert "secret-word" not in str(failed.value)
    assert "127.0.0.1:9" in str(failed.value)


@both_ways
@pytest.mark.parametrize("after", [0, 10, 150, 400])
async def test_a_connection_that_breaks_is_worth_another_try(after: int, stream: bool) -> None:
    async with loopback([says("done")]) as server:
        server.trouble(Break(after, says("an answer of some length " * 20)))
        assert not (await failure(server, stream=stream)).final
        assert await ask(server, stream=stream) == says("done")


@pytest.mark.parametrize(
    "answer",
    [
        Body("<html>welcome</html>", "text/html"),
        Body("{broken"),
        Body("null"),
        Body([]),
        Body({}),
        Body({"choices": []}),
        Body({"choices": None}),
        Body({"choices": [{"index": 0}]}),
        Body({"choices": [{"index": 0, "message": None}]}),
        Body({"error": {"message": "busy", "code": 503}}),
        Body({"error": "overloaded"}),
    ],
    ids=str,
)
async def test_an_answer_that_holds_no_message_is_worth_another_try(answer: Body) -> None:
    async with loopback([answer]) as server:
        assert not (await failure(server)).final


@pytest.mark.parametrize(
    "answer",
    [
        Events([], done=True),
        Events(chunks({"content": "half an ans"}, finish=None)),
        Events(chunks({"content": "half an ans"}, finish=None), done=False),
        Events([*chunks({"content": "half"}, finish=None), "data: {broken\n\n"]),
        Events([*chunks({"content": "half"}, finish=None), {"error": {"message": "out of memory"}}]),
        Events([*chunks({"content": "half"}, finish=None), {"error": "out of memory"}]),
        Body({"choices": [{"index": 0, "message": {"content": "not a stream"}}]}),
    ],
    ids=["nothing", "no end", "cut off", "broken", "an error", "an error in words", "no stream"],
)
async def test_half_a_stream_is_never_an_answer(answer: Events | Body) -> None:
    async with loopback([answer]) as server:
        assert not (await failure(server, stream=True)).final


@pytest.mark.parametrize(
    ("code", "final"), [(400, True), ("422", True), (429, False), ("server_error", False)]
)
@both_ways
async def test_an_error_within_an_answer_is_sorted_by_its_code(code: Any, final: bool, stream: bool) -> None:
    error = {"error": {"message": "too long", "code": code}}
    async with loopback([Events([error]) if stream else Body(error)]) as server:
        failed = await failure(server, stream=stream)
    assert failed.final is final
    assert "too long" in str(failed)


async def test_a_call_that_is_cancelled_ends_at_once() -> None:
    async with loopback([Delay(60, says("late"))]) as server, opened(server.endpoint()) as model:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await model.complete(prompt())


async def test_many_calls_at_once_each_get_their_own_answer() -> None:
    def echo(asked: Prompt) -> Reply:
        return says(asked.messages[0].content or "")

    async with loopback(echo) as server, opened(server.endpoint()) as model:
        replies = await asyncio.gather(*(model.complete(prompt(User(content=str(n)))) for n in range(60)))
    assert [reply.content for reply in replies] == [str(n) for n in range(60)]


async def test_half_a_character_in_a_prompt_is_refused_before_it_is_sent() -> None:
    async with loopback([says("done")]) as server:
        assert (await failure(server, prompt(instructions=HALF))).final
        assert server.requests == []


# -------------------------------------------------------------------------------------------- in a real run


@both_ways
async def test_a_run_speaks_with_the_endpoint_and_its_history_never_holds_the_key(
    client: Client, stream: bool
) -> None:
    """B013, B014: each call has its one tool message, whatever ids the model gave."""

    @tool(approval=True)
    def pay(amount: float) -> str:
        if amount > 10:
            raise ValueError(f"{amount} is too much")
        return f"paid {amount}"

    asked = calls(
        ("pay", "", {"amount": 5}),
        ("pay", "x" * 50, {"amount": 50}),
        ("pay", "a", {"amount": "five"}),
        ("pay", "a", "{broken"),
        ("steal now", "", "[]"),
    )
    async with loopback([asked, says(""), says("done")]) as server:
        server.trouble(Status(500, f"echo {KEY}"))
        async with (
            opened(server.endpoint(stream=stream)) as model,
            house(client, [pay], model=model) as worker,
        ):
            run = await worker.start(Chat(name="bank", instructions="{be careful}", tools=worker.specs))
            for waiting in await run.waiting(2):
                await run.approve(waiting.id)
            result = await run.result()
            events = (await run.history()).events
        assert server.breaches == []
    assert (result.status, result.answer) == ("completed", "done")
    second = server.requests[2].messages
    assert [message["role"] for message in second] == ["system", "user", "assistant", *["tool"] * 5]
    assert [message["tool_call_id"] for message in second[3:]] == [
        "call_1",
        "call_2",
        "a",
        "call_4",
        "call_5",
    ]
    assert "paid 5.0" in second[3]["content"]
    assert "50.0 is too much" in second[4]["content"]
    assert not [event for event in events if KEY.encode() in event.SerializeToString()]


# ---------------------------------------------------------------------------------------- the environment


def test_the_environment_names_the_endpoint() -> None:
    assert Endpoint.from_environment(
        {
            "OPENAI_BASE_URL": "http://127.0.0.1:8000/v1",
            "OPENAI_API_KEY": f" {KEY}\n",
            "SIGNOFF_MODEL": "llama",
            "SIGNOFF_STREAM": "1",
        }
    ) == Endpoint(base_url="http://127.0.0.1:8000/v1", api_key=KEY, model="llama", stream=True)


def test_a_key_alone_means_openai() -> None:
    assert Endpoint.from_environment({"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": ""}) == Endpoint(
        base_url=OPENAI, api_key=KEY, model=DEFAULT_MODEL, stream=False
    )


async def test_a_server_of_ones_own_needs_no_key() -> None:
    async with loopback([says("done")], key=None) as server:
        endpoint = Endpoint.from_environment(server.environment)
        async with opened(endpoint) as model:
            assert await model.complete(prompt()) == says("done")


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "set OPENAI_API_KEY, or OPENAI_BASE_URL"),
        ({"OPENAI_API_KEY": " "}, "set OPENAI_API_KEY, or OPENAI_BASE_URL"),
        ({"OPENAI_BASE_URL": "localhost:8000", "OPENAI_API_KEY": KEY}, "OPENAI_BASE_URL is no address"),
        ({"OPENAI_BASE_URL": "http://a:port/v1"}, "OPENAI_BASE_URL is no address"),
        ({"OPENAI_API_KEY": "sk-\u201cquoted\u201d"}, "OPENAI_API_KEY holds characters"),
        ({"OPENAI_API_KEY": "sk-one sk-two"}, "OPENAI_API_KEY holds characters"),
    ],
    ids=str,
)
def test_an_endpoint_that_cannot_work_is_refused_in_one_line(environment: dict[str, str], said: str) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        Endpoint.from_environment(environment)
    assert "\n" not in str(refused.value)
    assert "sk-" not in str(refused.value)


def test_an_endpoint_does_not_show_its_key() -> None:
    assert KEY not in repr(Endpoint(api_key=KEY))
