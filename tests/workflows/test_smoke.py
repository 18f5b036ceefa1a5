"""The shortest run there is."""

from temporalio.client import Client

from activities.tools import tool
from protocol.agents import Chat
from tests.kit import calls, house, says

paid: list[str] = []


@tool(approval=True)
def pay(to: str, amount: float) -> str:
    paid.append(to)
    return f"paid {amount} to {to}"


async def test_an_approved_call_runs_once(client: Client) -> None:
    script = [calls(("pay", "call_1", {"to": "A", "amount": 5})), says("done")]
    async with house(client, [pay], script) as h:
        run = await h.start(Chat(name="bank", tools=h.specs))
        [waiting] = await run.waiting(1)
        assert waiting.id == "bank>pay:call_1"
        assert not paid
        await run.approve(waiting.id)
        assert (await run.result()).answer == "done"
        assert paid == ["A"]
        await run.replay()
        assert await run.events() <= 32
