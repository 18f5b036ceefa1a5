"""Plan, execute, replan: a trip is booked step by step; what a person edits or refuses changes the later plan."""

import re
from datetime import date, timedelta
from typing import Annotated, Any

from pydantic import Field

from activities.tools import tool
from protocol.agents import Chat, PlanExecute
from protocol.messages import Reply
from scenarios.computed import between
from scenarios.scenario import APPROVE, Scenario, Variant, by_name, by_subject, in_turn, reject
from scenarios.script import Progress, Scene, cast, progress, say

Day = Annotated[str, Field(description="As YYYY-MM-DD", pattern=r"^\d{4}-\d{2}-\d{2}$")]

NIGHTS = 3
"""A hotel is always paid for three nights, as in the example this one is made after."""


@tool(attempts=3)
def get_weather(city: str, date: Day) -> dict[str, Any]:
    """Tells the weather in a city on a day."""
    known = {
        "Tokyo": (22, "Partly Cloudy"),
        "Beijing": (18, "Sunny"),
        "Paris": (15, "Rainy"),
        "New York": (12, "Cloudy"),
    }
    skies = ("Sunny", "Cloudy", "Rainy", "Partly Cloudy")
    seed = city + date
    temperature, condition = known.get(
        city, (between(10, 30, seed + "temp"), skies[between(0, len(skies) - 1, seed + "cond")])
    )
    return {"city": city, "temperature": temperature, "condition": condition, "date": date}


@tool(review=True)
def book_flight(
    from_: Annotated[str, Field(alias="from", description="The city of departure")],
    to: Annotated[str, Field(description="The city of arrival")],
    date: Day,
    passengers: Annotated[int, Field(ge=1)] = 1,
    preferred_time: Annotated[str, Field(description="morning, afternoon or evening")] = "",
) -> dict[str, Any]:
    """Books a flight between two cities. A person reviews it first."""
    airlines = ("Japan Airlines", "ANA", "United Airlines", "Delta", "Air China")
    seed = from_ + to + date
    airline = airlines[between(0, len(airlines) - 1, seed + "airline")]
    hour, minute = between(6, 20, seed + "dephour"), between(0, 59, seed + "depmin")
    arrival = (hour + between(2, 14, seed + "duration")) % 24
    return {
        "booking_id": f"FL-{date}-{between(10000, 99999, seed + 'id')}",
        "airline": airline,
        "flight_no": f"{airline[:2]}{between(100, 999, seed + 'flightno')}",
        "from": from_,
        "to": to,
        "date": date,
        "departure_time": f"{hour:02d}:{minute:02d}",
        "arrival_time": f"{arrival:02d}:{minute:02d}",
        "price": between(300, 1500, seed + "price") * passengers,
        "status": "confirmed",
    }


@tool(review=True)
def book_hotel(
    city: str,
    check_in: Day,
    check_out: Day,
    guests: Annotated[int, Field(ge=1)] = 1,
    room_type: Annotated[str, Field(description="standard, deluxe or suite")] = "standard",
) -> dict[str, Any]:
    """Books a hotel in a city. A person reviews it first."""
    names = ("Grand Hyatt", "Marriott", "Hilton", "Sheraton", "Ritz-Carlton")
    amenities = (
        ["WiFi", "Pool", "Gym", "Spa", "Restaurant"],
        ["WiFi", "Breakfast", "Parking", "Business Center"],
        ["WiFi", "Pool", "Restaurant", "Bar", "Concierge"],
    )
    seed = city + check_in + check_out
    price = int(between(100, 400, seed + "price") * {"deluxe": 1.5, "suite": 2}.get(room_type, 1))
    return {
        "booking_id": f"HT-{check_in}-{between(10000, 99999, seed + 'id')}",
        "hotel_name": f"{city} {names[between(0, len(names) - 1, seed + 'hotel')]}",
        "city": city,
        "check_in": check_in,
        "check_out": check_out,
        "room_type": room_type,
        "price_per_night": price,
        "total_price": price * NIGHTS,
        "amenities": amenities[between(0, len(amenities) - 1, seed + "amenities")],
        "status": "confirmed",
    }


@tool(attempts=3)
def search_attractions(
    city: str,
    category: Annotated[str, Field(description="Such as museum, park or landmark; empty for all")] = "",
) -> dict[str, Any]:
    """Searches for what is worth seeing in a city."""
    if city not in ATTRACTIONS:
        return {
            "attractions": [
                _attraction(f"{city} Central Park", "Popular city park", 4.3, "6:00-22:00", 0, "park"),
                _attraction(
                    f"{city} National Museum",
                    "Major museum with local history",
                    4.5,
                    "9:00-17:00",
                    15,
                    "museum",
                ),
            ]
        }
    return {"attractions": [each for each in ATTRACTIONS[city] if category in ("", each["category"])]}


def _attraction(
    name: str, description: str, rating: float, hours: str, price: int, category: str
) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "rating": rating,
        "open_hours": hours,
        "ticket_price": price,
        "category": category,
    }


ATTRACTIONS = {
    "Tokyo": [
        _attraction(
            "Senso-ji Temple", "Ancient Buddhist temple in Asakusa", 4.6, "6:00-17:00", 0, "landmark"
        ),
        _attraction(
            "Tokyo Skytree",
            "Tallest tower in Japan with observation decks",
            4.5,
            "10:00-21:00",
            2100,
            "landmark",
        ),
        _attraction(
            "Meiji Shrine", "Shinto shrine dedicated to Emperor Meiji", 4.7, "5:00-18:00", 0, "landmark"
        ),
        _attraction("Ueno Park", "Large public park with museums and zoo", 4.4, "5:00-23:00", 0, "park"),
    ],
    "Beijing": [
        _attraction(
            "Forbidden City", "Ancient imperial palace complex", 4.8, "8:30-17:00", 60, "historic site"
        ),
        _attraction(
            "Great Wall",
            "Historic fortification stretching thousands of miles",
            4.9,
            "6:00-18:00",
            45,
            "landmark",
        ),
        _attraction("Temple of Heaven", "Imperial sacrificial altar", 4.6, "6:00-22:00", 35, "park"),
    ],
}

TASK = (
    "Plan a 3-day trip to Tokyo starting from New York on 2025-10-15.\n"
    "I need to book flights and a hotel. Also recommend some must-see attractions.\n"
    "Today is 2025-09-01."
)

PLANNER = Chat(
    name="planner",
    instructions=(
        "You plan trips. Call plan with the steps in the order in which they must be done: one booking or search "
        "per step, each with all that is needed to do it (cities, days, number of people, kind of room). The way "
        "there first, then the hotel, then the way back. Nobody is to be asked; choose what was left open."
    ),
)
EXECUTOR = Chat(
    name="executor",
    description="Books and looks up.",
    instructions=(
        "You do one step of a travel plan, with one call of the tool that fits, and nothing of the other steps. A "
        "person reviews bookings, and may change or refuse them: take what they decide, and do not try again. Then "
        "stop, and report in a few sentences what was done, with booking ids, days and prices; what a person changed; "
        "or what they refused, and why."
    ),
    tools=(get_weather.spec, book_flight.spec, book_hotel.spec, search_attractions.spec),
)
REPLANNER = Chat(
    name="replanner",
    instructions=(
        "After each step of a trip you decide what remains. Call plan with the remaining steps; leave out what is "
        "done. If a person changed a booking, fit the remaining steps to it (a later flight moves the hotel and the "
        "way back). If they refused one, plan another that meets their reason; without a reason leave it out. When "
        "nothing remains, call respond with the whole trip: what is booked, what is not and why, what to see."
    ),
)
AGENT = PlanExecute(
    name="travel_planner",
    description="Plans and books trips.",
    planner=PLANNER,
    executor=EXECUTOR,
    replanner=REPLANNER,
    max_rounds=20,
)


def steps(home: str, there: str, start: date, room: str = "deluxe") -> list[str]:
    """The steps of a three-day trip."""
    end = start + timedelta(days=3)
    return [
        f"Look up the weather in {there} on {start}",
        f"Book a flight from {home} to {there} on {start}",
        f"Book a {room} room in {there} from {start} to {end}",
        f"Book a flight from {there} to {home} on {end}",
        f"Search for attractions in {there}",
    ]


_TRIP = re.compile(r"trip to ([A-Z][\w ]*?) starting from ([A-Z][\w ]*?) on (\d{4}-\d{2}-\d{2})")
_WEATHER = re.compile(r"Look up the weather in (.+) on (\S+)")
_FLIGHT = re.compile(r"Book a flight from (.+) to (.+) on (\S+)")
_ROOM = re.compile(r"Book a (\w+) room in (.+) from (\S+) to (\S+)")
_SEARCH = re.compile(r"Search for attractions in (.+)")


def make_plan(scene: Scene) -> Reply:
    """The planner's part."""
    trip = _TRIP.search(scene.request)
    if trip is None:
        return scene.call("", ("plan", {"steps": ["Tell the user that a place and a day are missing"]}))
    plan = steps(trip[2], trip[1], date.fromisoformat(trip[3]))
    return scene.call("", ("plan", {"steps": plan}))


def execute(scene: Scene) -> Reply:
    """The executor's part: one call for its step, then a report."""
    step = progress(scene.request).step
    if not scene.done:
        if found := _WEATHER.match(step):
            return scene.call("", ("get_weather", {"city": found[1], "date": found[2]}))
        if found := _FLIGHT.match(step):
            arguments = {
                "from": found[1],
                "to": found[2],
                "date": found[3],
                "passengers": 1,
                "preferred_time": "morning",
            }
            return scene.call("This is the flight that the plan needs.", ("book_flight", arguments))
        if found := _ROOM.match(step):
            stay = {
                "city": found[2],
                "check_in": found[3],
                "check_out": found[4],
                "guests": 1,
                "room_type": found[1],
            }
            return scene.call("This is the room that the plan needs.", ("book_hotel", stay))
        if found := _SEARCH.match(step):
            return scene.call("", ("search_attractions", {"city": found[1]}))
        return say(f"{step}: nothing to book.")
    done = scene.done[-1]
    changed = "A person changed what I had proposed. " if done.edited else ""
    match done.result:
        case {"flight_no": number, "from": a, "to": b, "date": day, "booking_id": id, "price": price}:
            return say(f"{changed}Flight {number} from {a} to {b} on {day} is booked ({id}, {price} USD).")
        case {
            "hotel_name": name,
            "check_in": first,
            "check_out": last,
            "booking_id": id,
            "total_price": price,
        } as room:
            kind = room["room_type"]
            return say(
                f"{changed}A {kind} room at {name} from {first} to {last} is booked ({id}, {price} USD)."
            )
        case {"attractions": list(sights)}:
            return say(f"Worth seeing: {', '.join(each['name'] for each in sights)}.")
        case {"temperature": degrees, "condition": sky, "city": city}:
            return say(f"The weather in {city}: {sky}, {degrees} °C.")
        case _ if done.refused:
            return say(
                f"Refused{f': {done.reason}' if done.reason else ' without a reason'}. Nothing was booked."
            )
        case _:
            return say(done.text)


def replan(scene: Scene) -> Reply:
    """The replanner's part: what remains, fitted to what people changed or refused."""
    now = progress(scene.request)
    rest = _fitted(now)
    if rest:
        return scene.call("", ("plan", {"steps": rest}))
    booked = [result.partition("\n")[0] for _, result in now.done]
    return scene.call("", ("respond", {"response": "Your trip. " + " ".join(booked)}))


def _fitted(now: Progress) -> list[str]:
    step, result = now.last
    rest = list(now.plan[1:])
    flight, room = _FLIGHT.match(step), _ROOM.match(step)
    flown = re.search(r"Flight \w+ from .+ to .+ on (\d{4}-\d{2}-\d{2}) is booked", result)
    if flight and flown and flown[1] != flight[3] and any(map(_ROOM.match, rest)):
        kind = next(found[1] for found in map(_ROOM.match, rest) if found)
        moved = steps(flight[1], flight[2], date.fromisoformat(flown[1]), kind)
        return moved[2:]
    if room and room[1] != "standard" and result.startswith("Refused: ") and "standard" in result:
        return [f"Book a standard room in {room[2]} from {room[3]} to {room[4]}", *rest]
    return rest


SCENARIO = Scenario(
    name="plan_execute_replan",
    title="A trip is planned, booked step by step, and planned anew when a person intervenes",
    agent=AGENT,
    task=TASK,
    tools=(get_weather, book_flight, book_hotel, search_attractions),
    script=cast({PLANNER.name: make_plan, EXECUTOR.name: execute, REPLANNER.name: replan}),
    variants=by_name(
        Variant(
            name="edit",
            shows="the flight is put off by a day, so hotel and way back are planned anew",
            decide=by_subject(
                {
                    '"2025-10-15"': {
                        "decision": "edit",
                        "arguments": {
                            "from": "New York",
                            "to": "Tokyo",
                            "date": "2025-10-16",
                            "passengers": 1,
                            "preferred_time": "morning",
                        },
                    }
                },
                APPROVE,
            ),
            says=(
                "from New York to Tokyo on 2025-10-16",
                "from 2025-10-16 to 2025-10-19",
                "New York on 2025-10-19",
            ),
        ),
        Variant(
            name="no_edit",
            shows="every booking is approved as it is",
            decide=in_turn(APPROVE),
            says=("FL-2025-10-15-97099", "HT-2025-10-15-16087", "FL-2025-10-18-88230", "Senso-ji Temple"),
        ),
        Variant(
            name="reject",
            shows="the room is rejected as too dear, so a cheaper one is planned",
            decide=by_subject({'"deluxe"': reject("too dear, a standard room will do")}, APPROVE),
            says=("A standard room at Tokyo Sheraton", "645 USD"),
        ),
        Variant(
            name="reject_without_reason",
            shows="the room is rejected without a word, so the trip goes without",
            decide=by_subject({'"deluxe"': reject()}, APPROVE),
            says=("Refused without a reason", "FL-2025-10-18-88230"),
        ),
    ),
)
