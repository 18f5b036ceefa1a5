"""What the agents of these tests do: tools whose effects are counted, and models told line by line."""

from collections.abc import Mapping, Sequence

from activities.scripted_model import ModelFailure, Prompt, Script, lines
from activities.tools import FunctionTool, tool
from protocol.agents import ToolSpec
from protocol.messages import Assistant, Message, Reply, Tool
from tests.kit import Run


class Hands:
    """A free tool, a gated one, one that is reviewed, one that fails; `ran` says what they did."""

    def __init__(self) -> None:
        self.ran: list[str] = []

        @tool
        def look(what: str) -> str:
            """Look at something."""
            self.ran.append(f"look {what}")
            return f"looked at {what}"

        @tool(approval=True)
        def pay(to: str, amount: float) -> str:
            """Pay somebody."""
            self.ran.append(f"pay {to} {amount:g}")
            return f"paid {amount:g} to {to}"

        @tool(review=True)
        def book(what: str, date: str) -> str:
            """Book something."""
            self.ran.append(f"book {what} {date}")
            return f"booked {what} for {date}"

        @tool
        def boom() -> str:
            """Fail."""
            self.ran.append("boom")
            raise RuntimeError("db down")

        self.look, self.pay, self.book, self.boom = look, pay, book, boom

    @property
    def all(self) -> list[FunctionTool]:
        return [self.look, self.pay, self.book, self.boom]

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(each.spec for each in self.all)


def by_address(scripts: Mapping[str, Sequence[Reply]]) -> Script:
    """Fixed lines for each agent, by its whole address: every visit of a node has lines of its own."""
    scripted = {address: lines(replies) for address, replies in scripts.items()}

    def script(prompt: Prompt) -> Reply:
        if prompt.agent not in scripted:
            raise ModelFailure(f"nobody expected '{prompt.agent}' to speak", final=True)
        return scripted[prompt.agent](prompt)

    return script


def told(messages: Sequence[Message]) -> dict[str, str]:
    """What a conversation says of each call, by its id. Fails unless each has one tool message, in call order."""
    found: dict[str, str] = {}
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, Tool):
            assert message.tool_call_id == waiting.pop(0)
            found[message.tool_call_id] = message.content
            continue
        assert not waiting, f"no tool message for {waiting}"
        if isinstance(message, Assistant):
            waiting = [call.id for call in message.tool_calls]
    assert not waiting, f"no tool message for {waiting}"
    return found


def contents(messages: Sequence[Message]) -> list[str]:
    return [message.content or "" for message in messages]


async def ids(run: Run, count: int) -> list[str]:
    return [listed.id for listed in await run.waiting(count)]
