"""Runs served from a worker of one's own: a Temporal plugin."""

import atexit
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

from temporalio.plugin import SimplePlugin
from temporalio.worker import Worker, WorkerConfig

from activities.model import ChatModel, ModelActivities
from activities.tools import FunctionTool, Toolbox
from client import Client
from converter import strict
from workflows.agent_run import AgentRun
from workflows.sandbox import sandbox


class SignoffPlugin(SimplePlugin):
    """Adds `AgentRun`, model calls and tools to a worker, and the converter to its client."""

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        """To refuse an update is to send its whole input back: with the SDK's own check of sizes on, one of over
        2 MB would fail the workflow task for ever."""
        configured = super().configure_worker(config)
        configured["disable_payload_error_limit"] = True
        return configured

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:
        """Check the search attributes before the worker polls: a missing one would wedge every run."""
        await Client(worker.client, task_queue=worker.task_queue).ensure_search_attributes()
        await super().run_worker(worker, next)


def plugin(
    *, tools: Iterable[FunctionTool] = (), models: Mapping[str, ChatModel] | None = None
) -> SignoffPlugin:
    """A plugin for ``Client.connect(plugins=[…])``; workers made from that client serve runs with these tools.

    *models* by provider, ``""`` the default; without any, the OpenAI-compatible endpoint that the environment
    names. The client's codec stays. Raises `BadInput` for two tools of one activity type, and in ``connect`` for a
    client with a payload converter of its own.
    """
    if models is None:
        from activities.openai_model import OpenAIModel  # half a second to import, for those who use it

        models = {"": OpenAIModel()}
    # A Python that ends while the SDK's threads return aborts now and then; a program that ends with its worker does.
    atexit.register(time.sleep, 0.1)
    return SignoffPlugin(
        "signoff",
        data_converter=strict,
        workflows=[AgentRun],
        activities=[ModelActivities(models).complete, *Toolbox(tools).activities()],
        workflow_runner=sandbox,
    )
