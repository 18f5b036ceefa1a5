"""Every sentence that a model is told: fixed, tested, in one place."""

import json
from typing import Any

SAID_NOTHING = "(no answer)"
EMPTY_REPLY = "Your last reply was empty. Answer in words, or call a tool."
NOTHING = "(the tool returned nothing)"
EMPTY_TEXT = "(the tool returned an empty text)"
CANCELLED = "The run was cancelled before this was done; it did not run."
OUTCOME_UNKNOWN = (
    "The worker was lost while this ran, and it may not be repeated: whether it took effect is unknown. "
    "Find out before you call it again."
)


def disapproved(tool: str, reason: str | None) -> str:
    """A person said no, or a rule does. A blank reason counts as none."""
    because = f", reason: {reason}" if reason and reason.strip() else ""
    return f"tool '{tool}' disapproved{because}. It did not run."


def withheld(tool: str, reason: str | None) -> str:
    because = f", reason: {reason}" if reason and reason.strip() else ""
    return f"tool '{tool}' ran, but a person withholds its result{because}."


def expired(tool: str) -> str:
    return f"Nobody decided about tool '{tool}' in time. The time ran out and it did not run."


def expired_after(tool: str) -> str:
    return f"tool '{tool}' ran, but nobody released its result in time; it is withheld."


def withdrawn(tool: str, reason: str | None) -> str:
    because = f", reason: {reason}" if reason and reason.strip() else ""
    return f"The question about tool '{tool}' was withdrawn{because}. It did not run."


def superseded(tool: str) -> str:
    return f"The question about tool '{tool}' was superseded by another. It did not run."


def edited(arguments: dict[str, Any], result: str) -> str:
    shown = json.dumps(arguments, ensure_ascii=False)
    return f"A person changed the arguments of this call to {shown}. Its result: {result}"


def commented(result: str, comment: str | None) -> str:
    return (
        f"{result}\n\nNote from the person who approved this: {comment}"
        if comment and comment.strip()
        else result
    )


def cancelled_below(name: str) -> str:
    """What stands for the answer of a sub-agent that was at work when its run was cancelled."""
    return f"The run was cancelled before agent '{name}' was done."


def stopped_below(name: str) -> str:
    """What stands for the outcome of a call, to a tool or an agent, that was open when its run reached a limit."""
    return f"The run reached its limit before '{name}' was done."


def cancelled(reason: str, done: list[str]) -> str:
    """The answer of a cancelled run, with what was finished before."""
    because = f": {reason}" if reason.strip() else ""
    kept = "\n\nDone before that:\n" + "\n".join(f"- {line}" for line in done) if done else ""
    return f"cancelled{because}{kept}"


def unknown_tool(name: str, known: list[str]) -> str:
    return f"There is no tool '{name}'. Tools that exist: {', '.join(known) or 'none'}."


def bad_arguments(tool: str, problem: str) -> str:
    return f"The arguments of '{tool}' cannot be used: {problem}. Nothing ran and nobody was asked."


def failed(tool: str, error: str) -> str:
    return f"tool '{tool}' failed: {error.strip() or 'no reason was given'} (it may have taken effect before that)"


def not_served(tool: str) -> str:
    return f"tool '{tool}' is not served by the worker that was asked: it did not run"


def unreadable(tool: str, why: str) -> str:
    """The end of a tool, served by any worker, that gave what is no JSON."""
    return f"tool '{tool}' ran, but its result cannot be read: {why}"


def answered(questions: tuple[str, ...], answers: tuple[str, ...]) -> str:
    """What a follow-up gives when each question was answered by itself."""
    if len(questions) == 1:
        return answers[0]
    return "\n".join(f"{question} {answer}" for question, answer in zip(questions, answers, strict=True))


def part_problem(problem: str) -> str:
    return f"the answer cannot be used: {problem}"


def shortened(text: str, most: int) -> str:
    """Head and tail of a text that is too long, with the number of characters between them that are hidden.

    All of it together has at most *most* characters, so that cutting it again changes nothing; where *most* has no
    room for the note, the note alone.
    """
    if len(text) <= most:
        return text
    kept = max(most - len(_hidden(len(text))), 0)
    head, tail = kept - kept // 4, kept // 4
    return text[:head] + _hidden(len(text) - kept) + text[len(text) - tail :]


def _hidden(characters: int) -> str:
    return f"\n[… {characters} characters hidden; ask for a smaller part …]\n"


def stub(size: int) -> str:
    """What stays of an old result when a long conversation nears its limit."""
    return f"[an older result of {size} characters was left out to keep this conversation within its limit]"


def said_by(name: str, text: str) -> str:
    return f"[{name}]: {text}"


def unknown_agent(name: str, known: list[str]) -> str:
    return f"There is no agent '{name}'. Agents that exist: {', '.join(known)}."


def no_answer(name: str, status: str, text: str) -> str:
    """What a parent is told of a sub-agent that ended without an answer."""
    return f"agent '{name}' {status}: {text}"


def after_turns(turns: int) -> str:
    return f"stopped after {turns} turns (max_turns)"


def after_rounds(rounds: int) -> str:
    return f"stopped after {rounds} rounds (max_rounds)"


# ---- supervisor, plan_execute, deep --------------------------------------------------------------------------

TRANSFER = "Hand work over to another agent and get its answer back. Agents:\n"
TASK = "Give a task to a sub-agent and get its final answer back. Sub-agents:\n"
TODOS = "Write down the list of things to do, and keep it current."
PLAN = "Give the plan: the steps that are still to be done, in order."
RESPOND = "Give the final answer to the user: everything is done, or cannot be done."
AGENT_REQUEST = "What you want this agent to do, with everything it needs to know."


def agent_lines(agents: list[tuple[str, str]]) -> str:
    return "\n".join(
        f"- {name}: {description}" if description else f"- {name}" for name, description in agents
    )


def todos_written(todos: str) -> str:
    return f"Updated todo list to {todos}"


def objective(task: str) -> str:
    return f"## Objective\n{task}"


def step_to_do(task: str, plan: list[str], done: list[tuple[str, str]]) -> str:
    """What the executor is given: the objective, what was done, and the one step to do now."""
    return f"{objective(task)}\n\n{steps_done(done)}## Plan\n{numbered(plan)}\n\n## Your step now\n{plan[0]}"


def progress(task: str, plan: list[str], done: list[tuple[str, str]]) -> str:
    """What the replanner is given after every step."""
    return (
        f"{objective(task)}\n\n{steps_done(done)}## Plan that was followed\n{numbered(plan)}\n\n"
        "Call plan with the steps that remain, or respond when nothing remains."
    )


def steps_done(done: list[tuple[str, str]]) -> str:
    if not done:
        return ""
    lines = [f"{n}. {step}\n   Result: {result}" for n, (step, result) in enumerate(done, 1)]
    return "## Done so far\n" + "\n".join(lines) + "\n\n"


def numbered(steps: list[str]) -> str:
    return "\n".join(f"{n}. {step}" for n, step in enumerate(steps, 1))


def by_people(facts: list[str]) -> str:
    """What people changed or refused while a step ran; added to the step's record for the replanner."""
    return "\n   Decided by people: " + "; ".join(facts) if facts else ""


def must_call(names: list[str]) -> str:
    return f"Answer by calling one of these tools: {', '.join(names)}."
