"""Nested: a supervisor over a planning agent whose executor needs a person's approval, three levels down."""

import re
from typing import Annotated, Any

from pydantic import Field

from activities.tools import tool
from protocol.agents import Chat, PlanExecute, Supervisor
from protocol.messages import Reply
from scenarios.computed import between, number
from scenarios.scenario import APPROVE, Scenario, Variant, by_name, in_turn, reject
from scenarios.script import Progress, Scene, amount_allowed, cast, progress, say


@tool(attempts=3)
def search_info(
    query: str, topic: Annotated[str, Field(description="technology, business or market")] = ""
) -> dict[str, Any]:
    """Searches for information on a topic."""
    known = {
        "technology": [
            "Latest AI frameworks show 40% improvement in efficiency",
            "Cloud-native architecture adoption increased by 65%",
            "Microservices remain the preferred architecture pattern",
        ],
        "business": [
            "Q3 revenue exceeded expectations by 12%",
            "Market expansion opportunities identified in APAC region",
            "Customer satisfaction scores improved to 4.5/5",
        ],
        "market": [
            "Industry growth projected at 8.5% annually",
            "Competitor analysis shows market gap in enterprise segment",
            "Emerging markets present significant opportunities",
        ],
    }
    topic = topic or "technology"
    if topic not in known:
        found = [f"General information found for: {query}"]
        return {"query": query, "results": found, "source": "General Database"}
    return {"query": query, "results": known[topic], "source": f"{topic} Research Database"}


@tool(attempts=3)
def analyze_requirements(project_description: str) -> dict[str, Any]:
    """Analyzes what a project needs, how complex it is and how long it takes."""
    return {
        "requirements": [
            "User authentication and authorization",
            "Data storage and retrieval system",
            "API integration layer",
            "User interface components",
            "Testing and quality assurance",
        ],
        "complexity": ("Low", "Medium", "High")[between(0, 2, project_description + "complexity")],
        "estimated_hours": between(80, 320, project_description + "hours"),
    }


@tool
def create_design(project_name: str, requirements: list[str]) -> dict[str, Any]:
    """Creates a technical design for a project."""
    return {
        "design_id": f"DESIGN-{between(1000, 9999, project_name + 'id')}",
        "project_name": project_name,
        "architecture": "Microservices with Event-Driven Architecture",
        "components": [
            "API Gateway",
            "Authentication Service",
            "Core Business Logic Service",
            "Database Layer",
            "Message Queue",
            "Monitoring Dashboard",
        ],
        "status": "draft",
    }


BUDGETS = {"engineering": 500_000, "marketing": 200_000, "operations": 300_000}


@tool(approval=True)
def allocate_budget(
    project_name: str,
    amount: Annotated[float, Field(gt=0)],
    department: Annotated[str, Field(description="engineering, marketing or operations")],
) -> dict[str, Any]:
    """Allocates a department's money to a project. A person approves it first."""
    return {
        "allocation_id": f"BUDGET-{department[:3]}-{between(1000, 9999, project_name + 'budget')}",
        "project_name": project_name,
        "amount": number(amount),
        "department": department,
        "remaining_budget": number(max(BUDGETS.get(department, 0) - amount, 0)),
        "status": "approved",
    }


@tool
def assign_team(
    project_name: str,
    team_members: list[str],
    start_date: Annotated[str, Field(description="As YYYY-MM-DD")],
) -> dict[str, Any]:
    """Assigns people to a project."""
    return {
        "assignment_id": f"TEAM-{between(1000, 9999, project_name + 'team')}",
        "project_name": project_name,
        "team_members": team_members,
        "start_date": start_date,
        "status": "confirmed",
    }


TASK = (
    'Set up a new project called "Customer Portal" for the engineering department.\n'
    "This should include analyzing requirements, creating a design, allocating a budget of $150,000 from engineering,\n"
    "and assigning a team of Alice, Bob, and Charlie starting from 2025-02-01."
)

RESEARCH = Chat(
    name="research_agent",
    description="Looks up facts about technology, business and markets.",
    instructions=(
        "You look up what you were asked, with search_info, once per topic. Then stop, and answer with what you "
        "found and its source, in a few sentences."
    ),
    tools=(search_info.spec,),
)
EXECUTOR = Chat(
    name="executor",
    description="Does one step of a project plan.",
    instructions=(
        "You do one step of a project plan, with one call of the tool that fits, and nothing of the other steps. "
        "Departments are written in lower case. A person may refuse a budget: then do not try another amount; it is "
        "not yours to change the plan. Stop after the call, and report in one or two sentences what was done, with "
        "ids and amounts, or what was refused and the person's reason word for word."
    ),
    tools=(analyze_requirements.spec, create_design.spec, allocate_budget.spec, assign_team.spec),
)
PLANNER = Chat(
    name="planner",
    instructions=(
        "You plan how a project is set up. Call plan with the steps in order: requirements, design, budget, team, as "
        "far as they are wanted. One tool call must do for a step, so write into it all that it needs: the name of "
        "the project, amounts, the department, people, days."
    ),
)
REPLANNER = Chat(
    name="replanner",
    instructions=(
        "After each step of a project you decide what remains. Call plan with the remaining steps; leave out what is "
        "done. If a person refused the budget and named a smaller amount that would do, plan that amount first. If "
        "they named none, the project has no money: leave out the budget and the team. When nothing remains, call "
        "respond with what was done, with ids, and what was refused and why."
    ),
)
PROJECT = PlanExecute(
    name="project_execution_agent",
    description="Sets up projects: requirements, design, budget, team.",
    planner=PLANNER,
    executor=EXECUTOR,
    replanner=REPLANNER,
    max_rounds=20,
)
AGENT = Supervisor(
    name="pm_supervisor",
    description="Manages projects.",
    instructions=(
        "You manage projects by handing work to your agents; you have no other way. Hand what is to be looked up to "
        "research_agent, and setting up a project to project_execution_agent, in one call for the whole of it: it "
        "plans for itself. Hand over nothing that the user did not ask for, and nothing twice. "
        "Then stop, and sum up for the user what was set up, with ids, and what was refused and why."
    ),
    agents=(RESEARCH, PROJECT),
)

HAND_OVER = "transfer_to_agent"

_DEPARTMENT = re.compile(r"for the (\w+) department")
_DESCRIBED = re.compile(r"Analyze the requirements of (.+)")
_DESIGN = re.compile(r"Create a design for (.+)")
_BUDGET = re.compile(r"Allocate (\d+) USD from (\w+) to (.+)")
_TEAM = re.compile(r"Assign (.+) to (.+) from (\d{4}-\d{2}-\d{2})")


def manage(scene: Scene) -> Reply:
    """The supervisor's part: research if it is wanted, the project, and the sum of it all."""
    handed = {done.proposed["agent_name"]: done for done in scene.of(HAND_OVER)}
    if "research" in scene.request.lower() and RESEARCH.name not in handed:
        return scene.call(
            "I have the facts looked up first.", _hand_over(RESEARCH, "What is new in the market?")
        )
    if PROJECT.name not in handed:
        return scene.call(
            "This is one for the project agent.", _hand_over(PROJECT, "Set the project up, as it is wanted.")
        )
    return say("Summary. " + " ".join(done.text for done in handed.values()))


def _hand_over(agent: Chat | PlanExecute, request: str) -> tuple[str, dict[str, Any]]:
    return HAND_OVER, {"agent_name": agent.name, "request": request}


def look_up(scene: Scene) -> Reply:
    """The researcher's part."""
    done = scene.of("search_info")
    if not done:
        return scene.call("", ("search_info", {"query": scene.request, "topic": "market"}))
    found = done[-1].result
    return say(f"{'; '.join(found['results'])} ({found['source']})." if found else done[-1].text)


def make_plan(scene: Scene) -> Reply:
    """The planner's part: the steps of setting up a project, as far as the request names them."""
    text = scene.request
    name = re.search(r'"([^"]+)"', text)
    if name is None:
        return scene.call("", ("plan", {"steps": ["Tell the user that the project needs a name"]}))
    department = _DEPARTMENT.search(text)
    described = f"{name[1]} for {department[1]} department" if department else name[1]
    steps = [f"Analyze the requirements of {described}", f"Create a design for {name[1]}"]
    if money := re.search(r"\$([\d,]+) from (\w+)", text):
        steps.append(f"Allocate {money[1].replace(',', '')} USD from {money[2]} to {name[1]}")
    if team := re.search(r"team of (.+?) starting from (\d{4}-\d{2}-\d{2})", text):
        steps.append(f"Assign {team[1]} to {name[1]} from {team[2]}")
    return scene.call("", ("plan", {"steps": steps}))


def execute(scene: Scene) -> Reply:
    """The executor's part: one call for its step, then a report."""
    now = progress(scene.request)
    if not scene.done:
        if found := _DESCRIBED.match(now.step):
            return scene.call("", ("analyze_requirements", {"project_description": found[1]}))
        if found := _DESIGN.match(now.step):
            needed = now.result_of("Analyze").partition("It needs: ")[2].partition(".")[0].split("; ")
            return scene.call("", ("create_design", {"project_name": found[1], "requirements": needed}))
        if found := _BUDGET.match(now.step):
            money = {"project_name": found[3], "amount": int(found[1]), "department": found[2]}
            return scene.call(f"The project needs {found[1]} USD.", ("allocate_budget", money))
        if found := _TEAM.match(now.step):
            people = re.split(r",? and |, ", found[1])
            team = {"project_name": found[2], "team_members": people, "start_date": found[3]}
            return scene.call("", ("assign_team", team))
        return say(f"{now.step}: nothing to do.")
    done = scene.done[-1]
    match done.result:
        case {"requirements": needed, "complexity": complexity, "estimated_hours": hours}:
            return say(f"Complexity {complexity}, {hours} hours. It needs: {'; '.join(needed)}.")
        case {"design_id": id, "architecture": architecture}:
            return say(f"Design {id}: {architecture}.")
        case {"allocation_id": id, "amount": amount, "department": department, "remaining_budget": left}:
            return say(f"Budget {id}: {amount} USD from {department}, which has {left} left.")
        case {"assignment_id": id, "team_members": people, "start_date": day}:
            return say(f"Team {id}: {', '.join(people)} from {day}.")
        case _ if done.refused:
            reason = f": {done.reason}" if done.reason else " without a reason"
            return say(f"{done.arguments['amount']} USD were refused{reason}.")
        case _:
            return say(done.text)


def replan(scene: Scene) -> Reply:
    """The replanner's part: a smaller budget if a person named one, no team without money, and the answer."""
    now = progress(scene.request)
    rest = _fitted(now)
    if rest:
        return scene.call("", ("plan", {"steps": rest}))
    results = [result.partition("\n")[0] for _, result in now.done]
    return scene.call("", ("respond", {"response": " ".join(results)}))


def _fitted(now: Progress) -> list[str]:
    step, result = now.last
    rest = list(now.plan[1:])
    budget = _BUDGET.match(step)
    if budget is None or " were refused" not in result:
        return rest
    amount = amount_allowed(result)
    if amount is None or amount >= int(budget[1]):
        return [each for each in rest if not _TEAM.match(each)]
    return [f"Allocate {amount} USD from {budget[2]} to {budget[3]}", *rest]


SCENARIO = Scenario(
    name="nested",
    title="A budget is approved three levels down, and the supervisor sums up",
    agent=AGENT,
    task=TASK,
    tools=(search_info, analyze_requirements, create_design, allocate_budget, assign_team),
    script=cast(
        {
            AGENT.name: manage,
            RESEARCH.name: look_up,
            PLANNER.name: make_plan,
            EXECUTOR.name: execute,
            REPLANNER.name: replan,
        }
    ),
    variants=by_name(
        Variant(
            name="approve",
            shows="the budget is approved, the plan goes on, the supervisor sums up",
            decide=in_turn(APPROVE),
            says=("Summary.", "DESIGN-2252", "BUDGET-eng-5796", "350000 left", "TEAM-2512"),
        ),
        Variant(
            name="reject",
            shows="rejected with a reason, the project stops where it needs money",
            decide=in_turn(reject("no money left this year")),
            says=("Summary.", "DESIGN-2252", "150000 USD were refused: no money left this year"),
        ),
        Variant(
            name="reject_without_reason",
            shows="rejected without a word",
            decide=in_turn(reject()),
            says=("Summary.", "150000 USD were refused without a reason"),
        ),
        Variant(
            name="reject_then_smaller_amount",
            shows="rejected with a limit, a smaller budget is planned, approved, and the plan goes on",
            decide=in_turn(reject("too much for one quarter, at most 100,000"), APPROVE),
            says=(
                "150000 USD were refused",
                "100000 USD from engineering, which has 400000 left",
                "TEAM-2512",
            ),
        ),
        Variant(
            name="research_first",
            shows="two agents one after the other under the supervisor",
            task=f"Research the market first.\n{TASK}",
            decide=in_turn(APPROVE),
            says=("Industry growth projected at 8.5% annually", "TEAM-2512"),
        ),
    ),
)
