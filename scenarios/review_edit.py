"""Review and edit: a person approves a call as it is, changes its arguments, or rejects it.

The same tool as in the approval scenario; the gate that the agent puts on it is another.
"""

from protocol.agents import Chat, Gate
from scenarios.approval import BOOK, TASK, book, book_ticket
from scenarios.scenario import APPROVE, Scenario, Variant, by_name, in_turn, reject
from scenarios.script import cast

AGENT = Chat(
    name="ticket_booker",
    description="Books tickets.",
    instructions=(
        "You book tickets with the tool BookTicket. If you know the place, the passenger and the phone number (all "
        "of them texts), book at once; if one is missing, ask for it. A person reviews every booking and may change "
        "its arguments or refuse it. What they changed is their wish: do not book again what you had proposed. "
        "Then stop, and say what is booked, and what was changed or refused."
    ),
    tools=(book_ticket.spec,),
    gates={BOOK: Gate(kind="review")},
)

SCENARIO = Scenario(
    name="review_edit",
    title="A person reviews the arguments of a booking, and may change them",
    agent=AGENT,
    task=TASK,
    tools=(book_ticket,),
    script=cast({AGENT.name: book}),
    variants=by_name(
        Variant(
            name="edit",
            shows="the arguments are changed, and the model is told so",
            decide=in_turn(
                {
                    "decision": "edit",
                    "arguments": {
                        "location": "Shanghai",
                        "passenger_name": "Martin",
                        "passenger_phone_number": "1234567",
                    },
                }
            ),
            says=("ticket to Shanghai is booked", "A person changed"),
        ),
        Variant(
            name="no_edit",
            shows="approved as it is",
            decide=in_turn(APPROVE),
            says=("ticket to Beijing is booked for Martin",),
        ),
        Variant(
            name="reject",
            shows="rejected with a reason",
            decide=in_turn(reject("Martin goes by train")),
            says=("refused (Martin goes by train)",),
        ),
        Variant(
            name="reject_without_reason",
            shows="rejected without a word",
            decide=in_turn(reject()),
            says=("No ticket to Beijing is booked",),
        ),
    ),
)
