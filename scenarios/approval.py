"""Approval: an agent books a ticket, and a person says yes or no before it does."""

import re
from collections.abc import Sequence

from activities.tools import tool
from protocol.agents import Chat
from protocol.messages import Reply
from scenarios.scenario import APPROVE, Scenario, Variant, by_name, by_subject, in_turn, reject
from scenarios.script import Done, Scene, cast, say

BOOK = "BookTicket"


@tool(name=BOOK, approval=True)
def book_ticket(location: str, passenger_name: str, passenger_phone_number: str) -> str:
    """Books a ticket to a location."""
    return "success"


TASK = (
    "Book a ticket to Beijing for Martin, on 2025-12-01. His phone number is 1234567. "
    "You have all you need: call the tool directly."
)

AGENT = Chat(
    name="ticket_booker",
    description="Books tickets.",
    instructions=(
        "You book tickets, with the tool BookTicket and in no other way. All of its arguments are texts, a phone "
        "number too. Book what the user asked for, several tickets in one turn if several are wanted. A person may "
        "refuse a booking. If the reason shows another way (another place, say), book that instead; if it does "
        "not, book nothing in its place. When every ticket is booked or refused, stop, and say in a few sentences "
        "what is booked and what is not."
    ),
    tools=(book_ticket.spec,),
)


def book(scene: Scene) -> Reply:
    """The booker's part: books what is asked for, takes another place if a refusal names one, and reports."""
    done = scene.of(BOOK)
    if not done:
        wanted = re.findall(r"to (\w+) for (\w+)", scene.request)
        phones = re.findall(r"\d{7,}", scene.request)
        if not wanted or len(phones) < len(wanted):
            return say("I need to know where to, for whom, and a phone number. What are they?")
        return scene.call(
            "I have all I need to book this.",
            *(
                (BOOK, {"location": place, "passenger_name": name, "passenger_phone_number": phone})
                for (place, name), phone in zip(wanted, phones, strict=False)
            ),
        )
    latest = {call.proposed["passenger_name"]: call for call in done}
    again = [
        (BOOK, {**call.proposed, "location": place})
        for call in latest.values()
        if (place := _other_place(call, done))
    ]
    if again:
        return scene.call("That was refused. I try what was proposed instead.", *again)
    return say(" ".join(_report(call) for call in latest.values()))


def _other_place(call: Done, done: Sequence[Done]) -> str:
    """The place that a refusal proposes, if it was not tried already."""
    who = call.proposed["passenger_name"]
    tried = [other.proposed["location"] for other in done if other.proposed["passenger_name"] == who]
    named = re.findall(r"\b(?:take|try|book|to) ([A-Z]\w+)", call.reason)
    return next((place for place in named if place not in tried), "")


def _report(call: Done) -> str:
    who, where = call.proposed["passenger_name"], call.proposed["location"]
    if call.refused:
        because = f" ({call.reason})" if call.reason else ""
        return f"No ticket to {where} is booked for {who}: that was refused{because}."
    if not call.text.startswith("success"):
        return f"No ticket to {where} is booked for {who}: {call.text}"
    if call.edited:
        ran = call.arguments
        return (
            f"A ticket to {ran['location']} is booked for {ran['passenger_name']}. A person changed what I had "
            f"proposed: {where} for {who}."
        )
    return f"The ticket to {where} is booked for {who}."


SCENARIO = Scenario(
    name="approval",
    title="A ticket is booked once a person approves",
    agent=AGENT,
    task=TASK,
    tools=(book_ticket,),
    script=cast({AGENT.name: book}),
    variants=by_name(
        Variant(
            name="approve",
            shows="approved, the tool runs",
            decide=in_turn(APPROVE),
            says=("ticket to Beijing is booked for Martin",),
        ),
        Variant(
            name="reject",
            shows="rejected with a reason, the model changes its plan and asks for another ticket",
            decide=in_turn(reject("all flights to Beijing are cancelled, take Tianjin"), APPROVE),
            says=("ticket to Tianjin is booked for Martin",),
        ),
        Variant(
            name="reject_without_reason",
            shows="rejected without a word, the model gives up in good order",
            decide=in_turn(reject()),
            says=("No ticket to Beijing is booked",),
        ),
        Variant(
            name="two_calls",
            shows="two tickets asked for in one turn, one approved and one rejected",
            task=(
                "Book two tickets for 2025-12-01: one to Beijing for Martin, phone number 1234567, "
                "and one to Shanghai for Anna, phone number 7654321."
            ),
            decide=by_subject({"Anna": reject("Anna goes by train")}, APPROVE),
            says=("ticket to Beijing is booked for Martin", "refused (Anna goes by train)"),
        ),
    ),
)
