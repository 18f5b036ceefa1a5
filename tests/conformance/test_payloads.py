"""What goes into the history: little, and no secret."""

import logging

import pytest
from temporalio.client import Client

from activities.openai_model import Endpoint, OpenAIModel
from activities.tools import tool
from protocol.agents import Chat
from tests.agents.hands import Hands, ids
from tests.kit import calls, house, says
from tests.loopback import KEY, loopback

MB = 1_000_000


async def test_the_key_stands_in_no_payload_and_no_log(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """B144: read from the environment of the worker; no event, memo, search attribute or log line has it."""
    caplog.set_level(logging.DEBUG)
    hands = Hands()
    paying = calls(("pay", "p1", {"to": "B", "amount": 5}))
    async with loopback([paying, says("done")]) as server:
        environment = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.endpoint().base_url}
        model = OpenAIModel(Endpoint.from_environment(environment))
        async with house(client, hands.all, model=model) as h:
            run = await h.start(Chat(name="bank", tools=hands.specs))
            await run.approve(*await ids(run, 1))
            assert (await run.result()).answer == "done"
            described = await run.handle.describe()
            history = await run.history()
        await model.aclose()
        assert len(server.requests) == 2
    events = b"".join(event.SerializeToString() for event in history.events)
    for said in (events, described.raw_description.SerializeToString(), caplog.text.encode()):
        assert said
        assert KEY.encode() not in said
    assert b"pay" in events  # payloads are searched as they were written


async def test_history_grows_with_what_is_said_and_not_with_its_square(client: Client) -> None:
    """B121: 100 calls of 5 KB on top of 100 KB; no event near the limit, and few bytes beside what was said."""

    @tool
    def note(n: int) -> str:
        return f"{n:03}" + "x" * 5_000

    script = [*(calls(("note", f"n{n}", {"n": n})) for n in range(100)), says("done")]
    async with house(client, [note], script) as h:
        run = await h.start(Chat(name="bank", tools=h.specs, max_turns=200), "y" * 100_000)
        result = await run.result()
        sizes = [event.ByteSize() for event in (await run.history()).events]
    assert (result.status, result.pages) == ("completed", 0)
    assert len(h.model.prompts[-1].messages) == 201
    assert max(sizes) < 2 * MB
    said = 100_000 + 100 * 5_000
    assert sum(sizes) < 4 * said
