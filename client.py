"""The verbs on runs: start, look, decide, wait; what the CLI does, and any other service can.

    client = await Client.connect()
    started = await client.start(request)
    for listed in (await client.pending(started.id)).interrupts:
        await client.decide(started.id, listed.id, {"decision": "approve"}, digest=listed.digest)
    result = await client.result(started.id)

Every verb takes the run's workflow id, raises `SignoffError` with one line that says what to do, and ends within the
client's timeout, whatever the server and its workers do.
"""

import asyncio
import contextlib
import os
import random
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, TypeVar

import temporalio.client
from pydantic import TypeAdapter, ValidationError
from temporalio.api.common.v1 import WorkflowExecution as ExecutionIds
from temporalio.api.enums.v1 import EventType, IndexedValueType, TaskQueueType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    GetWorkflowExecutionHistoryRequest,
)
from temporalio.client import (
    RPCError,
    RPCTimeoutOrCancelledError,
    WorkflowExecution,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDReusePolicy,
)
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import ApplicationError, TerminatedError, WorkflowAlreadyStartedError
from temporalio.exceptions import TimeoutError as RanOutOfTime
from temporalio.runtime import Runtime
from temporalio.service import RPCStatusCode

from converter import DATA_CONVERTER
from protocol import errors
from protocol.board import Audit, clip
from protocol.errors import (
    BadInput,
    DecisionRefused,
    NoSuchRun,
    NoWorker,
    RunClosed,
    SignoffError,
    UnknownInterrupt,
    Unreachable,
)
from protocol.interrupts import (
    Decision,
    EndRequest,
    Envelope,
    ResumeReply,
    ResumeRequest,
    SayRequest,
    WithdrawRequest,
    parse,
    parse_decision,
)
from protocol.messages import Message
from protocol.record import Record, read
from protocol.run import RunRequest, RunResult
from protocol.views import (
    InterruptsPage,
    PendingPage,
    PendingQuery,
    TranscriptPage,
    TranscriptQuery,
    Tree,
)
from protocol.work import COMPLETE

AGENT_RUN = "AgentRun"
"""The workflow type of a run."""
DEFAULT_ADDRESS = "localhost:7233"
DEFAULT_QUEUE = "signoff"

STATUS = SearchAttributeKey.for_keyword("SignoffStatus")
AGENT = SearchAttributeKey.for_keyword("SignoffAgent")
PENDING = SearchAttributeKey.for_keyword_list("SignoffPending")
APPROVERS = SearchAttributeKey.for_keyword_list("SignoffApprovers")
WAITING_SINCE = SearchAttributeKey.for_datetime("SignoffWaitingSince")
PENDING_COUNT = SearchAttributeKey.for_int("SignoffPendingCount")
ATTRIBUTES: Mapping[str, str] = {
    STATUS.name: "Keyword",
    AGENT.name: "Keyword",
    PENDING.name: "KeywordList",
    APPROVERS.name: "KeywordList",
    WAITING_SINCE.name: "Datetime",
    PENDING_COUNT.name: "Int",
}
"""The search attributes of a run, which a server has to know before the first one starts."""

_INDEXED: Mapping[str, IndexedValueType.ValueType] = {
    "Keyword": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    "KeywordList": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST,
    "Datetime": IndexedValueType.INDEXED_VALUE_TYPE_DATETIME,
    "Int": IndexedValueType.INDEXED_VALUE_TYPE_INT,
}

MAX_SUMMARY = 100
"""Characters of the task in a run's summary; the server takes 400 bytes."""
POLLER_SEEN = timedelta(seconds=75)
"""A worker polls at least once a minute; one not seen for longer is gone."""
LONG_POLL = timedelta(seconds=30)

R = TypeVar("R", bound=Record)
T = TypeVar("T")


def default_queue() -> str:
    """The task queue that runs are started on and workers serve, unless they are told another one."""
    return os.environ.get("SIGNOFF_TASK_QUEUE") or DEFAULT_QUEUE


def configured(profile: str | None = None) -> bool:
    """Whether the environment or a Temporal profile names a server."""
    return "target_host" in _connect_config(profile)


def registering(attributes: Iterable[str] = ATTRIBUTES) -> str:
    """The command that makes search attributes known to a server."""
    named = " ".join(f"--name {name} --type {ATTRIBUTES[name]}" for name in attributes)
    return f"temporal operator search-attribute create {named}"


@dataclass(frozen=True)
class Started:
    """A run that is there now. `already` says that it was running before, and was not started again."""

    id: str
    run: str
    already: bool = False


@dataclass(frozen=True)
class Described:
    """What the server knows of a run without asking its worker.

    `state` is Temporal's own (running, completed, failed, …). `ids` are those of the open interrupts, as far as they
    fit; `count` is the number of all of them. `troubles` are the activities that failed and are tried again, in words.
    """

    id: str
    run: str
    type: str
    state: str
    agent: str
    status: str
    ids: tuple[str, ...]
    count: int
    approvers: tuple[str, ...]
    since: datetime | None
    started: datetime
    closed: datetime | None
    task_queue: str
    troubles: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        return self.state == "running"


@dataclass(frozen=True)
class InboxPage:
    """Some of the runs that wait. `total` counts all that the filters find; `next` asks for the page that follows."""

    rows: tuple[Described, ...]
    total: int
    next: bytes | None = None


class Client:
    """The verbs on runs, over a Temporal client. *timeout* bounds every question to a worker, in seconds."""

    def __init__(
        self, temporal: temporalio.client.Client, *, task_queue: str | None = None, timeout: float = 10.0
    ) -> None:
        self.temporal = temporal
        self.task_queue = task_queue or default_queue()
        self.timeout = timeout

    @classmethod
    async def connect(
        cls,
        address: str | None = None,
        *,
        namespace: str | None = None,
        profile: str | None = None,
        task_queue: str | None = None,
        timeout: float = 10.0,
        runtime: Runtime | None = None,
    ) -> "Client":
        """Connect to the server that is named here, by the environment (``TEMPORAL_ADDRESS``, …) or by a profile.

        Without any of them it is the one at `DEFAULT_ADDRESS`. Raises `Unreachable`.
        """
        config = _connect_config(profile)
        if address:
            config["target_host"] = address
        if namespace:
            config["namespace"] = namespace
        config.setdefault("target_host", DEFAULT_ADDRESS)
        try:
            async with asyncio.timeout(timeout):
                temporal = await temporalio.client.Client.connect(
                    **config, data_converter=DATA_CONVERTER, runtime=runtime
                )
        except (RuntimeError, ValueError, RPCError, TimeoutError) as error:
            raise Unreachable(_no_server(config["target_host"], error)) from None
        return cls(temporal, task_queue=task_queue, timeout=timeout)

    @property
    def address(self) -> str:
        return self.temporal.service_client.config.target_host

    async def ensure_search_attributes(self) -> list[str]:
        """Create the search attributes that the server lacks, and name them: without them, every run would be stuck.

        Raises `Unreachable` with the command that creates them, where this client may not.
        """
        namespace = self.temporal.namespace
        operator = self.temporal.operator_service
        try:
            found = await operator.list_search_attributes(
                ListSearchAttributesRequest(namespace=namespace), retry=True, timeout=self._bounded
            )
        except RPCError as error:
            if error.status not in _NOT_ALLOWED:
                async with self._plainly():
                    raise
            # Whoever may not list them may still use them; a query says whether they are there.
            async with self._plainly():
                query = " AND ".join(f"{name} IS NULL" for name in ATTRIBUTES)
                await self.temporal.count_workflows(query, rpc_timeout=self._bounded)
            return []
        known = found.custom_attributes
        for name, wanted in ATTRIBUTES.items():
            if known.get(name, _INDEXED[wanted]) != _INDEXED[wanted]:
                raise Unreachable(
                    f"the search attribute {name} of the namespace '{namespace}' is not of type {wanted}: remove it "
                    f"with `temporal operator search-attribute remove --name {name}`, then start again"
                )
        missing = [name for name in ATTRIBUTES if name not in known]
        if missing:
            wanted_types = {name: _INDEXED[ATTRIBUTES[name]] for name in missing}
            try:
                await operator.add_search_attributes(
                    AddSearchAttributesRequest(namespace=namespace, search_attributes=wanted_types),
                    timeout=self._bounded,
                )
            except RPCError as error:
                raise Unreachable(
                    f"search attributes are missing and cannot be created here ({_one_line(error)}): run "
                    f"{registering(missing)} --namespace {namespace}"
                ) from None
        return missing

    # ----------------------------------------------------------------------------------------- starting

    async def start(self, request: RunRequest, *, id: str | None = None) -> Started:
        """Start a run, or find the one that runs under *id*: a run is never doubled, and an id never used again.

        Raises `RunClosed` if the run of that id has ended.
        """
        id = id or f"{request.agent.name}-{uuid.uuid4().hex[:8]}"
        attributes = [SearchAttributePair(STATUS, "running"), SearchAttributePair(AGENT, request.agent.name)]
        async with self._plainly(id):
            try:
                handle = await self.temporal.start_workflow(
                    AGENT_RUN,
                    request,
                    id=id,
                    task_queue=self.task_queue,
                    id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                    search_attributes=TypedSearchAttributes(attributes if request.visible else []),
                    static_summary=clip(" ".join(request.task.split()), MAX_SUMMARY),
                    rpc_timeout=self._bounded,
                )
                return Started(id, handle.first_execution_run_id or handle.result_run_id or "")
            except WorkflowAlreadyStartedError:
                found = await self.describe(id)
        if found.type != AGENT_RUN:
            raise BadInput(f"the id '{id}' belongs to a workflow of type '{found.type}': choose another one")
        if not found.open:
            raise RunClosed(
                f"the run '{id}' has ended ({found.state}), and its id is not used again: choose another"
            )
        return Started(id, found.run, already=True)

    # ------------------------------------------------------------------------------------------ looking

    async def describe(self, id: str) -> Described:
        """What the server knows of a run; needs no worker. Raises `NoSuchRun`."""
        async with self._plainly(id):
            found = await self._handle(id).describe(rpc_timeout=self._bounded)
            return replace(_described(found), troubles=tuple(_troubles(found)))

    async def require_open(self, id: str) -> None:
        """Raise `RunClosed`, which says how it ended, unless the run is still open; or `NoSuchRun`."""
        found = await self.describe(id)
        if not found.open:
            raise await self._ended(found)

    async def pending(self, id: str, *, interrupt: str | None = None) -> PendingPage:
        """The open interrupts of a run, all of them or one, each with what is needed to decide it."""
        page = await self._query(id, "pending", PendingQuery(id=interrupt), PendingPage)
        listed = list(page.interrupts)
        while page.more:
            page = await self._query(id, "pending", PendingQuery(after=listed[-1].id), PendingPage)
            listed += page.interrupts
        return page.model_copy(update={"interrupts": tuple(listed), "more": False})

    async def interrupts(self, id: str) -> InterruptsPage:
        """The open interrupts, and what became of the last that are closed."""
        return await self._query(id, "interrupts", None, InterruptsPage)

    async def audit(self, id: str) -> Audit:
        """Who decided what, and which attempts were refused; of a run that has ended, without a worker."""
        if not (await self.describe(id)).open:
            with contextlib.suppress(Unreachable):
                return (await self.result(id)).audit
        async with self._plainly(id, asks_worker=True):
            return _as(Audit, await self._handle(id).query("audit", {}, rpc_timeout=self._bounded))

    async def transcript(self, id: str, *, agent: str | None = None) -> list[Message]:
        """The conversation of the root agent, or of the one whose written address is *agent*."""
        messages: list[Message] = []
        while True:
            query = TranscriptQuery(agent=agent, start=len(messages))
            page = await self._query(id, "transcript", query, TranscriptPage)
            messages += page.messages
            if not page.more:
                return messages

    async def tree(self, id: str) -> Tree:
        """Every agent that the run has entered, and its latest calls."""
        return await self._query(id, "tree", None, Tree)

    async def result(self, id: str) -> RunResult:
        """Wait for the end of a run, over all its pages, and give its result; also of a failed one.

        Raises `RunClosed` for a run that was ended from outside and so has none. The one verb without a time limit.
        """
        async with self._plainly(id):
            try:
                return _as(RunResult, await self._handle(id).result())
            except WorkflowFailureError as failure:
                return _result_of(id, failure.cause)
            except BadInput:
                raise BadInput(f"the workflow '{id}' gave no result of a run") from None

    async def inbox(
        self,
        *,
        agent: str | None = None,
        approver: str | None = None,
        older_than: timedelta | None = None,
        limit: int = 20,
        page: bytes | None = None,
    ) -> InboxPage:
        """The runs that wait for a person, newest first, from visibility alone: it needs no worker."""
        wanted = ["ExecutionStatus = 'Running'", f"{STATUS.name} = 'waiting'"]
        if agent is not None:
            wanted.append(f"{AGENT.name} = {_quoted(agent)}")
        if approver is not None:
            wanted.append(f"{APPROVERS.name} = {_quoted(approver)}")
        if older_than is not None:
            wanted.append(f"{WAITING_SINCE.name} <= '{(datetime.now(UTC) - older_than).isoformat()}'")
        query = " AND ".join(wanted)
        async with self._plainly():
            listing = self.temporal.list_workflows(
                query, page_size=limit, next_page_token=page, rpc_timeout=self._bounded
            )
            _, count = await asyncio.gather(
                listing.fetch_next_page(),
                self.temporal.count_workflows(query, rpc_timeout=self._bounded),
            )
        rows = [_described(execution) for execution in listing.current_page or ()]
        return InboxPage(tuple(rows), count.count, listing.next_page_token)

    async def look_into(
        self, rows: Sequence[Described], *, first: float = 0.5, within: float = 3.0
    ) -> dict[str, PendingPage | SignoffError]:
        """The questions of each row, or why they cannot be shown.

        If nobody answers for the *first* part of a second, nobody is there; else all have *within* seconds.
        """
        queues = sorted({row.task_queue for row in rows})
        served = dict(zip(queues, await asyncio.gather(*map(self.is_served, queues)), strict=True))
        slots = asyncio.Semaphore(20)

        async def ask(row: Described) -> PendingPage:
            async with slots:
                return await self.pending(row.id)

        asked = {row.id: asyncio.create_task(ask(row)) for row in rows if served[row.task_queue]}
        if asked:
            answered, _ = await asyncio.wait(
                asked.values(), timeout=first, return_when=asyncio.FIRST_COMPLETED
            )
            if answered:
                await asyncio.wait(asked.values(), timeout=within)
        found: dict[str, PendingPage | SignoffError] = {}
        for row in rows:
            task = asked.get(row.id)
            if task is None:
                found[row.id] = NoWorker(f"no worker serves the task queue '{row.task_queue}'")
            elif not task.done():
                task.cancel()
                found[row.id] = NoWorker("no worker answered in time")
            elif isinstance(error := task.exception(), SignoffError):
                found[row.id] = error
            else:
                found[row.id] = task.result()
        await asyncio.gather(*asked.values(), return_exceptions=True)
        return found

    async def is_served(self, task_queue: str) -> bool:
        """Whether a worker was seen on a task queue in the last minute."""
        async with self._plainly():
            found = await self.temporal.workflow_service.describe_task_queue(
                DescribeTaskQueueRequest(
                    namespace=self.temporal.namespace,
                    task_queue=TaskQueue(name=task_queue),
                    task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
                ),
                retry=True,
                timeout=self._bounded,
            )
        oldest = datetime.now(UTC) - POLLER_SEEN
        return any(poller.last_access_time.ToDatetime(UTC) > oldest for poller in found.pollers)

    async def history(
        self, id: str, *, follow: bool = False, from_now: bool = False
    ) -> AsyncIterator[HistoryEvent]:
        """The events of a run, over all its pages; with *follow* also those to come, until its end.

        With *from_now* what has happened already is left out. A server that goes away for a while is waited for.
        """
        run: str | None = None
        if not from_now:
            run = (await self.describe(id)).run
        while True:
            turned: str | None = None
            async for event in self._page(id, run, follow=follow, from_now=from_now):
                yield event
                if event.HasField("workflow_execution_continued_as_new_event_attributes"):
                    turned = event.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
            if turned is None:
                return
            run, from_now = turned, False

    # ----------------------------------------------------------------------------------------- deciding

    async def decide(
        self,
        id: str,
        interrupt: str,
        decision: Decision | Mapping[str, Any],
        *,
        by: str | None = None,
        run: str | None = None,
        digest: str | None = None,
        request_id: str | None = None,
    ) -> ResumeReply:
        """Decide one interrupt. *run* and *digest* as it was listed: if either changed, the decision is refused."""
        envelope = {"by": by, "run": run, "digest": digest, "request_id": request_id}
        given = {name: value for name, value in envelope.items() if value is not None}
        return await self.resume(id, parse_decision(interrupt, {**_plain(decision), **given}))

    async def resume(self, id: str, request: ResumeRequest | Mapping[str, Any]) -> ResumeReply:
        """Decide one or many interrupts, all or none of them, and hear what became of each.

        The reply comes when the decision is settled, not when the tool has run. Sent again by itself, under the same
        `request_id`, when a page turn or the network ate the reply. Raises `DecisionRefused`.
        """
        return await self._update(id, "resume", _read(ResumeRequest, request))

    async def resume_by_signal(self, id: str, request: ResumeRequest | Mapping[str, Any]) -> None:
        """Leave a decision for the run without waiting for its worker; a refusal then stands in its audit only."""
        async with self._plainly(id):
            signed = _signed(_read(ResumeRequest, request))
            await self._handle(id).signal("resume", signed, rpc_timeout=self._bounded)

    async def withdraw(
        self,
        id: str,
        interrupt: str,
        *,
        by: str | None = None,
        reason: str | None = None,
        run: str | None = None,
        digest: str | None = None,
        request_id: str | None = None,
    ) -> ResumeReply:
        """Close an interrupt without running what it asks about."""
        request = WithdrawRequest(
            target=interrupt, by=by, reason=reason, run=run, digest=digest, request_id=request_id
        )
        return await self._update(id, "withdraw", request)

    async def say(self, id: str, text: str, *, by: str | None = None) -> None:
        """Say something in a conversation."""
        await self._update(id, "say", _read(SayRequest, {"text": text, "by": by}))

    async def end(self, id: str, *, by: str | None = None) -> None:
        """End a conversation in good order."""
        await self._update(id, "end", _read(EndRequest, {"by": by}))

    async def cancel(self, id: str, *, reason: str = "") -> None:
        """Ask a run to stop: open interrupts close as cancelled, and it ends with what it has."""
        await self.require_open(id)
        async with self._plainly(id):
            await self._handle(id).cancel(reason=reason, rpc_timeout=self._bounded)

    # ------------------------------------------------------------------------------------------- within

    @property
    def _bounded(self) -> timedelta:
        return timedelta(seconds=self.timeout)

    def _handle(self, id: str, run: str | None = None) -> WorkflowHandle[Any, Any]:
        if not id.strip():
            raise BadInput("the id of the run is empty")
        return self.temporal.get_workflow_handle(id, run_id=run)

    async def _query(self, id: str, name: str, query: Record | None, model: type[R]) -> R:
        async with self._plainly(id, asks_worker=True):
            return _as(model, await self._handle(id).query(name, query or {}, rpc_timeout=self._bounded))

    async def _update(
        self, id: str, name: str, request: ResumeRequest | WithdrawRequest | SayRequest | EndRequest
    ) -> ResumeReply:
        signed, update_id = _signed(request), uuid.uuid4().hex
        give_up = asyncio.get_running_loop().time() + self.timeout
        once_more = True
        async with self._plainly(id, asks_worker=True):
            while True:
                try:
                    # The type of the reply is checked afterwards: what is no run of ours may say anything.
                    reply = await self._handle(id).execute_update(
                        name, signed, id=update_id, rpc_timeout=self._bounded
                    )
                    return _as(ResumeReply, reply)
                except RPCError as error:
                    if not _passes(error) or asyncio.get_running_loop().time() > give_up:
                        raise
                except WorkflowUpdateFailedError as error:
                    refusal = _refusal(error)
                    # A query on a cold worker shows a question just before the task that opens it.
                    if not (isinstance(refusal, UnknownInterrupt) and once_more):
                        raise refusal from None
                    once_more = False
                await asyncio.sleep(random.uniform(0.1, 0.3))

    async def _page(
        self, id: str, run: str | None, *, follow: bool, from_now: bool
    ) -> AsyncIterator[HistoryEvent]:
        """The events of one execution in the order of their ids, each once."""
        seen, token = 0, b""
        fresh = not from_now
        while True:
            # The end of what has happened is not said when waiting for more; so the past is read without waiting.
            wait = follow and fresh
            try:
                async with self._plainly(id):
                    page = await self.temporal.workflow_service.get_workflow_execution_history(
                        GetWorkflowExecutionHistoryRequest(
                            namespace=self.temporal.namespace,
                            execution=ExecutionIds(workflow_id=id, run_id=run or ""),
                            next_page_token=token,
                            wait_new_event=wait,
                        ),
                        timeout=LONG_POLL,
                    )
            except (NoSuchRun, RunClosed):
                raise
            except Unreachable:
                if not wait or not seen:
                    raise
                token = b""
                await asyncio.sleep(1)
                continue
            for event in page.history.events:
                if event.event_id > seen:
                    seen = event.event_id
                    if fresh or event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
                        yield event
            token = page.next_page_token
            if not token:
                if fresh:
                    return
                fresh = True

    @contextlib.asynccontextmanager
    async def _plainly(self, id: str = "", *, asks_worker: bool = False) -> AsyncIterator[None]:
        """Say what Temporal says in one line that a person can act on."""
        try:
            yield
        except (RPCTimeoutOrCancelledError, WorkflowUpdateRPCTimeoutOrCancelledError):
            await self._timed_out(id, asks_worker)
        except WorkflowQueryFailedError as error:
            raise _query_failed(id, str(error)) from None
        except RPCError as error:
            await self._rpc_failed(id, error, asks_worker)

    async def _timed_out(self, id: str, asks_worker: bool) -> NoReturn:
        slow = Unreachable(
            f"the Temporal server at {self.address} did not answer within {self.timeout:g} s: try again"
        )
        if not asks_worker:
            raise slow from None
        try:
            found = _described(await self._handle(id).describe(rpc_timeout=timedelta(seconds=2)))
        except RPCError:
            raise slow from None
        raise (_no_worker(found) if found.open else await self._ended(found)) from None

    async def _rpc_failed(self, id: str, error: RPCError, asks_worker: bool) -> NoReturn:
        message = " ".join(error.message.split())
        lower = message.lower()
        match error.status:
            case RPCStatusCode.NOT_FOUND if "namespace" in lower:
                raise Unreachable(
                    f"the server at {self.address} has no namespace '{self.temporal.namespace}': "
                    "name one that exists in TEMPORAL_NAMESPACE"
                ) from None
            case RPCStatusCode.NOT_FOUND if id:
                await self._not_there(id)
            case RPCStatusCode.CANCELLED | RPCStatusCode.DEADLINE_EXCEEDED:
                await self._timed_out(id, asks_worker)
            case RPCStatusCode.FAILED_PRECONDITION if "no poller" in lower:
                await self._timed_out(id, asks_worker=True)
            case RPCStatusCode.UNAVAILABLE:
                raise Unreachable(_no_server(self.address, error)) from None
            case RPCStatusCode.PERMISSION_DENIED | RPCStatusCode.UNAUTHENTICATED:
                raise Unreachable(
                    f"the server at {self.address} refuses this client ({message}): check TEMPORAL_API_KEY or the "
                    "profile"
                ) from None
            case RPCStatusCode.INVALID_ARGUMENT if (
                "search attribute" in lower or "no mapping defined" in lower
            ):
                raise Unreachable(
                    f"the server at {self.address} lacks search attributes of Signoff: start a worker, which creates "
                    f"them, or run: {registering()}"
                ) from None
            case RPCStatusCode.INVALID_ARGUMENT:
                raise BadInput(f"the server refuses this: {message}") from None
            case _:
                raise Unreachable(f"the server at {self.address} says: {message}") from None

    async def _not_there(self, id: str) -> NoReturn:
        """The run does not exist, or has ended: find out which."""
        try:
            found = _described(await self._handle(id).describe(rpc_timeout=self._bounded))
        except RPCError:
            raise NoSuchRun(
                f"there is no run '{id}' at {self.address}: `signoff inbox` shows those that wait"
            ) from None
        raise await self._ended(found) from None

    async def _ended(self, found: Described) -> RunClosed:
        """How a run ended, in its own words: Temporal calls a run that was cancelled in good order completed."""
        how = found.state
        with contextlib.suppress(SignoffError, TimeoutError):
            async with asyncio.timeout(2):
                how = (await self.result(found.id)).status
        when = f" at {found.closed.isoformat(timespec='seconds')}" if found.closed else ""
        return RunClosed(f"the run '{found.id}' has ended ({how}{when}): nothing can be sent to it any more")


# ---------------------------------------------------------------------------------------- what came back


def _connect_config(profile: str | None) -> Any:
    try:
        return ClientConfig.load_client_connect_config(profile)
    except (RuntimeError, ValueError, OSError) as error:
        raise BadInput(f"the Temporal configuration cannot be used: {_one_line(error)}") from None


_NOT_ALLOWED = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED, RPCStatusCode.UNIMPLEMENTED)


def _no_server(address: str, error: BaseException) -> str:
    why = _one_line(error)
    refused = "Connection refused" in why or "connect error" in why or not why
    return f"no Temporal server answers at {address}" + (
        ": start one (`signoff dev`), or name yours in TEMPORAL_ADDRESS"
        if refused
        else f" ({clip(why, 200)})"
    )


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def _no_worker(found: Described) -> NoWorker:
    return NoWorker(
        f"no worker answers for the run '{found.id}': start one for its task queue "
        f"'{found.task_queue}', then try again"
    )


def _query_failed(id: str, message: str) -> SignoffError:
    if "failed state" in message:
        return Unreachable(f"the run '{id}' cannot go on, so it cannot be asked: the worker's log says why")
    if "not found" in message:
        return BadInput(f"the workflow '{id}' is no run of Signoff")
    return Unreachable(f"the run '{id}' cannot be asked: {' '.join(message.split())}")


def _passes(error: RPCError) -> bool:
    """Whether a failed update is worth sending again: a page turned under it, or the server was away."""
    return (
        error.status is RPCStatusCode.UNAVAILABLE
        or error.status is RPCStatusCode.ABORTED
        or (error.status is RPCStatusCode.FAILED_PRECONDITION and "workflow task failure" in error.message)
    )


def _refusal(error: WorkflowUpdateFailedError) -> SignoffError:
    cause = error.cause
    if not isinstance(cause, ApplicationError):
        return DecisionRefused(_one_line(cause))
    known = getattr(errors, cause.type or "", None)
    kind = known if isinstance(known, type) and issubclass(known, SignoffError) else DecisionRefused
    return kind(" ".join(cause.message.split("\n")))


def _result_of(id: str, cause: BaseException | None) -> RunResult:
    match cause:
        case ApplicationError(details=[details, *_]):
            with contextlib.suppress(BadInput):
                return _as(RunResult, details)
            return RunResult(status="failed", answer=str(cause))
        case TerminatedError():
            raise RunClosed(f"the run '{id}' was terminated from outside ({cause.message}): it has no result")
        case RanOutOfTime():
            raise RunClosed(f"the run '{id}' was ended by a timeout of Temporal: it has no result")
        case _:
            return RunResult(status="failed", answer="the run failed" if cause is None else _one_line(cause))


def _described(execution: WorkflowExecution) -> Described:
    found = execution.typed_search_attributes
    state = execution.status or WorkflowExecutionStatus.RUNNING
    return Described(
        id=execution.id,
        run=execution.raw_info.first_run_id or execution.run_id,
        type=execution.workflow_type,
        state=state.name.lower(),
        agent=found.get(AGENT) or "",
        status=found.get(STATUS) or "",
        ids=tuple(found.get(PENDING) or ()),
        count=found.get(PENDING_COUNT) or 0,
        approvers=tuple(found.get(APPROVERS) or ()),
        since=found.get(WAITING_SINCE),
        started=execution.start_time,
        closed=execution.close_time,
        task_queue=execution.task_queue,
    )


def _troubles(found: WorkflowExecutionDescription) -> Iterator[str]:
    for pending in found.raw_description.pending_activities:
        if pending.attempt > 1:
            failure = pending.last_failure
            while failure.HasField("cause"):
                failure = failure.cause
            name = pending.activity_type.name
            what = "a model call" if name == COMPLETE else f"the tool '{name}'"
            yield f"{what} fails, attempt {pending.attempt} is next or under way: {clip(failure.message, 300)}"


def _as(model: type[T], value: Any) -> T:
    """What a workflow said, as *model*. Raises `BadInput` if it is something else: the workflow is none of ours."""
    try:
        return read(TypeAdapter(model), value)
    except (ValidationError, ValueError, TypeError):
        raise BadInput(
            f"the answer is no {model.__name__}: the workflow is no run of Signoff, or of another version"
        ) from None


def _read(model: type[R], request: R | Mapping[str, Any]) -> R:
    return request if isinstance(request, model) else parse(model, _plain(request))


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.model_dump(mode="json")
    return (
        {key: item for key, item in value.items() if item is not None}
        if isinstance(value, Mapping)
        else value
    )


def _signed(request: Any) -> Any:
    """*request* with an id of its own, so that sending it twice counts once."""
    if not isinstance(request, Envelope) or request.request_id is not None:
        return request
    return request.model_copy(update={"request_id": uuid.uuid4().hex})


def _quoted(value: str) -> str:
    """A text in a visibility query."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
