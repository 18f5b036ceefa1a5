"""The sandbox that workflows run in: pure packages are shared with it, not imported anew for every run."""

from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

PURE = (
    "protocol",
    "converter",
    "jsonschema",
    "jsonschema_specifications",
    "referencing",
    "rpds",
    "attr",
    "attrs",
)
"""They hold no state of a run, do no I/O when called from a workflow, and are known to be deterministic."""


def sandbox() -> SandboxedWorkflowRunner:
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PURE))
