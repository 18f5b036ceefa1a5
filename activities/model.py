"""Model calls: the conversation is put together here, and a `ChatModel` answers it.

A call's input names the conversation and carries at most its newest messages. The worker remembers the rest; what
it does not remember (another worker, a restart) it asks of the workflow itself, by query.
"""

import asyncio
import contextlib
import random
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from pydantic import TypeAdapter
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode

from protocol.address import Address
from protocol.agents import ModelSpec
from protocol.kept import Kept
from protocol.messages import Assistant, Message, Reply, ToolOffer, call_ids, mark, place, spoken
from protocol.work import COMPLETE, CONVERSATION, Brief, ConversationPage, ConversationQuery, ModelRequest

MAX_CONVERSATIONS = 2_000
MAX_CONVERSATION_BYTES = 64 * 1024 * 1024
MAX_REPLY_BYTES = 1_000_000
"""Of one reply; what does not fit into a payload would be tried again and again."""
QUERY_TIMEOUT = timedelta(seconds=10)
QUERY_ATTEMPTS = 12

_MESSAGE: TypeAdapter[Message] = TypeAdapter(Message)


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """Everything that one model call is answered from."""

    agent: str
    """The written address of the agent."""
    instructions: str
    messages: Sequence[Message]
    offers: Sequence[ToolOffer]
    model: ModelSpec
    must_call: bool = False


class ModelFailure(Exception):
    """A model call that gave no reply. `final` ones are not tried again; `retry_after` in seconds, if it was said."""

    def __init__(self, text: str, *, final: bool, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.final = final
        self.retry_after = retry_after


class ChatModel(Protocol):
    """Answers a prompt. Raises `ModelFailure`."""

    async def complete(self, prompt: Prompt) -> Reply: ...


@dataclass
class Conversation:
    """What this worker remembers of one agent's conversation, up to and with the model's last reply.

    `page` is the run id it was held under: a page turn may have put stubs where old results were.
    """

    brief: Brief | None = None
    messages: Kept[Message] = field(default_factory=lambda: Kept(_MESSAGE))
    page: str = ""
    size: int = 0


class Remembered:
    """The conversations of this worker, the latest used kept, bounded in number and in bytes."""

    def __init__(self, most: int = MAX_CONVERSATIONS, most_bytes: int = MAX_CONVERSATION_BYTES) -> None:
        self._most, self._most_bytes, self._bytes = most, most_bytes, 0
        self._found: OrderedDict[tuple[str, str], Conversation] = OrderedDict()

    def take(self, key: tuple[str, str], page: str) -> Conversation:
        """What is remembered under *key* from this page, taken out until it is put back; what an earlier page left
        is dropped."""
        conversation = self._drop(key)
        return (
            conversation
            if conversation is not None and conversation.page == page
            else Conversation(page=page)
        )

    def put(self, key: tuple[str, str], conversation: Conversation) -> None:
        conversation.size = conversation.messages.size
        self._drop(key)  # of another attempt
        self._found[key] = conversation
        self._bytes += conversation.size
        while self._found and (len(self._found) > self._most or self._bytes > self._most_bytes):
            self._drop(next(iter(self._found)))

    def _drop(self, key: tuple[str, str]) -> Conversation | None:
        conversation = self._found.pop(key, None)
        if conversation is not None:
            self._bytes -= conversation.size
        return conversation


class ModelActivities:
    """The model call as an activity. *models* by provider; the provider ``""`` is the default."""

    def __init__(self, models: Mapping[str, ChatModel]) -> None:
        self._models = models
        self._remembered = Remembered()

    @activity.defn(name=COMPLETE)
    async def complete(self, request: ModelRequest) -> Reply:
        """Answer the conversation that *request* names. A reply's calls keep the ids that the model gave them."""
        info = activity.info()
        key = (info.workflow_id or "", request.agent)
        async with beating():
            known = self._remembered.take(key, info.workflow_run_id or "")
            conversation = await self._conversation(request, known)
            brief = conversation.brief
            assert brief is not None
            model = self._models.get(brief.model.provider)
            if model is None:
                served = ", ".join(sorted(filter(None, self._models))) or "none"
                raise ApplicationError(
                    f"this worker has no model provider '{brief.model.provider}'; it has: {served}",
                    type="UnknownProvider",
                    non_retryable=True,
                )
            prompt = Prompt(
                agent=request.agent,
                instructions=brief.instructions,
                messages=tuple(conversation.messages),
                offers=brief.offers,
                model=brief.model,
                must_call=brief.must_call,
            )
            try:
                reply = await model.complete(prompt)
            except ModelFailure as failure:
                self._remembered.put(key, conversation)  # the next attempt begins where this one did
                raise ApplicationError(
                    str(failure),
                    type="ModelFailure",
                    non_retryable=failure.final,
                    next_retry_delay=None
                    if failure.retry_after is None
                    else timedelta(seconds=failure.retry_after),
                    category=ApplicationErrorCategory.BENIGN,
                ) from None
        if len(reply.model_dump_json().encode()) > MAX_REPLY_BYTES:
            raise ApplicationError(
                f"the model's reply is larger than {MAX_REPLY_BYTES // 1_000_000} MB",
                type="ReplyTooLarge",
                non_retryable=True,
            )
        if reply.calls or Address.parse(request.agent).is_root:  # else these words are the agent's answer
            conversation.messages.append(_as_recorded(reply, prompt.messages))
            self._remembered.put(key, conversation)
        return reply

    async def _conversation(self, request: ModelRequest, known: Conversation) -> Conversation:
        """The conversation of *request*: what is known with its tail, or what the workflow says."""
        if request.tail is not None:
            base = request.length - len(request.tail)
            if base == 0 or (len(known.messages) >= base and mark(known.messages[base - 1]) == request.after):
                brief = request.brief or known.brief
                if brief is not None:
                    known.messages.cut(base)
                    known.messages.extend(request.tail)
                    return Conversation(brief, known.messages, known.page)
        return await self._asked(request, known)

    async def _asked(self, request: ModelRequest, known: Conversation) -> Conversation:
        brief = request.brief or known.brief
        known.messages.cut(_length_up_to(request.after, known.messages) if brief is not None else 0)
        conversation = Conversation(brief, known.messages, known.page)
        while len(conversation.messages) < request.length or conversation.brief is None:
            page = await _query(
                ConversationQuery(agent=request.agent, start=len(conversation.messages), stop=request.length)
            )
            conversation.messages.extend(page.messages)
            conversation.brief = conversation.brief or page.brief
            if not page.messages and (
                len(conversation.messages) < request.length or conversation.brief is None
            ):
                raise ApplicationError(f"the run knows no {request.length} messages of '{request.agent}'")
        return conversation


def _length_up_to(after: str, messages: Sequence[Message]) -> int:
    """How many messages there are up to the last reply, if that is the one marked *after*: the rest may be of
    another attempt."""
    last = max((n for n, message in enumerate(messages, 1) if isinstance(message, Assistant)), default=0)
    return last if last and mark(messages[last - 1]) == after else 0


def _as_recorded(reply: Reply, before: Sequence[Message]) -> Assistant:
    """The assistant message that the workflow records for *reply*; both derive it from the same rule."""
    used = list(call_ids(before))
    placed = place(reply.calls, set(used), len(used))
    return spoken(reply, [call.wire for call in placed])


async def _query(query: ConversationQuery) -> ConversationPage:
    info = activity.info()
    assert info.workflow_id is not None
    handle = activity.client().get_workflow_handle(info.workflow_id, run_id=info.workflow_run_id)
    for attempt in range(QUERY_ATTEMPTS):
        try:
            page: ConversationPage = await handle.query(
                CONVERSATION, query, result_type=ConversationPage, rpc_timeout=QUERY_TIMEOUT
            )
            return page
        except RPCError as error:
            # The server buffers one query per run while a workflow task runs; the next comes through.
            busy = error.status in (RPCStatusCode.RESOURCE_EXHAUSTED, RPCStatusCode.UNAVAILABLE)
            if not busy or attempt == QUERY_ATTEMPTS - 1:
                raise
            await asyncio.sleep(random.uniform(0.02, 0.15))
    raise AssertionError("unreachable")


@contextlib.asynccontextmanager
async def beating() -> AsyncIterator[None]:
    """Heartbeats while the body runs, so that a lost worker is noticed; the first after the first interval, since
    one at the start costs every short call its latency."""
    timeout = activity.info().heartbeat_timeout
    if timeout is None:
        yield
        return

    async def beat(interval: float) -> None:
        while True:
            await asyncio.sleep(interval)
            activity.heartbeat()

    beats = asyncio.create_task(beat(timeout.total_seconds() / 3))
    try:
        yield
    finally:
        beats.cancel()
