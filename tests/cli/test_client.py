"""The verbs under bad weather: replies that are lost, pages that turn, workers that are cold."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import temporalio.client
from temporalio.client import Interceptor, OutboundInterceptor, StartWorkflowUpdateInput
from temporalio.service import RPCError, RPCStatusCode

from client import Client
from converter import DATA_CONVERTER
from devserver import DevServer
from protocol.errors import AlreadyDecided, BadInput, DecisionRefused, NoSuchRun, RunClosed, UnknownInterrupt
from protocol.run import RunRequest
from scenarios import SCENARIOS
from worker import serving

CALL = "ticket_booker>BookTicket:call_1"
TURNED = "Unable to perform workflow execution update due to unexpected workflow task failure"


class Weather(Interceptor):
    """Between client and server: loses the replies it is told to lose."""

    def __init__(self) -> None:
        self.lost: list[RPCError] = []
        self.lost_after: list[RPCError] = []
        self.sent: list[Any] = []

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        weather = self

        class Between(OutboundInterceptor):
            async def start_workflow_update(self, input: StartWorkflowUpdateInput) -> Any:
                weather.sent.append(input.args[0])
                if weather.lost:
                    raise weather.lost.pop()
                done = await super().start_workflow_update(input)
                if weather.lost_after:
                    raise weather.lost_after.pop()
                return done

        return Between(next)


def failure(status: RPCStatusCode, message: str) -> RPCError:
    return RPCError(message, status, b"")


@pytest.fixture
def weather() -> Weather:
    return Weather()


@pytest.fixture
async def client(server: DevServer, weather: Weather) -> AsyncIterator[Client]:
    temporal = await temporalio.client.Client.connect(
        server.address, data_converter=DATA_CONVERTER, interceptors=[weather]
    )
    client = Client(temporal, task_queue=f"client-{uuid.uuid4().hex[:6]}")
    async with serving(client):
        yield client


async def waiting(client: Client, scenario: str = "approval", request: RunRequest | None = None) -> str:
    """The id of a run that was started and waits for its first decision."""
    started = await client.start(request or SCENARIOS[scenario].request())
    async with asyncio.timeout(30):
        while not (await client.pending(started.id)).interrupts:  # noqa: ASYNC110  # a query is all there is
            await asyncio.sleep(0.05)
    return started.id


@pytest.mark.parametrize(
    "lost",
    [failure(RPCStatusCode.FAILED_PRECONDITION, TURNED), failure(RPCStatusCode.UNAVAILABLE, "gone")],
    ids=["page turned", "server away"],
)
async def test_a_decision_is_sent_again_as_the_same_request(
    client: Client, weather: Weather, lost: RPCError
) -> None:
    """B029"""
    id = await waiting(client)
    weather.lost, weather.lost_after = [lost], [lost]
    reply = await client.decide(id, CALL, {"decision": "approve"}, by="li.wei")
    assert reply.results[CALL].status == "taken"
    assert len(weather.sent) == 3
    assert len({request.request_id for request in weather.sent}) == 1
    assert [entry.outcome for entry in (await client.result(id)).audit.closed] == ["approved"]


async def test_words_whose_reply_is_lost_are_said_once(client: Client, weather: Weather) -> None:
    request = SCENARIOS["approval"].request().model_copy(update={"chat": True})
    id = await waiting(client, request=request)
    weather.lost_after = [failure(RPCStatusCode.UNAVAILABLE, "gone")]
    await client.say(id, "only once")
    await client.end(id)
    await client.decide(id, CALL, {"decision": "reject"})
    end = await client.result(id)
    assert sum("only once" in (message.content or "") for message in end.transcript) == 1


async def test_an_unknown_id_is_tried_once_more_since_its_question_may_be_about_to_open(
    client: Client, weather: Weather
) -> None:
    id = await waiting(client)
    with pytest.raises(UnknownInterrupt, match=f"waiting: {CALL}"):
        await client.decide(id, "ticket_booker>BookTicket:call_9", {"decision": "approve"})
    assert len(weather.sent) == 2
    await client.cancel(id)


async def test_refusals_are_told_by_their_kind(client: Client) -> None:
    id = await waiting(client, "supervisor")
    [listed] = (await client.pending(id)).interrupts
    with pytest.raises(DecisionRefused, match="changed: look at it again"):
        await client.decide(id, listed.id, {"decision": "approve"}, digest="0" * 16)
    with pytest.raises(DecisionRefused, match="earlier run"):
        await client.decide(id, listed.id, {"decision": "approve"}, run="another")
    with pytest.raises(DecisionRefused, match="it takes approve or reject"):
        await client.decide(id, listed.id, {"decision": "accept"})
    with pytest.raises(BadInput, match=r"unknown field 'approve\.text'"):
        await client.decide(id, listed.id, {"decision": "approve", "text": "x"})
    await client.decide(
        id, listed.id, {"decision": "reject", "reason": "no"}, digest=listed.digest, run=listed.run
    )
    with pytest.raises((AlreadyDecided, RunClosed)):
        await client.decide(id, listed.id, {"decision": "approve"})
    await client.cancel(id) if (await client.describe(id)).open else None


async def test_every_look_at_a_run_that_never_was_says_so(client: Client) -> None:
    for look in (
        client.describe,
        client.pending,
        client.interrupts,
        client.audit,
        client.tree,
        client.result,
    ):
        with pytest.raises(NoSuchRun):
            await look("never")
    with pytest.raises(NoSuchRun):
        [event async for event in client.history("never", follow=True)]


async def test_a_failed_run_gives_its_result_too(client: Client) -> None:
    request = SCENARIOS["approval"].request(provider="no-such-provider")
    started = await client.start(request)
    result = await client.result(started.id)
    assert result.status == "failed"
    assert "no-such-provider" in result.answer


async def test_a_terminated_run_has_no_result_and_says_why(client: Client) -> None:
    id = await waiting(client)
    await client.temporal.get_workflow_handle(id).terminate(reason="by hand")
    with pytest.raises(RunClosed, match="by hand"):
        await client.result(id)
    with pytest.raises(RunClosed, match="terminated"):
        await client.decide(id, CALL, {"decision": "approve"})


async def test_a_workflow_of_somebody_else_is_told_apart(client: Client) -> None:
    id = f"other-{uuid.uuid4().hex[:6]}"
    handle = await client.temporal.start_workflow("SomethingElse", id=id, task_queue="nobody")
    with pytest.raises(BadInput, match="a workflow of type 'SomethingElse'"):
        await client.start(SCENARIOS["approval"].request(), id=id)
    await handle.terminate()
