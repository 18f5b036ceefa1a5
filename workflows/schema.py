"""Whether a value fits a JSON schema, in words; used at the door and before anybody is asked."""

from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from jsonschema import Draft202012Validator
    from referencing import Registry

    from protocol import strict_json
    from protocol.board import clip

MOST = 3


def problem(schema: dict[str, Any], value: Any) -> str | None:
    """What is wrong with *value*, naming the fields; nothing if it fits. Never raises.

    A schema that cannot be applied is a problem too: what was not checked does not pass.
    """
    try:
        # An empty registry: a schema may not make a workflow fetch anything.
        validator = Draft202012Validator(schema, registry=Registry())
        errors = sorted(
            validator.iter_errors(value), key=lambda error: [str(part) for part in error.absolute_path]
        )
    except (
        Exception
    ) as error:  # a pattern of another dialect, a division by zero, a number too large to divide, …
        return f"the schema cannot be applied ({clip(str(error), 200)})"
    said = []
    for fault in errors[:MOST]:
        where = ".".join(str(part) for part in fault.absolute_path)
        said.append(clip(f"{where}: {fault.message}" if where else fault.message, 300))
    more = f"; and {len(errors) - MOST} more" if len(errors) > MOST else ""
    return "; ".join(said) + more if said else None


def read_arguments(text: str, schema: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The arguments that a model wrote, and what is wrong with them. Blank text counts as no arguments."""
    try:
        arguments = strict_json.read(text) if text.strip() else {}
        strict_json.refuse_huge(arguments, text)
    except strict_json.HarmfulJson as error:
        return {}, str(error)
    if not isinstance(arguments, dict):
        return {}, "they are no JSON object"
    return arguments, problem(schema, arguments)
