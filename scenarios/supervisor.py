"""Supervisor: balances are free to see, transfers need a person, and control always comes back to the supervisor."""

import re
from typing import Annotated, Any

from pydantic import Field

from activities.tools import tool
from protocol.agents import Chat, Supervisor
from protocol.messages import Reply
from scenarios.computed import number
from scenarios.scenario import APPROVE, Scenario, Variant, by_name, by_subject, in_turn, reject
from scenarios.script import Done, Scene, amount_allowed, cast, say

BALANCES = {"checking": 5000, "savings": 15000, "main": 5000}


@tool(attempts=3)
def check_balance(
    account_id: Annotated[str, Field(description="The account, such as checking")],
) -> dict[str, Any]:
    """Tells the balance of an account."""
    return {"account_id": account_id, "balance": BALANCES.get(account_id, 1000), "currency": "USD"}


@tool(approval=True)
def transfer_funds(
    from_account: Annotated[str, Field(description="The account that pays")],
    to_account: Annotated[str, Field(description="The account that receives")],
    amount: Annotated[float, Field(gt=0)],
    currency: Annotated[str, Field(description="Its code, such as USD")] = "USD",
) -> dict[str, Any]:
    """Transfers money from one account to another. A person approves it first."""
    return {
        "transaction_id": "TXN-2025-001234",
        "status": "completed",
        "from_account": from_account,
        "to_account": to_account,
        "amount": number(amount),
        "currency": currency,
        "message": f"Successfully transferred {amount:.2f} {currency} from {from_account} to {to_account}",
    }


TASK = "Check my checking account balance, and then transfer $500 from checking to savings."

ACCOUNT = Chat(
    name="account_agent",
    description="Knows the balances of accounts.",
    instructions=(
        "You look up accounts with check_balance. Do the request you were given and nothing else; answer with the "
        "account and its balance, in one sentence."
    ),
    tools=(check_balance.spec,),
)
TRANSACTION = Chat(
    name="transaction_agent",
    description="Transfers money between accounts.",
    instructions=(
        "You transfer money with transfer_funds. Make the one transfer you were given, once. A person may refuse it: "
        "then do not try another by yourself; answer that it was refused, with the reason in the person's own words. "
        "Otherwise answer what was transferred, with the transaction id. One or two sentences."
    ),
    tools=(transfer_funds.spec,),
)
AGENT = Supervisor(
    name="financial_supervisor",
    description="Looks after a customer's accounts.",
    instructions=(
        "You look after a customer's money by handing work to your agents; you have no other way. First have looked "
        "up what the customer wants to know, then have the transfers made. Hand over one transfer per call, several "
        "calls in one turn if several are wanted. If a transfer was refused and the reason names a smaller amount "
        "that would do, have that one made instead, once; else let it be. When all is done or refused, stop, and "
        "sum up for the customer what was found, what was transferred and what was refused."
    ),
    agents=(ACCOUNT, TRANSACTION),
)

HAND_OVER = "transfer_to_agent"


def supervise(scene: Scene) -> Reply:
    """The supervisor's part: balance first, then the transfers, a smaller one if that is what a person wants."""
    handed = scene.of(HAND_OVER)
    wanted = _transfers(scene.request)
    balance = re.search(r"(\w+) account balance|balance of (?:my )?(\w+)", scene.request)
    if balance and not _to(ACCOUNT, handed):
        request = f"What is the balance of the {balance[1] or balance[2]} account?"
        return scene.call("The balance first.", _hand_over(ACCOUNT, request))
    made = _to(TRANSACTION, handed)
    if wanted and not made:
        return scene.call(
            "Now the money.",
            *(_hand_over(TRANSACTION, f"Transfer {amount} USD from {a} to {b}.") for amount, a, b in wanted),
        )
    if (smaller := _smaller(made)) is not None:
        return scene.call(
            "That was too much; I try the amount that was named.", _hand_over(TRANSACTION, smaller)
        )
    return say(
        " ".join(done.text for done in handed) or "What may I do: look up a balance, or transfer money?"
    )


def _transfers(text: str) -> list[tuple[str, str, str]]:
    found = re.findall(r"(\d[\d,.]*)(?: USD)? from (\w+) to (\w+)", text)
    return [(amount.replace(",", ""), a, b) for amount, a, b in found]


def _hand_over(agent: Chat, request: str) -> tuple[str, dict[str, Any]]:
    return HAND_OVER, {"agent_name": agent.name, "request": request}


def _to(agent: Chat, handed: list[Done]) -> list[Done]:
    return [done for done in handed if done.proposed["agent_name"] == agent.name]


def _smaller(made: list[Done]) -> str | None:
    """The request for a smaller transfer that the latest refusal proposes."""
    if not made or "refused" not in made[-1].text:
        return None
    allowed = amount_allowed(made[-1].text)
    ((amount, a, b),) = _transfers(made[-1].proposed["request"])
    if allowed is None or allowed >= float(amount):
        return None
    return f"Transfer {allowed} USD from {a} to {b}."


def account(scene: Scene) -> Reply:
    """The account agent's part."""
    done = scene.of("check_balance")
    if not done:
        asked = re.findall(r"balance of the (\w+)", scene.request)
        if not asked:
            return say("Which account?")
        return scene.call("", ("check_balance", {"account_id": asked[-1]}))
    found = done[-1].result
    if not found:
        return say(done[-1].text)
    return say(f"The balance of {found['account_id']} is {found['balance']} {found['currency']}.")


def transact(scene: Scene) -> Reply:
    """The transaction agent's part: one transfer, and an honest report."""
    done = scene.of("transfer_funds")
    if not done:
        wanted = _transfers(scene.request)
        if not wanted:
            return say("How much, from where to where?")
        amount, a, b = wanted[-1]
        arguments = {"from_account": a, "to_account": b, "amount": number(float(amount)), "currency": "USD"}
        return scene.call(
            f"The request is clear: {amount} USD from {a} to {b}.", ("transfer_funds", arguments)
        )
    last = done[-1]
    ran = last.arguments
    what = f"{ran['amount']} {ran['currency']} from {ran['from_account']} to {ran['to_account']}"
    if last.refused:
        because = f": {last.reason}" if last.reason else ""
        return say(f"The transfer of {what} was refused{because}.")
    if not last.result:
        return say(last.text)
    return say(f"{last.result['message']} ({last.result['transaction_id']}).")


SCENARIO = Scenario(
    name="supervisor",
    title="A supervisor hands work to two agents; a transfer needs a person",
    agent=AGENT,
    task=TASK,
    tools=(check_balance, transfer_funds),
    script=cast({AGENT.name: supervise, ACCOUNT.name: account, TRANSACTION.name: transact}),
    variants=by_name(
        Variant(
            name="approve",
            shows="the transfer is approved, and the supervisor sums up",
            decide=in_turn(APPROVE),
            says=(
                "balance of checking is 5000 USD",
                "Successfully transferred 500.00 USD from checking to savings",
            ),
        ),
        Variant(
            name="reject",
            shows="rejected with a reason, the supervisor has a smaller amount transferred",
            decide=in_turn(reject("exceeds the limit of today, at most 300"), APPROVE),
            says=("500 USD from checking to savings was refused", "Successfully transferred 300.00 USD"),
        ),
        Variant(
            name="reject_without_reason",
            shows="rejected without a word, the supervisor reports what was done",
            decide=in_turn(reject()),
            says=("balance of checking is 5000 USD", "was refused"),
        ),
        Variant(
            name="two_transfers",
            shows="two transfers handed over in one reply, one approved and one rejected",
            task="Transfer $500 from checking to savings and $200 from savings to main.",
            decide=by_subject({"checking": APPROVE}, reject("savings stay where they are")),
            says=(
                "Successfully transferred 500.00 USD",
                "200 USD from savings to main was refused: savings stay",
            ),
        ),
    ),
)
