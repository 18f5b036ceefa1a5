"""What an agent sees: its address, its memory, the way to think, to ask, and to its children.

An agent is plain code that is told again from the start after every page turn. Whatever it waited for stands in its
memory, so it finds each remembered thing at once and goes on at the first that is missing.
"""

from collections.abc import Awaitable, Callable, Sequence

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from protocol import texts
    from protocol.address import Address, Segment, interrupt_id, matches
    from protocol.agents import AnyAgent, Deadline
    from protocol.interrupts import AnyQuestion, Closed, Decision
    from protocol.messages import (
        Asked,
        Message,
        Placed,
        Tool,
        User,
        call_ids,
        mark,
        place,
        spoken,
        wire_name,
    )
    from protocol.run import Answer, Call, Memory, Status, Turn
    from protocol.work import MAX_TAIL_BYTES, Brief, ConversationPage, ModelRequest
    from workflows.running import Running


MOST_PASSED_ON = 100_000
"""Characters of an agent's answer that the agents around it hear."""

NodeOf = Callable[[Asked], str | None]
Story = Callable[["Scope"], Awaitable[Answer]]


class Ends(Exception):
    """The agent cannot go on; its answer says why."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.text)
        self.answer = answer


class Scope:
    """One agent in one run. *opening* is what it is given, *latest* the content that lies before it; *story* is how
    it is told, if not as its kind is."""

    def __init__(
        self,
        run: Running,
        spec: AnyAgent,
        address: Address,
        opening: Sequence[Message],
        latest: str = "",
        story: "Story | None" = None,
    ) -> None:
        self.run, self.spec, self.address, self.story = run, spec, address, story
        self.opening, self.latest = tuple(opening), latest
        self.memory = run.state.memories.setdefault(str(address), Memory())
        self.brief: Brief | None = None
        self._hearing: tuple[str, ...] = ()
        messages = self.messages()
        self._used = set(call_ids(messages))
        turns = self.memory.turns
        self._length = len(messages) - (len(_after_hearing(turns[-1])) - 1 if turns else 0)
        run.scopes[str(address)] = self

    def __str__(self) -> str:
        return str(self.address)

    @property
    def is_root(self) -> bool:
        return self.address.is_root

    @property
    def task(self) -> str:
        """What this agent was given, as one text."""
        return "\n".join(message.content or "" for message in self.opening)

    # ------------------------------------------------------------------------------------------ children

    def child(
        self,
        spec: AnyAgent,
        visit: int,
        opening: Sequence[Message],
        latest: str = "",
        story: "Story | None" = None,
    ) -> "Scope":
        """The *visit*-th visit of the node *spec* below this one."""
        return Scope(self.run, spec, self.address.child(spec.name, visit), opening, latest, story)

    async def tell(self) -> Answer:
        """The agent's answer: remembered, or told now, with its breakpoints around it."""
        if self.memory.answer is None:
            try:
                answer = await self.run.tell(self)
            except Ends as end:
                answer = end.answer
            self.memory.answer = answer if self.is_root else _passed_on(answer)
        if not self.is_root:  # what a finished agent no longer needs does not travel
            self.run.forget_below(str(self))
            self.run.state.memories[str(self)] = Memory(answer=self.memory.answer)
        return self.memory.answer

    def ended(self, status: Status, text: str) -> Answer:
        return Answer(status=status, text=text, facts=tuple(self.facts()))

    def facts(self) -> list[str]:
        """What people refused or changed in this agent's calls."""
        calls = [call for turn in self.memory.turns for call in turn.calls]
        return [fact for call in [*calls, *filter(None, [self.memory.call])] for fact in call.facts]

    # ------------------------------------------------------------------------------------------ thinking

    def messages(self) -> list[Message]:
        """The conversation of this agent so far, as far as it is answered, derived from its turns."""
        messages: list[Message] = list(self.opening)
        for turn in self.memory.turns:
            messages += [User(content=text) for text in turn.heard]
            messages += _after_hearing(turn)
        return messages

    async def turn(self, n: int, brief: Brief, node_of: NodeOf) -> Turn:
        """The *n*-th turn: remembered, or thought now. Raises `Ends` if the model gives no reply.

        *node_of* names the agent that a call leads to, if it is no call of a tool.
        """
        self.brief = brief
        turns = self.memory.turns
        if n < len(turns):
            return turns[n]
        # What was said to a conversation is heard now; it is taken from the inbox when the reply is stored.
        heard = tuple(self.run.state.inbox) if self.is_root else ()
        self._hearing = heard
        request = self._request(brief, heard)
        try:
            reply = await self.run.think(request)
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            raise Ends(self.ended("failed", f"the model gave no reply: {reason_of(error)}")) from error
        turn = Turn(heard=list(heard), reply=reply)
        self._hearing = ()
        if heard:
            del self.run.state.inbox[: len(heard)]
        placed = place(reply.calls, self._used, self.memory.calls_made)
        self.memory.calls_made += len(placed)
        for each in placed:
            turn.calls.append(
                Call(
                    wire=each.wire,
                    name=each.asked.name,
                    arguments=each.asked.arguments,
                    segment=str(self._segment(each, node_of(each.asked))),
                )
            )
        turns.append(turn)
        self._length = request.length + 1
        return turn

    def _segment(self, placed: Placed, node: str | None) -> Segment:
        """The place of a call below this agent: the agent it leads to, or the tool with its call id."""
        if node is not None:
            return Segment(node, None, self._visit(node))
        return Segment(wire_name(placed.asked.name)[:48], placed.call, self._visit(f":{placed.call}"))

    def _visit(self, what: str) -> int:
        visits = self.memory.visits
        visits[what] = visits.get(what, 0) + 1
        return visits[what]

    def _request(self, brief: Brief, heard: Sequence[str]) -> ModelRequest:
        turns = self.memory.turns
        tail: list[Message] = list(_after_hearing(turns[-1])[1:]) if turns else list(self.opening)
        tail += [User(content=text) for text in heard]
        after = mark(_after_hearing(turns[-1])[0]) if turns else ""
        length = (self._length if turns else 0) + len(tail)
        small = sum(len((message.content or "").encode()) + 60 for message in tail) <= MAX_TAIL_BYTES
        known = bool(turns) or len(brief.model_dump_json()) > MAX_TAIL_BYTES
        return ModelRequest(
            agent=str(self),
            length=length,
            after=after,
            tail=tuple(tail) if small else None,
            brief=None if known else brief,
        )

    def page(self, start: int, stop: int, most: int) -> ConversationPage:
        """The messages from *start* up to *stop*, as many as fit into *most* bytes."""
        # What a model call that is under way was started with is no turn yet.
        messages = [*self.messages(), *(User(content=text) for text in self._hearing)]
        taken: list[Message] = []
        for message in messages[start:stop]:
            most -= len(message.model_dump_json())
            if most < 0 and taken:
                break
            taken.append(message)
        return ConversationPage(messages=tuple(taken), brief=self.brief if start == 0 else None)

    # --------------------------------------------------------------------------------------------- calls

    def call_address(self, call: Call) -> Address:
        return Address((*self.address.segments, *Address.parse(call.segment).segments))

    # -------------------------------------------------------------------------------------------- asking

    async def ask(
        self,
        call: Call,
        address: Address,
        question: AnyQuestion,
        *,
        deadline: Deadline | None = None,
        approvers: Sequence[str] = (),
    ) -> Decision | Closed:
        """Ask the next question at *address*; the caller notes on *call* what follows, in the same step."""
        id = interrupt_id(address, call.asked + 1)
        desk = self.run.desk
        desk.open(id, question, owner=str(self), deadline=deadline, approvers=approvers)
        answer = await desk.answer(id)
        call.asked += 1
        desk.board.forget(id)
        return answer

    def stops_before(self, address: Address) -> bool:
        return any(matches(pattern, address) for pattern in self.run.request.interrupt_before)

    def stops_after(self, address: Address) -> bool:
        return any(matches(pattern, address) for pattern in self.run.request.interrupt_after)


def _passed_on(answer: Answer) -> Answer:
    """An answer as the agents around may carry it: beside others, in a conversation, in one payload."""
    if len(answer.text) <= MOST_PASSED_ON:
        return answer
    return answer.model_copy(update={"text": texts.shortened(answer.text, MOST_PASSED_ON)})


def _after_hearing(turn: Turn) -> list[Message]:
    """What a turn adds to the conversation after what was heard: the reply, its answered calls, the nudge."""
    messages: list[Message] = [spoken(turn.reply, [call.wire for call in turn.calls])]
    messages += [
        Tool(tool_call_id=call.wire, content=call.outcome) for call in turn.calls if call.outcome is not None
    ]
    if turn.nudge:
        messages.append(User(content=turn.nudge))
    return messages


def reason_of(error: ActivityError) -> str:
    """The words of the failure inside an activity error."""
    cause = error.cause
    words = getattr(cause, "message", None) or str(cause or error)
    return words.strip() or type(cause).__name__
