"""Deep agent: it asks the person first, then spreads the work over sub-agents, which may ask too."""

import re
from typing import Annotated, Any

from pydantic import Field

from activities.tools import tool
from protocol import agents
from protocol.agents import Chat, Deep
from protocol.messages import Reply
from scenarios.computed import between
from scenarios.follow_up import said
from scenarios.scenario import Scenario, Variant, by_name, by_subject, in_turn
from scenarios.script import Scene, cast, say

RESULTS = {
    "market": [
        (
            "Q3 2025 Market Overview",
            "Global markets showed mixed performance with tech sector leading gains",
            "MarketWatch",
        ),
        (
            "Emerging Markets Analysis",
            "Asian markets outperformed expectations with 12% YoY growth",
            "Bloomberg",
        ),
        (
            "Commodity Prices Update",
            "Oil prices stabilized around $75/barrel amid supply concerns",
            "Reuters",
        ),
    ],
    "technology": [
        ("AI Industry Report 2025", "AI adoption in enterprises reached 67%, up from 45% in 2024", "Gartner"),
        (
            "Cloud Computing Trends",
            "Multi-cloud strategies dominate with 78% of enterprises using 2+ providers",
            "IDC",
        ),
        (
            "Semiconductor Outlook",
            "Chip shortage easing with new fab capacity coming online in Q4",
            "TechCrunch",
        ),
    ],
    "finance": [
        ("Interest Rate Forecast", "Fed expected to maintain rates through Q4 2025", "WSJ"),
        (
            "Banking Sector Health",
            "Major banks report strong Q3 earnings with 15% profit growth",
            "Financial Times",
        ),
        (
            "Cryptocurrency Update",
            "Bitcoin stabilizes around $45K with institutional adoption increasing",
            "CoinDesk",
        ),
    ],
}


@tool(attempts=3)
def search(
    query: str,
    category: Annotated[str, Field(description="market, technology, finance or general")] = "general",
) -> dict[str, Any]:
    """Searches for information on a topic."""
    found = RESULTS.get(category.lower()) or [
        (
            f"Research on: {query}",
            f"Comprehensive analysis of {query} shows positive trends",
            "Research Database",
        ),
        (
            f"Latest Updates: {query}",
            f"Recent developments in {query} indicate growth potential",
            f"Source-{between(1, 100, query + category)}",
        ),
    ]
    results = [{"title": title, "summary": summary, "source": source} for title, summary, source in found]
    return {"query": query, "results": results}


FINDINGS = {
    "trend": (
        [
            "Upward trend observed over the past 6 months",
            "Growth rate accelerating in recent quarters",
            "Seasonal patterns detected with Q4 peaks",
        ],
        "Overall positive trajectory with strong momentum",
    ),
    "comparison": (
        [
            "Performance exceeds industry average by 15%",
            "Competitive positioning improved year-over-year",
            "Market share gains observed in key segments",
        ],
        "Favorable comparison against benchmarks",
    ),
    "summary": (
        [
            "Key metrics show healthy performance",
            "Major milestones achieved on schedule",
            "Strategic initiatives progressing well",
        ],
        "Overall status is positive with continued growth expected",
    ),
    "statistical": (
        [
            "Mean value: 45.2, Median: 43.8",
            "Standard deviation: 12.3",
            "95% confidence interval: [40.1, 50.3]",
            "Correlation coefficient: 0.82 (strong positive)",
        ],
        "Statistical analysis indicates significant patterns with high confidence",
    ),
}
OTHER_FINDINGS = (
    [
        "Analysis completed successfully",
        "Data patterns identified",
        "Insights generated based on input",
    ],
    "Analysis complete with actionable insights",
)


@tool(attempts=3)
def analyze(
    data: str,
    analysis_type: Annotated[str, Field(description="trend, comparison, summary or statistical")] = "",
) -> dict[str, Any]:
    """Analyzes data and finds what it says."""
    findings, conclusion = FINDINGS.get(analysis_type.lower() or "summary", OTHER_FINDINGS)
    return {"analysis_type": analysis_type, "findings": findings, "conclusion": conclusion}


TASK = "Analyze the market trends and provide investment recommendations."

RESEARCH = Chat(
    name="research_agent",
    description="Finds facts about one sector. Tell it the sector, and the period if it is known.",
    instructions=(
        "You find facts about the one sector you were given. If the task names no period, ask the user for it with "
        "follow_up, one question that names the sector, and once only. Then search, once or twice, and stop: report "
        "what you found with the sources, and add no advice."
    ),
    tools=(search.spec, agents.follow_up()),
    max_turns=10,
)
ANALYSIS = Chat(
    name="analysis_agent",
    description="Analyzes facts that were found. Give it the facts, and the kind of analysis.",
    instructions=(
        "You analyze the facts you were given with the tool analyze, once, with the kind of analysis that was asked "
        "for. Then stop: report the findings and the conclusion, and add no advice."
    ),
    tools=(analyze.spec,),
    max_turns=10,
)
AGENT = Deep(
    name="data_analysis_agent",
    description="Recommends investments.",
    instructions=(
        "You recommend investments. Before anything else ask the user with follow_up, once, four things: which "
        "sectors, which period, which kind of analysis (trend, comparison, summary, statistical), how much risk. "
        "Then write down what to do, give each sector to research_agent as a task of its own (several sectors in "
        "one turn), and what came back to analysis_agent, in one task. Tell them what the user said: they see "
        "nothing else. Then stop, and recommend in a few sentences, fitted to the risk the user takes."
    ),
    tools=(agents.follow_up(),),
    agents=(RESEARCH, ANALYSIS),
    max_turns=50,
)

QUESTIONS = [
    "Which sectors are you interested in?",
    "Which period should I look at?",
    "What kind of analysis do you want?",
    "How much risk do you take?",
]
SECTORS = ("technology", "finance", "market")
KINDS = {"trend": "trend", "compar": "comparison", "statisti": "statistical", "summar": "summary"}


def lead(scene: Scene) -> Reply:
    """The deep agent's part: ask, write down, research, analyze, recommend."""
    asked = scene.of("follow_up")
    if not asked:
        return scene.call("I need to know a few things first.", ("follow_up", {"questions": QUESTIONS}))
    known = "; ".join(said(asked[-1]))
    sectors = [sector for sector in SECTORS if sector in known.lower()] or ["market"]
    if not scene.of("write_todos"):
        todo = [
            *(f"Research the {sector} sector" for sector in sectors),
            "Analyze what was found",
            "Recommend",
        ]
        todos = [
            {
                "content": each,
                "activeForm": f"Doing: {each}",
                "status": "pending" if n else "in_progress",
            }
            for n, each in enumerate(todo)
        ]
        return scene.call("Here is what I shall do.", ("write_todos", {"todos": todos}))
    tasks = scene.of("task")
    if not tasks:
        return scene.call(
            "The research first.",
            *(_task(RESEARCH, f"Research the {sector} sector. The user said: {known}") for sector in sectors),
        )
    if all(task.proposed["subagent_type"] == RESEARCH.name for task in tasks):
        kind = next((kind for word, kind in KINDS.items() if word in known.lower()), "trend")
        facts = " ".join(task.text for task in tasks)
        return scene.call("Now the analysis.", _task(ANALYSIS, f"Do a {kind} analysis of this: {facts}"))
    *found, analyzed = [task.text for task in tasks]
    return say(
        f"What was found. {' '.join(found)} {analyzed} I recommend to invest step by step, as you said: {known}."
    )


def _task(agent: Chat, description: str) -> tuple[str, dict[str, Any]]:
    return "task", {"subagent_type": agent.name, "description": description}


def research(scene: Scene) -> Reply:
    """The researcher's part: asks for a period if none was named, then searches."""
    sector = next((sector for sector in SECTORS if f"the {sector} sector" in scene.request), "market")
    asked = scene.of("follow_up")
    if not asked and not re.search(r"\d", scene.request):
        question = f"Which period should I look at for the {sector} sector?"
        return scene.call("Nobody told me the period.", ("follow_up", {"questions": [question]}))
    found = scene.of("search")
    if not found:
        period = f", {asked[-1].text}" if asked else ""
        return scene.call("", ("search", {"query": f"{sector} sector{period}", "category": sector}))
    results = found[-1].result.get("results")
    if not results:
        return say(found[-1].text)
    facts = "; ".join(f"{each['summary']} ({each['source']})" for each in results)
    return say(f"{found[-1].arguments['query']}: {facts}.")


def analyse(scene: Scene) -> Reply:
    """The analyst's part."""
    done = scene.of("analyze")
    if not done:
        kind = next((kind for kind in KINDS.values() if f"Do a {kind} analysis" in scene.request), "summary")
        data = scene.request.partition(": ")[2] or scene.request
        return scene.call("", ("analyze", {"data": data, "analysis_type": kind}))
    found = done[-1].result
    if not found:
        return say(done[-1].text)
    return say(f"{'; '.join(found['findings'])}. {found['conclusion']}.")


SCENARIO = Scenario(
    name="deep_agent",
    title="An analyst asks first, then has sub-agents research and analyze",
    agent=AGENT,
    task=TASK,
    tools=(search, analyze),
    script=cast({AGENT.name: lead, RESEARCH.name: research, ANALYSIS.name: analyse}),
    variants=by_name(
        Variant(
            name="one_round",
            shows="four questions are answered, then the sub-agents work",
            decide=in_turn(
                {"decision": "answer", "answers": ["technology", "the last 6 months", "trend", "little"]}
            ),
            says=(
                "(Gartner)",
                "Overall positive trajectory with strong momentum",
                "technology; the last 6 months",
            ),
        ),
        Variant(
            name="answered_apart",
            shows="two sub-agents at work at once, each with a question that is answered by itself",
            decide=by_subject(
                {
                    "technology": {"decision": "answer", "answer": "the last 2 quarters"},
                    "finance": {"decision": "answer", "answer": "since 2024"},
                },
                {
                    "decision": "answer",
                    "answer": "Compare technology and finance; the period differs, ask again. Some risk.",
                },
            ),
            says=(
                "technology sector, the last 2 quarters",
                "finance sector, since 2024",
                "Favorable comparison",
            ),
        ),
    ),
)
