"""An endpoint on this machine that speaks chat completions as strictly as the strictest.

    async with loopback([calls(("pay", "call_1", {"amount": 5})), says("done")]) as server:
        model = OpenAIModel(server.endpoint())
        ...
        assert [request.model for request in server.requests] == ["gpt-4.1-mini"] * 2

A script finds its line in the prompt, as a `ScriptedModel` does, so retries and restarts get the same one; it may
answer with a `Reply` or with any trouble below. A conversation that breaks the protocol is refused with 400 and kept in
`breaches`. `trouble(...)` answers the next requests whatever the script says.
"""

import asyncio
import contextlib
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from activities.model import ModelFailure, Prompt
from activities.openai_model import Endpoint
from protocol.agents import ModelSpec
from protocol.messages import MAX_WIRE_ID, Assistant, Message, Reply, ToolOffer
from protocol.strict_json import canonical

KEY = "sk-loopback-0123456789abcdef"
"""The only key that opens the door."""

NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


@dataclass(frozen=True)
class Status:
    """An error in the form of the OpenAI API; *text* replaces its body."""

    status: int
    message: str = "the loopback endpoint was told to say no"
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None


@dataclass(frozen=True)
class Body:
    """An answer with status 200 that is sent as it stands: JSON data, or a text."""

    body: Any
    content_type: str = "application/json"


@dataclass(frozen=True)
class Events:
    """A stream of these chunks as they stand; a text is sent as it is. `done` ends it in good order."""

    chunks: Sequence[Any]
    done: bool = True


@dataclass(frozen=True)
class Break:
    """The connection ends: at once, or `after` bytes of the answer that *then* would be."""

    after: int = 0
    then: "Answer" = field(default_factory=lambda: Reply(content="an answer that never arrives whole"))


@dataclass(frozen=True)
class Delay:
    """The answer *then*, `seconds` later."""

    seconds: float
    then: "Answer"


Answer = Reply | Status | Body | Events | Break | Delay
Script = Callable[[Prompt], Answer]
Lines = Script | Sequence[Answer]


@dataclass(frozen=True)
class Request:
    """A request as it came in."""

    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def model(self) -> str:
        return str(self.body.get("model"))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation as it was on the wire."""
        messages: list[dict[str, Any]] = self.body["messages"]
        return messages

    @property
    def roles(self) -> list[str]:
        return [message["role"] for message in self.messages]

    @property
    def tools(self) -> list[str]:
        """The names of the tools on offer."""
        return [tool["function"]["name"] for tool in self.body.get("tools", ())]

    @property
    def prompt(self) -> Prompt:
        """The request as the prompt that it was made from; the agent is not known here, the model's name stands in."""
        system = self.messages[0]["content"] if self.roles[:1] == ["system"] else ""
        messages = self.messages[1:] if system else self.messages
        return Prompt(
            agent=self.model,
            instructions=system,
            messages=_MESSAGES.validate_json(canonical(messages)),
            offers=_OFFERS.validate_json(
                canonical([tool["function"] for tool in self.body.get("tools", ())])
            ),
            model=ModelSpec(name=self.model),
            must_call=self.body.get("tool_choice") == "required",
        )


_MESSAGES: TypeAdapter[tuple[Message, ...]] = TypeAdapter(tuple[Message, ...])
_OFFERS: TypeAdapter[tuple[ToolOffer, ...]] = TypeAdapter(tuple[ToolOffer, ...])


def breach(body: Mapping[str, Any]) -> str | None:
    """How a request breaks the protocol, in words; nothing if it does not."""
    return next(_breaches(body), None)


def _breaches(body: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "model is missing"
    offered: set[str] = set()
    for n, tool in enumerate(body.get("tools", ())):
        function = tool.get("function", {})
        if tool.get("type") != "function" or not NAME.fullmatch(str(function.get("name"))):
            yield f"tools.{n} has no usable name"
        if function["name"] in offered:
            yield f"tools.{n}: the name {function['name']} stands twice"
        offered.add(function["name"])
        if function.get("parameters", {}).get("type") != "object":
            yield f"tools.{n}: parameters is no schema of an object"
    if "tools" in body and not body["tools"]:
        yield "tools is empty"
    if "tool_choice" in body and not offered:
        yield "tool_choice without tools"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "messages is empty"
        return
    yield from _breaches_of_messages(messages)


def _breaches_of_messages(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    used: set[str] = set()
    owed: deque[str] = deque()
    for n, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        where = f"messages.{n}"
        if role not in ("system", "user", "assistant", "tool"):
            yield f"{where}: unknown role {role!r}"
        if unknown := set(message) - {"role", "content", "tool_calls", "tool_call_id"}:
            yield f"{where}: unknown fields {sorted(unknown)}"
        if role == "system" and n > 0:
            yield f"{where}: a system message that is not the first"
        if role != "assistant" and "tool_calls" in message:
            yield f"{where}: tool_calls in a message of role {role}"
        calling = role == "assistant" and "tool_calls" in message
        if not (isinstance(content, str) and content) and not (calling and content is None):
            yield f"{where}: content is missing or empty"
        if role == "tool":
            id = message.get("tool_call_id")
            if not owed or owed[0] != id:
                yield f"{where}: a tool message for {id!r}, where {owed[0] if owed else 'none'} is due"
            else:
                owed.popleft()
            continue
        if owed:
            yield f"{where}: the calls {', '.join(owed)} have no tool message"
        if calling:
            calls = message["tool_calls"]
            if not isinstance(calls, list) or not calls:
                yield f"{where}: tool_calls is empty"
            for call in calls:
                yield from _breaches_of_call(f"{where}.tool_calls", call, used)
                owed.append(str(call.get("id")))
    if owed:
        yield f"the calls {', '.join(owed)} have no tool message"


def _breaches_of_call(where: str, call: Mapping[str, Any], used: set[str]) -> Iterator[str]:
    id, function = call.get("id"), call.get("function", {})
    if not isinstance(id, str) or not 0 < len(id) <= MAX_WIRE_ID:
        yield f"{where}: the id {id!r} is no text of 1 to {MAX_WIRE_ID} characters"
    if id in used:
        yield f"{where}: the id {id!r} was used before"
    used.add(str(id))
    if call.get("type") != "function":
        yield f"{where}: the type of {id!r} is not function"
    if not NAME.fullmatch(str(function.get("name"))):
        yield f"{where}: the name {function.get('name')!r} does not match {NAME.pattern}"
    if not isinstance(function.get("arguments"), str):
        yield f"{where}: the arguments of {id!r} are no text"
    else:
        try:
            arguments = json.loads(function["arguments"])
        except ValueError:
            arguments = None
        # Chat templates of several servers read them; the failure is theirs, at the next turn.
        if not isinstance(arguments, dict):
            yield f"{where}: the arguments of {id!r} are no JSON object"


class Loopback:
    """A running server: what it was asked, and what it is told to do."""

    def __init__(self, script: Script, *, key: str | None, indices: bool) -> None:
        self.requests: list[Request] = []
        self.breaches: list[str] = []
        self.base_url = ""
        self._script, self._key, self._indices = script, key, indices
        self._troubles: deque[Answer] = deque()

    def endpoint(self, **options: Any) -> Endpoint:
        """How a model gets here."""
        return Endpoint(**{"base_url": self.base_url, "api_key": self._key or "", **options})

    @property
    def environment(self) -> dict[str, str]:
        """How the model of another process gets here."""
        return {"OPENAI_BASE_URL": self.base_url, "OPENAI_API_KEY": self._key or ""}

    def trouble(self, answer: Answer, times: int = 1) -> None:
        """Answer the next requests so; they are recorded, and the script is not asked."""
        self._troubles.extend([answer] * times)

    def answer(self, path: str, headers: Mapping[str, str], raw: bytes) -> tuple[Answer, Request | None]:
        given = headers.get("authorization", "")
        if self._key is not None and given != f"Bearer {self._key}":
            return Status(401, f"Incorrect API key provided: {given.removeprefix('Bearer ')}"), None
        if path != "/v1/chat/completions":
            return Status(404, f"there is nothing at {path}"), None
        try:
            body = json.loads(raw)
        except ValueError as error:
            return Status(400, f"the request is no JSON ({error})"), None
        request = Request(headers, body)
        self.requests.append(request)
        if self._troubles:
            return self._troubles.popleft(), request
        if broken := breach(body):
            self.breaches.append(broken)
            return Status(400, broken), request
        try:
            return self._script(request.prompt), request
        except ModelFailure as failure:
            return Status(400 if failure.final else 500, str(failure)), request

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, as long as the client keeps it."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {
                    name.strip().lower(): value.strip()
                    for name, _, value in (line.partition(":") for line in head[1:] if line)
                }
                raw = await reader.readexactly(int(headers.get("content-length", "0")))
                answer, request = self.answer(head[0].split()[1], headers, raw)
                if not await self._send(writer, answer, request):
                    return

    async def _send(self, writer: asyncio.StreamWriter, answer: Answer, request: Request | None) -> bool:
        """Send an answer; false if the connection ends with it."""
        match answer:
            case Delay(seconds=seconds, then=then):
                await asyncio.sleep(seconds)
                return await self._send(writer, then, request)
            case Break(after=after, then=then):
                writer.write(self._bytes(then, request)[:after])
                await writer.drain()
                return False
            case _:
                writer.write(self._bytes(answer, request))
                await writer.drain()
                return True

    def _bytes(self, answer: Answer, request: Request | None) -> bytes:
        match answer:
            case Status(status=status, message=message, headers=headers, text=text):
                error = {"message": message, "type": "loopback_error", "param": None, "code": None}
                return _whole(status, _json({"error": error}) if text is None else text.encode(), headers)
            case Body(body=body, content_type=content_type):
                return _whole(
                    200,
                    body.encode() if isinstance(body, str) else _json(body),
                    {"content-type": content_type},
                )
            case Events(chunks=chunks, done=done):
                return _stream(chunks, done)
            case Reply() if request is not None and request.body.get("stream"):
                usage = request.body.get("stream_options", {}).get("include_usage", False)
                return _stream(in_pieces(answer, request.model, usage=usage, indices=self._indices), True)
            case Reply():
                return _whole(200, _json(completion(answer, request.model if request else "")), {})
            case Delay(then=then) | Break(then=then):
                return self._bytes(then, request)


def completion(reply: Reply, model: str) -> dict[str, Any]:
    """A reply as the body of a whole answer."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content or None}
    if reply.refusal:
        message["refusal"] = reply.refusal
    if reply.calls:
        message["tool_calls"] = [
            {
                **({"id": call.id} if call.id else {}),
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in reply.calls
        ]
    return {
        "id": "chatcmpl-loopback",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls" if reply.calls else "stop"}
        ],
        **({"usage": _usage(reply)} if reply.usage else {}),
    }


def in_pieces(reply: Reply, model: str, *, usage: bool, indices: bool = True) -> Iterator[dict[str, Any]]:
    """A reply as the chunks of a stream: a few characters each, calls one after the other, the usage at the end."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {
            "id": "chatcmpl-loopback",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
            "usage": None,
        }

    yield chunk({"role": "assistant", "content": ""})
    for piece in _cut(reply.content):
        yield chunk({"content": piece})
    for piece in _cut(reply.refusal or ""):
        yield chunk({"refusal": piece})
    for n, call in enumerate(reply.calls):
        place = {"index": n} if indices else {}
        begun = {**place, **({"id": call.id} if call.id else {}), "type": "function"}
        yield chunk({"tool_calls": [{**begun, "function": {"name": call.name, "arguments": ""}}]})
        for piece in _cut(call.arguments):
            yield chunk({"tool_calls": [{**place, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls" if reply.calls else "stop")
    if usage and reply.usage:
        yield {**chunk({}), "choices": [], "usage": _usage(reply)}


def _usage(reply: Reply) -> dict[str, int]:
    assert reply.usage is not None
    sent, got = reply.usage.prompt_tokens, reply.usage.completion_tokens
    return {"prompt_tokens": sent, "completion_tokens": got, "total_tokens": sent + got}


def _cut(text: str, size: int = 7) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _whole(status: int, body: bytes, headers: Mapping[str, str]) -> bytes:
    fields = {"content-type": "application/json", **headers, "content-length": str(len(body))}
    return _head(status, fields) + body


def _stream(chunks: Sequence[Any] | Iterator[Any], done: bool) -> bytes:
    """Server-sent events, each in a chunk of its own."""
    texts = [
        chunk.encode() if isinstance(chunk, str) else b"data: " + _json(chunk) + b"\n\n" for chunk in chunks
    ]
    if done:
        texts.append(b"data: [DONE]\n\n")
    body = b"".join(b"%x\r\n%s\r\n" % (len(text), text) for text in texts if text)
    return (
        _head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        + body
        + b"0\r\n\r\n"
    )


def _head(status: int, fields: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Loopback", *(f"{name}: {value}" for name, value in fields.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _script(lines: Lines | Mapping[str, Lines]) -> Script:
    if isinstance(lines, Mapping):
        by_model = {name: _script(each) for name, each in lines.items()}

        def by_name(prompt: Prompt) -> Answer:
            if prompt.model.name not in by_model:
                return Status(404, f"The model '{prompt.model.name}' does not exist")
            return by_model[prompt.model.name](prompt)

        return by_name
    if callable(lines):
        return lines
    replies = lines

    def in_order(prompt: Prompt) -> Answer:
        said = sum(isinstance(message, Assistant) for message in prompt.messages)
        return replies[said] if said < len(replies) else Status(400, f"the script has no line {said + 1}")

    return in_order


@contextlib.asynccontextmanager
async def loopback(
    script: Lines | Mapping[str, Lines], *, key: str | None = KEY, indices: bool = True
) -> AsyncIterator[Loopback]:
    """Serve *script* on a free port of 127.0.0.1 while the block runs.

    A script is a function of the prompt, lines (the n-th follows n assistant messages), or either by model name.
    Without a *key* the door is open; ``indices=False`` streams calls as servers do that number none.
    """
    server = Loopback(_script(script), key=key, indices=indices)
    connections: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            await server.serve(reader, writer)
        except asyncio.CancelledError:
            pass  # the block ended
        finally:
            connections.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()[:2]
    server.base_url = f"http://{host}:{port}/v1"
    try:
        yield server
    finally:
        listening.close()
        for task in connections:
            task.cancel()
        if connections:
            await asyncio.wait(connections)
        await listening.wait_closed()
