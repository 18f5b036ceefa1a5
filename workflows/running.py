"""What all agents of one run share: its state, its desk, and the activities in flight."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityHandle

with workflow.unsafe.imports_passed_through():
    from protocol import strict_json
    from protocol.agents import ToolSpec
    from protocol.messages import Reply
    from protocol.record import Record
    from protocol.run import Answer, RunRequest, RunState
    from protocol.work import COMPLETE, ModelRequest, ToolInput

if TYPE_CHECKING:
    from workflows.desk import Desk
    from workflows.scope import Scope

MODEL_RETRIES = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1), maximum_attempts=50
)
MODEL_TIMEOUT = timedelta(minutes=10)
MODEL_HEARTBEAT = timedelta(seconds=5)
IDEMPOTENT_HEARTBEAT = timedelta(seconds=5)
MOST_IN_FLIGHT = 1_000
"""Activities of a run at once: the server takes 2,000, and fails the workflow task for ever at one more."""
MOST_BYTES_IN_FLIGHT = 2_000_000
"""Bytes of their inputs: what one workflow task starts has to fit into 4 MB, or the server ends the run."""
AT_MOST_ONCE_HEARTBEAT = timedelta(seconds=30)
"""Longer, since a short one on a busy machine reports "unknown" for a call that then takes effect."""


class Running:
    """One run while it runs. Turns the page by `pause`: nothing new starts, what is in flight comes home."""

    def __init__(
        self,
        request: RunRequest,
        state: RunState,
        desk: "Desk",
        tell: "Callable[[Scope], Awaitable[Answer]]",
    ) -> None:
        self.request, self.state, self.desk, self.tell = request, state, desk, tell
        self.scopes: dict[str, Scope] = {}
        self.grown = 0
        self._in_flight: dict[ActivityHandle[Any], bool] = {}
        self._bytes_in_flight = 0
        self._paused = False
        self._held_back: deque[asyncio.Future[None]] = deque()

    @property
    def at_rest(self) -> bool:
        """Whether no activity is in flight."""
        return not self._in_flight

    def pause(self) -> None:
        """Start nothing new from now on."""
        self._paused = True

    def resume(self) -> None:
        """Start again what `pause` held back."""
        self._paused = False
        self._let_in_the_next()

    def stop_thinking(self) -> None:
        """Cancel model calls in flight: nobody will hear their replies. Tools run to their end: an effect that has
        begun cannot be taken back."""
        for handle, thinks in self._in_flight.items():
            if thinks:
                handle.cancel()

    async def think(self, request: ModelRequest) -> Reply:
        """One model call. Raises `ActivityError`."""
        reply: Reply = await self._act(
            COMPLETE,
            request,
            Reply,
            thinks=True,
            start_to_close_timeout=MODEL_TIMEOUT,
            heartbeat_timeout=MODEL_HEARTBEAT,
            retry_policy=MODEL_RETRIES,
            summary=request.agent,
        )
        self.grown += len(reply.content) + sum(len(call.arguments) for call in reply.calls)
        return reply

    async def work(self, tool: ToolSpec, call: ToolInput) -> Any:
        """One run of a tool; what it gives is any JSON, since it may be served by anybody. Raises `ActivityError`."""
        beats = IDEMPOTENT_HEARTBEAT if tool.attempts > 1 else AT_MOST_ONCE_HEARTBEAT
        heartbeat: timedelta | None = (
            None if tool.task_queue else beats
        )  # a foreign worker may not know of beats
        if tool.heartbeat is not None:
            heartbeat = timedelta(seconds=tool.heartbeat)
        given = await self._act(
            tool.type,
            call,
            None,
            thinks=False,
            task_queue=tool.task_queue,
            start_to_close_timeout=timedelta(seconds=tool.timeout),
            heartbeat_timeout=heartbeat,
            retry_policy=RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=tool.attempts),
            summary=call.address,
        )
        self.grown += len(str(given))
        return given

    async def _act(
        self, name: str, argument: Record, result_type: Any, *, thinks: bool, **options: Any
    ) -> Any:
        size = len(argument.model_dump_json())
        while self._paused or self._has_no_room(size):
            held_back = asyncio.get_running_loop().create_future()
            self._held_back.append(held_back)
            await held_back
        handle: ActivityHandle[Any] = workflow.start_activity(
            name, argument, result_type=result_type, **options
        )
        self._in_flight[handle] = thinks
        self._bytes_in_flight += size
        self._let_in_the_next()
        try:
            # The caller stores what came in the same step, so that nothing is lost when the page turns at rest.
            return await handle
        finally:
            del self._in_flight[handle]
            self._bytes_in_flight -= size
            self._let_in_the_next()

    def _has_no_room(self, size: int) -> bool:
        return len(self._in_flight) >= MOST_IN_FLIGHT or (
            self._bytes_in_flight > 0 and self._bytes_in_flight + size > MOST_BYTES_IN_FLIGHT
        )

    def _let_in_the_next(self) -> None:
        """Wake the next call that was held back; it wakes the one after it, if there is room."""
        while self._held_back:
            next = self._held_back.popleft()
            if not next.done():
                next.set_result(None)
                return

    def forget_below(self, address: str) -> None:
        """Drop what an agent that is done remembers, and what all below it do."""
        for known in [a for a in self.state.memories if a == address or a.startswith(f"{address}>")]:
            del self.state.memories[known]
            self.scopes.pop(known, None)

    def key(self, address: str, arguments: dict[str, Any]) -> str:
        """The idempotency key of a call: the same over retries, workers, page turns and resets."""
        id = workflow.info().workflow_id
        return strict_json.digest([id, self.state.board.run, address, arguments], 64)


async def together(coroutines: Sequence[Awaitable[None]]) -> None:
    """Run all of them at once; each stores its own outcome."""
    if len(coroutines) == 1:
        await coroutines[0]
    elif coroutines:
        await asyncio.gather(*coroutines)
