"""Feedback loop: a writer revises a poem until a person accepts it. The way out belongs to the person."""

from protocol.agents import Chat, Loop, Review
from protocol.messages import Reply
from protocol.texts import said_by
from scenarios.scenario import ACCEPT, Scenario, Variant, by_name, in_turn
from scenarios.script import Scene, cast, say

TASK = "Write a short poem about a potato, in under 20 words."

WRITER = Chat(
    name="writer",
    description="Writes poems.",
    instructions=(
        "You write poems. Reply with the poem alone: no title, no remarks. When the reviewer tells you what to "
        "change, write the whole poem again with that changed, and keep to everything that was asked before."
    ),
)
REVIEWER = Review(name="reviewer", description="A person, who accepts the poem or says what to change.")
AGENT = Loop(
    name="editor",
    description="Writes a poem that a person likes.",
    children=(WRITER, REVIEWER),
    max_rounds=20,
)

_FIRST = ("Brown and round and underground,", "a potato dreams without a sound.")
_ON_REQUEST = {
    "fun": "It giggles: crisps are cheaper by the pound!",
    "moon": "The moon looks down and sees a friend.",
    "end": "And that, dear reader, is the end.",
}


def write(scene: Scene) -> Reply:
    """The writer's part: a first poem, and a line more for every wish."""
    _, *after = scene.heard
    wishes = [text.removeprefix(said_by(REVIEWER.name, "")) for text in after]
    wishes = [wish for wish in wishes if not wish.startswith(said_by(WRITER.name, ""))]
    return say("\n".join([*_FIRST, *(_line(wish) for wish in wishes)]))


def _line(wish: str) -> str:
    known = (line for word, line in _ON_REQUEST.items() if word in wish.lower())
    return next(known, f"(And now, as you wish: {wish.rstrip('.!')}.)")


SCENARIO = Scenario(
    name="feedback_loop",
    title="A poem is revised until a person accepts it",
    agent=AGENT,
    task=TASK,
    script=cast({WRITER.name: write}),
    variants=by_name(
        Variant(
            name="two_rounds",
            shows="two rounds of feedback, each in a question of its own, then accepted",
            decide=in_turn(
                {"decision": "revise", "feedback": "Make it funnier."},
                {"decision": "revise", "feedback": "Put the moon into it."},
                ACCEPT,
            ),
            says=(_FIRST[0], _ON_REQUEST["fun"], _ON_REQUEST["moon"]),
        ),
        Variant(
            name="accept",
            shows="accepted at once, without another model call",
            decide=in_turn(ACCEPT),
            says=_FIRST,
        ),
    ),
)
