"""Follow-up: an unclear request; an agent below asks the person until it knows enough, then the trip is planned."""

import re

from protocol import agents
from protocol.agents import Chat
from protocol.messages import Reply
from scenarios.scenario import Scenario, Variant, by_name, in_turn
from scenarios.script import Done, Scene, cast, say

TASK = "Plan a 3-day trip to New York City."

ASKER = Chat(
    name="follow_up_agent",
    description="Asks the user for what is missing, and sums up the answers.",
    instructions=(
        "You find out from the user what the request asks you to find out. Ask with the tool follow_up, at most "
        "three questions at a time. If an answer leaves something open, ask once more, for that alone. Stop as soon "
        "as you know it, or the user does not want to say. Then sum up what the user told you, and add no advice."
    ),
    tools=(agents.follow_up(),),
    max_turns=10,
)
AGENT = Chat(
    name="itinerary_agent",
    description="Plans trips.",
    instructions=(
        "You plan trips, day by day, to the taste of the user. If you do not know what the user likes, and the "
        "budget, do not guess: call follow_up_agent first, and tell it what to find out. Call it once; then write "
        "the plan with what you know."
    ),
    agents=(ASKER,),
)

FIRST_QUESTIONS = ["What do you like to see and do?", "What is your budget?"]
SECOND_QUESTION = "Roughly how many dollars may a day cost?"


def plan(scene: Scene) -> Reply:
    """The planner's part: has the user asked, then plans."""
    asked = scene.of(ASKER.name)
    if not asked:
        request = "Find out what the user likes to see and do on a trip, and the budget."
        return scene.call("I do not know enough yet to plan this.", (ASKER.name, {"request": request}))
    days = ("Museums and a walk in Central Park", "Downtown, and a musical at night", "Brooklyn and its food")
    lines = [f"Day {n}: {day}." for n, day in enumerate(days, 1)]
    return say("\n".join([f"Your trip. {asked[-1].text}", *lines]))


def ask(scene: Scene) -> Reply:
    """The asker's part: asks once more if no sum was named, then sums up."""
    asked = scene.of("follow_up")
    if not asked:
        return scene.call("Two things are missing.", ("follow_up", {"questions": FIRST_QUESTIONS}))
    answers = [text for call in asked for text in said(call)]
    if len(asked) == 1 and not re.search(r"\d", " ".join(answers)):
        return scene.call("The budget is still open.", ("follow_up", {"questions": [SECOND_QUESTION]}))
    return say("The user said: " + "; ".join(answers))


def said(call: Done) -> list[str]:
    """What the person answered, without the questions."""
    questions = call.proposed.get("questions", [])
    lines = call.text.splitlines()
    if len(questions) == len(lines) and all(map(str.startswith, lines, questions)):
        return [line.removeprefix(question).strip() for question, line in zip(questions, lines, strict=True)]
    return [" ".join(lines)]


SCENARIO = Scenario(
    name="follow_up",
    title="An agent asks what it needs to know before it plans a trip",
    agent=AGENT,
    task=TASK,
    script=cast({AGENT.name: plan, ASKER.name: ask}),
    variants=by_name(
        Variant(
            name="one_round",
            shows="both questions are answered, one by one",
            decide=in_turn({"decision": "answer", "answers": ["museums and jazz", "150 dollars a day"]}),
            says=("museums and jazz; 150 dollars a day", "Day 3"),
        ),
        Variant(
            name="two_rounds",
            shows="the first answer leaves the budget open, so the agent asks again",
            decide=in_turn(
                {"decision": "answer", "answer": "Museums and jazz. Nothing too dear."},
                {"decision": "answer", "answer": "about 150"},
            ),
            says=("Museums and jazz. Nothing too dear.; about 150", "Day 3"),
        ),
    ),
)
