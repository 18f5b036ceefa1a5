"""Serves runs: the workflow, the model calls and the tools.

    python worker.py [--task-queue NAME] [--metrics ADDRESS]

Which server, namespace and keys: by the environment or a Temporal profile (``TEMPORAL_ADDRESS``, …). SIGTERM and
Ctrl-C end it in good order: what runs may finish.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import temporalio.client
from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig
from temporalio.worker import Worker

from activities.model import ChatModel, ModelActivities, ModelFailure, Prompt
from activities.scripted_model import Script, ScriptedModel
from activities.tools import FunctionTool, Toolbox
from client import Client, default_queue
from protocol.errors import BadInput, SignoffError
from protocol.messages import Reply
from workflows.agent_run import AgentRun
from workflows.sandbox import sandbox

log = logging.getLogger("signoff.worker")

MAX_TOOLS_AT_ONCE = 200
GRACE = timedelta(seconds=20)
"""What runs may take to finish when the worker is told to end; a container's stop period has to be longer."""
STICKY = timedelta(seconds=1)
"""How long a run is kept for a worker that may be dead; the stock 10 s would be the time a crash costs."""


OPTIONS: Mapping[str, Any] = MappingProxyType(
    {
        "workflow_runner": sandbox(),
        "max_concurrent_activities": MAX_TOOLS_AT_ONCE,
        "sticky_queue_schedule_to_start_timeout": STICKY,
        "graceful_shutdown_timeout": GRACE,
        # To refuse an update is to send its whole input back: with the SDK's own check of sizes on, one of over 2 MB
        # would fail the workflow task for ever. What a run itself sends is bounded by its own rules.
        "disable_payload_error_limit": True,
    }
)
"""What every worker of runs is served with."""


def build_worker(
    client: temporalio.client.Client,
    *,
    task_queue: str,
    tools: Iterable[FunctionTool],
    models: Mapping[str, ChatModel],
    **overrides: Any,
) -> Worker:
    """A worker for runs with these tools and models (by provider; ``""`` is the default).

    *overrides* are options of `temporalio.worker.Worker`; ``workflows`` and ``activities`` are served beside ours.
    """
    options: dict[str, Any] = {**OPTIONS, **overrides}
    activities = [
        ModelActivities(models).complete,
        *Toolbox(tools).activities(),
        *options.pop("activities", ()),
    ]
    workflows = [AgentRun, *options.pop("workflows", ())]
    return Worker(client, task_queue=task_queue, workflows=workflows, activities=activities, **options)


def default_models(scripts: Mapping[str, Script]) -> dict[str, ChatModel]:
    """The providers of a worker: the script, an OpenAI-compatible endpoint, and as the default the endpoint if the
    environment names one."""
    scripted, remote = ScriptedModel(scripts), _Endpoint()
    named = os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")
    return {"scripted": scripted, "openai": remote, "": remote if named else scripted}


class _Endpoint:
    """The OpenAI-compatible endpoint, reached when a call needs it: its package takes a second to import."""

    def __init__(self) -> None:
        self._model: ChatModel | None = None
        self._once = asyncio.Lock()

    async def complete(self, prompt: Prompt) -> Reply:
        async with self._once:
            if self._model is None:
                try:
                    self._model = await asyncio.to_thread(endpoint)
                except BadInput as problem:
                    raise ModelFailure(str(problem), final=True) from None
        return await self._model.complete(prompt)


def endpoint() -> ChatModel:
    """The endpoint that the environment names. Raises `BadInput` if it names none, or none that can be."""
    from activities.openai_model import OpenAIModel

    return OpenAIModel()


@contextlib.asynccontextmanager
async def serving(client: Client, **overrides: Any) -> AsyncIterator[Worker]:
    """Serve the scenarios on the client's task queue while the block runs."""
    from scenarios import all_tools, scripts

    if created := await client.ensure_search_attributes():
        log.info("created the search attributes %s", ", ".join(created))
    worker = build_worker(
        client.temporal,
        task_queue=client.task_queue,
        tools=all_tools(),
        models=default_models(scripts()),
        **overrides,
    )
    async with worker:
        yield worker


def _runtime(metrics: str | None) -> Runtime | None:
    if metrics is None:
        return None
    try:
        return Runtime(telemetry=TelemetryConfig(metrics=PrometheusConfig(bind_address=metrics)))
    except (RuntimeError, ValueError) as error:
        raise BadInput(
            f"no metrics can be served at '{metrics}' ({error}): give HOST:PORT, free on this host"
        ) from None


async def _serve(task_queue: str | None, metrics: str | None) -> None:
    told_to_end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C arrives as KeyboardInterrupt
            loop.add_signal_handler(each, told_to_end.set)
    client = await Client.connect(task_queue=task_queue, runtime=_runtime(metrics))
    async with serving(client):
        log.info("serving the task queue '%s' at %s", client.task_queue, client.address)
        await told_to_end.wait()
        log.info("ending: what runs may finish within %d s", GRACE.total_seconds())


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to end; the exit code."""
    parser = argparse.ArgumentParser(prog="worker.py", description="Serve runs of Signoff until told to end.")
    parser.add_argument("--task-queue", help=f"instead of {default_queue()} (SIGNOFF_TASK_QUEUE)")
    parser.add_argument("--metrics", metavar="HOST:PORT", help="serve Prometheus metrics there")
    chosen = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        asyncio.run(_serve(chosen.task_queue, chosen.metrics))
    except SignoffError as error:
        log.error("%s", error)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    code = main()
    # A Python that ends while the SDK's threads return aborts now and then.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
