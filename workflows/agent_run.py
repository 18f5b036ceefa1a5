"""`AgentRun`: an agent as a workflow. Temporal's history is its checkpoint; a page turn carries its whole state."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from pydantic import TypeAdapter, ValidationError

    from converter import Undecodable
    from protocol import texts
    from protocol.address import Address, Segment
    from protocol.agents import walk
    from protocol.errors import BadInput, DecisionRefused, UnfitDecision
    from protocol.interrupts import EndRequest, ResumeReply, SayRequest
    from protocol.messages import User
    from protocol.record import explain, read
    from protocol.run import Answer, Memory, RunRequest, RunResult, RunState
    from protocol.views import (
        PAGE_BYTES,
        SeenAgent,
        SeenCall,
        TranscriptPage,
        TranscriptQuery,
        Tree,
    )
    from protocol.work import CONVERSATION, ConversationPage, ConversationQuery
    from protocol.work import PAGE_BYTES as MODEL_PAGE_BYTES
    from workflows import luggage
    from workflows.agents import tell
    from workflows.desk import AsksPeople, Desk, asked
    from workflows.running import Running
    from workflows.scope import Scope

MOST_MESSAGES = 1_000
"""Signals and updates of one page; the server takes 10,000 and 2,000."""
MOST_HISTORY = 40 * 1024 * 1024
MOST_EVENTS = 45_000
"""Where a run that can no longer turn the page ends by itself, before the server ends it."""
RETRY_AFTER = 500
"""Events after which a page that could not be turned is tried again: results may have become old enough for stubs."""
MOST_SAID = 100
"""Messages that a conversation holds before it hears them."""

_REQUEST: TypeAdapter[RunRequest] = TypeAdapter(RunRequest)


@workflow.defn(name="AgentRun")
class AgentRun(AsksPeople):
    """Runs an agent tree. Start input: one `RunRequest`; result: one `RunResult`, also in a failure's details."""

    @workflow.init
    def __init__(self, *args: Any) -> None:
        self._problem, self._request = _read_request(args)
        request = self._request
        self._state = request.state or RunState()
        self.desk = Desk(
            task=request.task,
            agent=request.agent.name,
            board=self._state.board,
            visible=request.visible,
            deadline=request.deadline,
        )
        self._running = Running(request, self._state, self.desk, tell)
        self._weight = 0 if request.state is None else luggage.weigh(self._state)
        self._weight_at_start = self._weight
        self._retry_at = 0
        self._answer: Answer | None = None

    @workflow.run
    async def run(self, *args: Any) -> RunResult:
        if self._problem is not None:
            raise ApplicationError(self._problem, type="BadInput", non_retryable=True)
        self.desk.publish()
        story = asyncio.create_task(self._story())
        try:
            self._answer = await self._told_to_its_end(story)
        except asyncio.CancelledError:
            self._answer = await self._cancelled(story)
        await workflow.wait_condition(workflow.all_handlers_finished)
        return self._result(self._answer)

    # -------------------------------------------------------------------------------------- the long life

    async def _story(self) -> Answer:
        request = self._request
        root = Scope(
            self._running, request.agent, Address.root(request.agent.name), [User(content=request.task)]
        )
        return await root.tell()

    async def _told_to_its_end(self, story: asyncio.Task[Answer]) -> Answer:
        """Wait for the story's end, turning the page whenever it is full."""
        while True:
            await workflow.wait_condition(lambda: story.done() or self.page_is_full())
            if story.done():
                return story.result()
            self._running.pause()
            await workflow.wait_condition(lambda: story.done() or self._running.at_rest)
            if story.done():
                return story.result()
            await self._turn_the_page()
            if self._history_is_full():
                return await self._stopped(story)
            self._running.resume()

    def page_is_full(self) -> bool:
        """Whether to turn the page: by the server's suggestion, by messages, or by the weight of what must travel."""
        if self._history_is_full():
            return True
        if workflow.info().get_current_history_length() < self._retry_at:
            return False  # it was too heavy to be carried, a moment ago
        if workflow.info().is_continue_as_new_suggested() or self.desk.received >= MOST_MESSAGES:
            return True
        if self._weight + 2 * self._running.grown > luggage.TURN_AT:
            self._weight, self._running.grown = luggage.weigh(self._state), 0
        return self._weight > luggage.TURN_AT and self._weight - self._weight_at_start > luggage.GROWN_SINCE

    def _history_is_full(self) -> bool:
        info = workflow.info()
        return (
            info.get_current_history_size() > MOST_HISTORY or info.get_current_history_length() > MOST_EVENTS
        )

    async def _turn_the_page(self) -> None:
        """Continue as new with everything the run knows; returns only if that is too much to carry."""
        await workflow.wait_condition(workflow.all_handlers_finished)
        stubbed = luggage.lighten(self._state)
        if stubbed:
            self.desk.note(
                self._request.agent.name, f"{stubbed} older tool results were left out of the conversation"
            )
        next_page = self._request.model_copy(update={"state": self._state})
        if luggage.weigh(next_page) > luggage.MOST_LUGGAGE:
            if not self._retry_at:
                self.desk.note(self._request.agent.name, "the state is too large to turn the page")
            self._retry_at = workflow.info().get_current_history_length() + RETRY_AFTER
            return
        self._state.pages += 1
        workflow.continue_as_new(next_page)

    async def _stopped(self, story: asyncio.Task[Answer]) -> Answer:
        """End before the server does, with everything that was done; nothing is in flight."""
        self.desk.cancel_all()
        story.cancel()
        await asyncio.gather(story, return_exceptions=True)
        self._answer_open_calls(lambda place: texts.stopped_below(place.name))
        return Answer(status="stopped", text="the run grew over what a Temporal history holds")

    async def _cancelled(self, story: asyncio.Task[Answer]) -> Answer:
        """Start nothing new, let tools in flight come home, close what is open; keep everything that was done."""
        if story.done():
            return story.result()  # it was over before it could be cancelled
        self._running.pause()
        self._running.stop_thinking()
        self.desk.cancel_all()
        await workflow.wait_condition(lambda: self._running.at_rest)
        self.desk.cancel_all()  # a tool that came home may have asked
        self.desk.board.leave_unused()
        story.cancel()
        await asyncio.gather(story, return_exceptions=True)
        text = texts.cancelled(workflow.cancellation_reason() or "", self._done_below_the_root())
        self._answer_open_calls(
            lambda place: texts.cancelled_below(place.name) if place.kind == "agent" else texts.CANCELLED
        )
        return Answer(status="cancelled", text=text)

    def _done_below_the_root(self) -> list[str]:
        """What agents and tools have finished, as far as the root's own conversation does not say it."""
        done: list[str] = []
        for address, memory in self._state.memories.items():
            if address == self._request.agent.name:
                continue
            calls = [call for turn in memory.turns for call in turn.calls if call.status == "done"]
            done += [f"{address}>{call.segment}: {call.outcome}" for call in calls]
            if memory.answer is not None and memory.answer.status == "completed":
                done.append(f"{address}: {memory.answer.text}")
        return done

    def _answer_open_calls(self, said: Callable[[Segment], str]) -> None:
        """Leave valid conversations: every call has its tool message, *said* of its place."""
        for memory in self._state.memories.values():
            for call in [call for turn in memory.turns[-1:] for call in turn.calls if call.outcome is None]:
                call.outcome, call.status = said(Address.parse(call.segment).last), "cancelled"

    def _result(self, answer: Answer) -> RunResult:
        name = self._request.agent.name
        root = self._running.scopes.get(name)
        result = luggage.fitting(
            RunResult(
                status=answer.status,
                answer=answer.text,
                transcript=tuple(root.messages()) if root else (),
                audit=self._state.board.audit,
                pages=self._state.pages,
            )
        )
        if result.status == "failed":
            raise ApplicationError(result.answer, result, type="RunFailed", non_retryable=True)
        return result

    # ---------------------------------------------------------------------------------------- conversations

    @workflow.signal(name="say", description="Add a message to a conversation: {'text': …, 'by': …}")
    def say_signal(self, *args: Any) -> None:
        self._hear_signal("say", args)

    @workflow.update(name="say", description="Add a message to a conversation; it is heard after what waits.")
    def say_update(self, *args: Any) -> ResumeReply:
        return self._hear_update("say", args)

    @say_update.validator
    def _check_say(self, *args: Any) -> None:
        self._spoken("say", args)

    @workflow.signal(name="end", description="Close a conversation after what was said: {'by': …}")
    def end_signal(self, *args: Any) -> None:
        self._hear_signal("end", args)

    @workflow.update(name="end", description="Close a conversation after what was said.")
    def end_update(self, *args: Any) -> ResumeReply:
        return self._hear_update("end", args)

    @end_update.validator
    def _check_end(self, *args: Any) -> None:
        self._spoken("end", args)

    def _hear_signal(self, name: str, args: Sequence[Any]) -> None:
        self.desk.received += 1
        try:
            self._hear(name, args)
        except (BadInput, DecisionRefused) as error:
            self.desk.board.refuse(name, str(error), None, workflow.now())

    def _hear_update(self, name: str, args: Sequence[Any]) -> ResumeReply:
        self.desk.received += 1
        try:
            return self._hear(name, args)
        except (BadInput, DecisionRefused) as error:
            raise ApplicationError(str(error), type=type(error).__name__, non_retryable=True) from None

    def _hear(self, name: str, args: Sequence[Any]) -> ResumeReply:
        request = self._spoken(name, args)
        reply = self.desk.board.repeated(request) or ResumeReply(results={})
        if request.request_id is None or request.request_id not in self.desk.board.handled:
            self.desk.board.remember(request, reply)
            if isinstance(request, SayRequest):
                self._state.inbox.append(request.text)
            else:
                self._state.ended = True
        return reply

    def _spoken(self, name: str, args: Sequence[Any]) -> SayRequest | EndRequest:
        """The message, if this run can hear it. Raises `BadInput` or `DecisionRefused`."""
        request = self.desk.read(name, args)
        assert isinstance(request, SayRequest | EndRequest)
        if not self._request.chat:
            raise UnfitDecision("this run is no conversation: start it with chat=true")
        if request.run is not None and request.run != self.desk.board.run:
            raise UnfitDecision("the message belongs to an earlier run of this id")
        if self.desk.board.repeated(request) is not None:
            return request
        if self._state.ended:
            raise UnfitDecision("the conversation was ended")
        if isinstance(request, SayRequest) and len(self._state.inbox) >= MOST_SAID:
            raise UnfitDecision(f"{MOST_SAID} messages wait to be heard: say it later")
        return request

    # --------------------------------------------------------------------------------------------- queries

    @workflow.query(name=CONVERSATION, description="For model calls: messages of an agent, by pages.")
    def conversation_query(self, query: ConversationQuery) -> ConversationPage:
        scope = self._running.scopes.get(query.agent)
        if scope is None:
            return ConversationPage(messages=())
        return scope.page(query.start, query.stop, MODEL_PAGE_BYTES)

    @workflow.query(
        name="transcript", description="The conversation of an agent: {} or {'agent': …, 'start': n}"
    )
    def transcript_query(self, *args: Any) -> TranscriptPage:
        query = asked(TranscriptQuery, args)
        agent = query.agent or self._request.agent.name
        scope = self._running.scopes.get(agent)
        messages = [] if scope is None else scope.messages()
        taken: list[Any] = []
        room = PAGE_BYTES
        for message in messages[query.start :]:
            room -= len(message.model_dump_json())
            if room < 0 and taken:
                break
            taken.append(message)
        more = query.start + len(taken) < len(messages)
        return TranscriptPage(
            agent=agent, start=query.start, length=len(messages), messages=tuple(taken), more=more
        )

    @workflow.query(name="tree", description="Every agent of the run with what it does.")
    def tree_query(self, *args: Any) -> Tree:
        waiting = [interrupt.id for interrupt in self.desk.board.open]
        seen: list[SeenAgent] = []
        room = PAGE_BYTES
        kinds = {address.names: spec.kind for address, spec in walk(self._request.agent)}
        over = None if self._answer is None else self._answer.status
        for address, memory in self._state.memories.items():
            kind = kinds.get(Address.parse(address).names, "agent")
            agent = _seen(address, memory, kind, waiting, over or "running")
            room -= len(agent.model_dump_json())
            if room < 0:
                break
            seen.append(agent)
        return Tree(
            run=self.desk.board.run,
            status=over or self.desk.status,
            agents=tuple(seen),
            more=len(seen) < len(self._state.memories),
        )


def _seen(address: str, memory: Memory, kind: str, waiting: list[str], otherwise: str) -> SeenAgent:
    """An agent as the tree shows it; *otherwise* is the status of what neither waits nor has ended by itself."""

    def status(place: str) -> str:
        below = any(id == place or id.startswith((f"{place}~", f"{place}>")) for id in waiting)
        return "waiting" if below else otherwise

    calls = memory.turns[-1].calls if memory.turns else []
    return SeenAgent(
        address=address,
        kind=kind,
        status=memory.answer.status if memory.answer else status(address),
        turns=len(memory.turns),
        calls=tuple(
            SeenCall(
                address=f"{address}>{call.segment}",
                name=call.name,
                status=call.status or status(f"{address}>{call.segment}"),
            )
            for call in calls
        ),
        answer=memory.answer,
    )


def _read_request(args: Sequence[Any]) -> tuple[str | None, RunRequest]:
    """The start input, or what is wrong with it beside a request that nobody runs."""
    try:
        if len(args) != 1:
            raise BadInput(f"send one JSON object, not {len(args)} arguments")
        (value,) = args
        if isinstance(value, Undecodable):
            raise BadInput(value.reason)
        if not isinstance(value, dict):
            raise BadInput(f"send one JSON object, not {value!r:.80}")
        request = read(_REQUEST, value)
        if request.state is not None and workflow.info().continued_run_id is None:
            raise BadInput("state is a run's own luggage: leave it out")
        value.pop("state", None)  # the SDK keeps the input as long as the run lives
        return None, request
    except ValidationError as error:
        problem = explain(error)
    except (BadInput, ValueError, RecursionError) as error:
        problem = str(error)
    return f"the start input is no RunRequest: {problem}", _NOBODY


_NOBODY = RunRequest.model_validate_json(
    '{"task":"-","agent":{"kind":"chat","name":"nobody"},"visible":false}'
)
