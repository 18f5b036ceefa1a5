"""The sandbox that workflows run in: pure packages are shared with it, not imported anew for every run."""

from temporalio.worker import WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

PURE = (
    "activities",
    "attr",
    "attrs",
    "client",
    "converter",
    "jsonschema",
    "jsonschema_specifications",
    "protocol",
    "referencing",
    "rpds",
    "signoff",
    "workflows",
)
"""They keep no state of a run, and what workflows call of them does no I/O: imported anew, they cost every run its
start."""


def sandbox(existing: WorkflowRunner | None = None) -> WorkflowRunner:
    """A sandbox that shares our packages; an *existing* one keeps its own rules beside that."""
    if existing is None:
        return SandboxedWorkflowRunner(
            restrictions=SandboxRestrictions.default.with_passthrough_modules(*PURE)
        )
    if isinstance(existing, SandboxedWorkflowRunner):
        return SandboxedWorkflowRunner(
            restrictions=existing.restrictions.with_passthrough_modules(*PURE),
            runner_class=existing.runner_class,
        )
    return existing
