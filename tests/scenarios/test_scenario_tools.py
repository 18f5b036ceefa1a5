"""The tools, trees and scripts of the eight patterns, without a server."""

import asyncio
import json
from datetime import date
from typing import Any

import pytest

from activities.model import ModelFailure, Prompt
from activities.tools import Toolbox
from protocol import texts
from protocol.agents import FOLLOW_UP, AnyAgent, ModelSpec, tools_of, walk
from protocol.errors import BadInput
from protocol.messages import Assistant, Function, Message, Tool, ToolCall, User
from protocol.run import RunRequest
from protocol.work import Finished, ToolInput
from scenarios import SCENARIOS, Scenario, all_tools, find, nested, scripts
from scenarios.computed import between, fnv1a
from scenarios.plan_execute_replan import steps
from scenarios.script import Done, progress

TOOLS = {each.spec.name: each for each in all_tools()}
EACH = pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=list(SCENARIOS))


def given(name: str, **arguments: Any) -> Any:
    """What a model is told of a call, read as JSON where it is some."""
    reply = asyncio.run(TOOLS[name].run(ToolInput(address=f"a>{name}:1", arguments=arguments, key="k")))
    assert isinstance(reply, Finished), reply
    return json.loads(reply.text) if reply.text.startswith("{") else reply.text


# ------------------------------------------------------------------------------------------- tools


def test_the_hash_is_fnv_1a() -> None:
    assert [fnv1a(text) for text in ("", "a", "foobar")] == [0x811C9DC5, 0xE40C292C, 0xBF9CF968]
    assert {between(1, 3, str(n)) for n in range(50)} == {1, 2, 3}


def test_a_ticket_is_a_success() -> None:
    assert (
        given("BookTicket", location="北京", passenger_name="M", passenger_phone_number="1234567")
        == "success"
    )


@pytest.mark.parametrize(
    ("account", "balance"), [("checking", 5000), ("savings", 15000), ("main", 5000), ("other", 1000)]
)
def test_balances(account: str, balance: int) -> None:
    found = given("check_balance", account_id=account)
    assert found == {"account_id": account, "balance": balance, "currency": "USD"}


def test_a_transfer_tells_what_was_moved() -> None:
    arguments = {"from_account": "checking", "to_account": "savings", "amount": 500, "currency": "USD"}
    assert given("transfer_funds", **arguments) == {
        "transaction_id": "TXN-2025-001234",
        "status": "completed",
        **arguments,
        "message": "Successfully transferred 500.00 USD from checking to savings",
    }


@pytest.mark.parametrize(
    ("way", "airline", "number", "departs", "arrives", "booking", "price"),
    [
        (
            ("New York", "Tokyo", "2025-10-15"),
            "ANA",
            "AN603",
            "19:37",
            "06:37",
            "FL-2025-10-15-97099",
            303,
        ),
        (
            ("Tokyo", "New York", "2025-10-18"),
            "Delta",
            "De622",
            "09:28",
            "16:28",
            "FL-2025-10-18-88230",
            1161,
        ),
        (
            ("Tokyo", "New York", "2025-10-17"),
            "United Airlines",
            "Un531",
            "07:13",
            "13:13",
            "FL-2025-10-17-18959",
            1413,
        ),
    ],
)
def test_flights(
    way: tuple[str, str, str],
    airline: str,
    number: str,
    departs: str,
    arrives: str,
    booking: str,
    price: int,
) -> None:
    start, end, day = way
    for passengers in (1, 2):
        arguments = {
            "from": start,
            "to": end,
            "date": day,
            "passengers": passengers,
            "preferred_time": "morning",
        }
        assert given("book_flight", **arguments) == {
            "booking_id": booking,
            "airline": airline,
            "flight_no": number,
            "from": start,
            "to": end,
            "date": day,
            "departure_time": departs,
            "arrival_time": arrives,
            "price": price * passengers,
            "status": "confirmed",
        }


@pytest.mark.parametrize(
    ("room", "night", "total"), [("standard", 215, 645), ("deluxe", 322, 966), ("suite", 430, 1290)]
)
def test_hotels(room: str, night: int, total: int) -> None:
    stay = {"city": "Tokyo", "check_in": "2025-10-15", "check_out": "2025-10-18"}
    assert given("book_hotel", **stay, guests=1, room_type=room) == {
        "booking_id": "HT-2025-10-15-16087",
        "hotel_name": "Tokyo Sheraton",
        **stay,
        "room_type": room,
        "price_per_night": night,
        "total_price": total,
        "amenities": ["WiFi", "Pool", "Restaurant", "Bar", "Concierge"],
        "status": "confirmed",
    }


@pytest.mark.parametrize(
    ("city", "temperature", "condition"),
    [
        ("Tokyo", 22, "Partly Cloudy"),
        ("Beijing", 18, "Sunny"),
        ("Paris", 15, "Rainy"),
        ("New York", 12, "Cloudy"),
    ],
)
def test_the_weather_where_it_is_known(city: str, temperature: int, condition: str) -> None:
    day = "2025-10-15"
    found = given("get_weather", city=city, date=day)
    assert found == {"city": city, "temperature": temperature, "condition": condition, "date": day}


def test_the_weather_elsewhere_is_always_the_same() -> None:
    found = given("get_weather", city="Oslo", date="2025-10-15")
    assert found == given("get_weather", city="Oslo", date="2025-10-15")
    assert 10 <= found["temperature"] <= 30
    assert found["condition"] in ("Sunny", "Cloudy", "Rainy", "Partly Cloudy")


def test_attractions() -> None:
    def named(city: str, category: str = "") -> list[tuple[str, float, int]]:
        found = given("search_attractions", city=city, category=category)["attractions"]
        return [(each["name"], each["rating"], each["ticket_price"]) for each in found]

    assert named("Tokyo") == [
        ("Senso-ji Temple", 4.6, 0),
        ("Tokyo Skytree", 4.5, 2100),
        ("Meiji Shrine", 4.7, 0),
        ("Ueno Park", 4.4, 0),
    ]
    assert named("Tokyo", "park") == [("Ueno Park", 4.4, 0)]
    assert named("Tokyo", "beach") == []
    assert named("Beijing") == [
        ("Forbidden City", 4.8, 60),
        ("Great Wall", 4.9, 45),
        ("Temple of Heaven", 4.6, 35),
    ]
    assert named("Oslo") == [("Oslo Central Park", 4.3, 0), ("Oslo National Museum", 4.5, 15)]


def test_searches() -> None:
    def sources(query: str, category: str) -> list[str]:
        return [each["source"] for each in given("search", query=query, category=category)["results"]]

    assert sources("q", "market") == ["MarketWatch", "Bloomberg", "Reuters"]
    assert sources("q", "Technology") == ["Gartner", "IDC", "TechCrunch"]
    assert sources("q", "finance") == ["WSJ", "Financial Times", "CoinDesk"]
    assert sources("q", "") == ["Research Database", f"Source-{between(1, 100, 'q')}"]
    assert given("search", query="wool")["results"][0]["title"] == "Research on: wool"


@pytest.mark.parametrize(
    ("kind", "findings", "conclusion"),
    [
        ("trend", 3, "Overall positive trajectory with strong momentum"),
        ("comparison", 3, "Favorable comparison against benchmarks"),
        ("", 3, "Overall status is positive with continued growth expected"),
        ("Statistical", 4, "Statistical analysis indicates significant patterns with high confidence"),
        ("astrology", 3, "Analysis complete with actionable insights"),
    ],
)
def test_analyses(kind: str, findings: int, conclusion: str) -> None:
    found = given("analyze", data="d", analysis_type=kind)
    assert (len(found["findings"]), found["conclusion"]) == (findings, conclusion)
    assert found["analysis_type"] == kind


def test_information() -> None:
    assert given("search_info", query="q")["source"] == "technology Research Database"
    assert len(given("search_info", query="q", topic="market")["results"]) == 3
    assert given("search_info", query="q", topic="wool") == {
        "query": "q",
        "results": ["General information found for: q"],
        "source": "General Database",
    }


@pytest.mark.parametrize(
    ("described", "complexity", "hours"),
    [("Customer Portal for engineering department", "High", 113), ("Customer Portal", "High", 316)],
)
def test_requirements(described: str, complexity: str, hours: int) -> None:
    found = given("analyze_requirements", project_description=described)
    assert (found["complexity"], found["estimated_hours"]) == (complexity, hours)
    assert len(found["requirements"]) == 5


def test_a_project_is_set_up() -> None:
    name = "Customer Portal"
    design = given("create_design", project_name=name, requirements=["r"])
    assert (design["design_id"], design["status"], len(design["components"])) == ("DESIGN-2252", "draft", 6)
    team = given("assign_team", project_name=name, team_members=["Alice", "Bob"], start_date="2025-02-01")
    assert team == {
        "assignment_id": "TEAM-2512",
        "project_name": name,
        "team_members": ["Alice", "Bob"],
        "start_date": "2025-02-01",
        "status": "confirmed",
    }


@pytest.mark.parametrize(
    ("department", "amount", "id", "remaining"),
    [
        ("engineering", 150_000, "BUDGET-eng-5796", 350_000),
        ("marketing", 150_000, "BUDGET-mar-5796", 50_000),
        ("operations", 900_000, "BUDGET-ope-5796", 0),
        ("wool", 1, "BUDGET-woo-5796", 0),
        ("it", 1, "BUDGET-it-5796", 0),
    ],
)
def test_budgets(department: str, amount: int, id: str, remaining: int) -> None:
    found = given("allocate_budget", project_name="Customer Portal", amount=amount, department=department)
    assert found == {
        "allocation_id": id,
        "project_name": "Customer Portal",
        "amount": amount,
        "department": department,
        "remaining_budget": remaining,
        "status": "approved",
    }


def test_one_worker_can_serve_all_tools() -> None:
    assert len(Toolbox(all_tools()).activities()) == len(TOOLS)


# ------------------------------------------------------------------------------------------- trees


@EACH
def test_every_tree_can_run_and_travels_as_json(scenario: Scenario) -> None:
    for variant in scenario.variants:
        request = scenario.request(variant=variant)
        assert RunRequest.model_validate_json(request.model_dump_json()) == request
        assert request.model == ModelSpec(provider="scripted", name=scenario.name)
    assert scenario.request(provider="openai", model="m").model == ModelSpec(provider="openai", name="m")
    assert scenario.request(provider="").model is None


@EACH
def test_a_scenario_brings_the_tools_that_its_agents_call(scenario: Scenario) -> None:
    called = {
        tool.type for _, agent in walk(scenario.agent) for tool in tools_of(agent) if tool.type != FOLLOW_UP
    }
    assert called == {each.spec.type for each in scenario.tools}


@EACH
def test_a_model_is_told_what_every_agent_and_tool_is_for(scenario: Scenario) -> None:
    for address, agent in walk(scenario.agent):
        assert agent.description or agent.name in ("planner", "replanner"), address
        assert getattr(agent, "instructions", "-"), address
        assert all(tool.description for tool in tools_of(agent)), address


def test_an_unknown_scenario_or_variant_is_told_which_there_are() -> None:
    with pytest.raises(BadInput, match="there is no scenario 'aproval'; there are: approval, review_edit, "):
        find("aproval")
    with pytest.raises(BadInput, match="'approval' has no variant 'x'; it has: approve, reject, "):
        find("approval").request(variant="x")
    assert find("nested") is nested.SCENARIO


def test_the_variants_that_people_ask_for_exist() -> None:
    assert {name: list(scenario.variants) for name, scenario in SCENARIOS.items()} == {
        "approval": ["approve", "reject", "reject_without_reason", "two_calls"],
        "review_edit": ["edit", "no_edit", "reject", "reject_without_reason"],
        "feedback_loop": ["two_rounds", "accept"],
        "follow_up": ["one_round", "two_rounds"],
        "supervisor": ["approve", "reject", "reject_without_reason", "two_transfers"],
        "plan_execute_replan": ["edit", "no_edit", "reject", "reject_without_reason"],
        "deep_agent": ["one_round", "answered_apart"],
        "nested": [
            "approve",
            "reject",
            "reject_without_reason",
            "reject_then_smaller_amount",
            "research_first",
        ],
    }


# ------------------------------------------------------------------------------------------- scripts


def prompt(agent: str, *messages: Message) -> Prompt:
    return Prompt(agent=agent, instructions="", messages=messages, offers=(), model=ModelSpec())


def called(*calls: tuple[str, str, dict[str, Any]]) -> Assistant:
    return Assistant(
        tool_calls=tuple(
            ToolCall(id=id, function=Function(name=name, arguments=json.dumps(arguments)))
            for id, name, arguments in calls
        )
    )


TICKET = {"location": "Beijing", "passenger_name": "Martin", "passenger_phone_number": "1234567"}


def test_a_call_that_was_made_is_read_from_what_the_model_is_told() -> None:
    """The texts that scripts react to are those of `protocol.texts`."""
    refused = Done("pay", {"amount": 5}, texts.disapproved("pay", "too much, at most 3. Sorry"))
    assert (refused.refused, refused.reason, refused.result) == (True, "too much, at most 3. Sorry", {})
    assert not Done("pay", {}, texts.disapproved("pay", None)).reason
    edited = Done("pay", {"amount": 5}, texts.edited({"amount": 3, "to": "žluť"}, '{"paid":3}'))
    assert (edited.edited, edited.arguments, edited.result) == (
        True,
        {"amount": 3, "to": "žluť"},
        {"paid": 3},
    )
    plain = Done("pay", {"amount": 5}, texts.commented('{"paid":5}', "fine"))
    assert (plain.edited, plain.refused, plain.arguments, plain.result) == (
        False,
        False,
        {"amount": 5},
        {"paid": 5},
    )
    failed = Done("pay", {"amount": 5}, texts.failed("pay", "no line"))
    assert (failed.refused, failed.result) == (False, {})


def test_a_plan_is_read_from_what_executor_and_replanner_are_told() -> None:
    done = [("look", "found\nmore" + texts.by_people(["edited x"])), ("book", "booked")]
    now = progress(texts.step_to_do("a trip\n\nwith care", ["pay", "go home"], done))
    assert (now.objective, now.plan, now.step) == ("a trip\n\nwith care", ("pay", "go home"), "pay")
    assert now.done == (("look", "found\nmore\n   Decided by people: edited x"), ("book", "booked"))
    later = progress(texts.progress("a trip", ["pay", "go home"], [*done, ("pay", "paid")]))
    assert (later.plan, later.last, later.step) == (("pay", "go home"), ("pay", "paid"), "")
    assert progress(texts.step_to_do("a trip", ["pay"], [])).done == ()


def test_a_script_says_the_same_when_it_is_asked_again() -> None:
    for scenario in SCENARIOS.values():
        root: AnyAgent = scenario.agent
        first = (
            root
            if getattr(root, "instructions", "")
            else next(agent for _, agent in walk(root) if getattr(agent, "instructions", ""))
        )
        asked = prompt(first.name, User(content=scenario.task))
        assert scenario.script(asked) == scenario.script(asked)


def test_the_booker_books_asks_again_for_another_place_and_reports() -> None:
    script = scripts()["approval"]
    opening = User(content=SCENARIOS["approval"].task)
    reply = script(prompt("ticket_booker", opening))
    assert [(call.name, call.id, json.loads(call.arguments)) for call in reply.calls] == [
        ("BookTicket", "call_1", TICKET)
    ]
    refused = Tool(tool_call_id="call_1", content=texts.disapproved("BookTicket", "fog, take Tianjin"))
    so_far: list[Message] = [opening, called(("call_1", "BookTicket", TICKET)), refused]
    again = script(prompt("ticket_booker", *so_far))
    assert [json.loads(call.arguments)["location"] for call in again.calls] == ["Tianjin"]
    assert again.calls[0].id == "call_2"
    so_far += [
        called(("call_2", "BookTicket", TICKET | {"location": "Tianjin"})),
        Tool(tool_call_id="call_2", content=texts.disapproved("BookTicket", "fog, take Tianjin")),
    ]
    assert "No ticket to Tianjin is booked" in script(prompt("ticket_booker", *so_far)).content


@pytest.mark.parametrize(
    "told",
    [
        texts.expired("BookTicket"),
        texts.withdrawn("BookTicket", "changed my mind"),
        texts.failed("BookTicket", "no line"),
        texts.OUTCOME_UNKNOWN,
        texts.disapproved("BookTicket", "  "),
    ],
)
def test_a_script_comes_to_an_end_whatever_becomes_of_its_call(told: str) -> None:
    so_far: list[Message] = [User(content=SCENARIOS["approval"].task), called(("c", "BookTicket", TICKET))]
    reply = scripts()["approval"](prompt("ticket_booker", *so_far, Tool(tool_call_id="c", content=told)))
    assert not reply.calls
    assert "No ticket to Beijing is booked" in reply.content


def test_a_later_visit_of_an_agent_plays_the_same_part() -> None:
    task = texts.step_to_do("trip", steps("New York", "Tokyo", date(2025, 10, 15))[1:], [])
    reply = scripts()["plan_execute_replan"](prompt("travel_planner>executor#7", User(content=task)))
    assert reply.calls[0].name == "book_flight"


def test_an_agent_without_a_part_is_a_final_failure() -> None:
    with pytest.raises(ModelFailure, match="no part for 'ticket_booker>stranger'") as failure:
        scripts()["approval"](prompt("ticket_booker>stranger", User(content="hello")))
    assert failure.value.final


@EACH
def test_a_script_that_does_not_understand_its_task_says_so(scenario: Scenario) -> None:
    for address, agent in walk(scenario.agent):
        if not getattr(agent, "instructions", "") or agent.name == "general_purpose":
            continue
        reply = scenario.script(prompt(str(address), User(content="Good morning.")))
        assert reply.content or reply.calls, address
