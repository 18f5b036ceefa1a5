"""The payload converter that client, worker and replayer share: pydantic's, with a reader that never fails open.

Where no type is asked for, it never raises: what cannot be read, or means harm (duplicate keys, NaN, numbers that
overflow), comes out as `Undecodable` with a reason, so that handlers can refuse it in words.
"""

from dataclasses import dataclass, replace
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import DataConverter, DefaultPayloadConverter

from protocol import strict_json
from protocol.errors import BadInput


@dataclass(frozen=True)
class Undecodable:
    """A payload that could not be read; *reason* can be shown to its sender."""

    reason: str


class StrictPayloadConverter(PydanticPayloadConverter):
    """Pydantic's converter, except that untyped payloads are read strictly and never raise."""

    def from_payloads(self, payloads: Any, type_hints: list[type] | None = None) -> list[Any]:
        return [
            self._untyped(payload)
            if type_hints is None or index >= len(type_hints) or type_hints[index] is Any
            else super(StrictPayloadConverter, self).from_payloads([payload], [type_hints[index]])[0]
            for index, payload in enumerate(payloads)
        ]

    def _untyped(self, payload: Payload) -> Any:
        encoding = payload.metadata.get("encoding", b"").decode("utf-8", "replace")
        match encoding:
            case "binary/null":
                return None
            case "binary/plain":
                return payload.data
            case "json/plain":
                try:
                    return strict_json.read(payload.data)
                except strict_json.HarmfulJson as error:
                    return Undecodable(str(error))
            case _:
                try:
                    return super().from_payloads([payload], None)[0]
                except Exception:
                    return Undecodable(f"a payload of encoding '{encoding[:40]}' is no JSON")


DATA_CONVERTER = DataConverter(payload_converter_class=StrictPayloadConverter)


def strict(existing: DataConverter | None) -> DataConverter:
    """*existing* with our payload converter: its codec, that encrypts perhaps, stays. Raises `BadInput` if it has a
    payload converter of its own."""
    if existing is None:
        return DATA_CONVERTER
    replaced = (DefaultPayloadConverter, PydanticPayloadConverter, StrictPayloadConverter)
    if existing.payload_converter_class not in replaced:
        name = existing.payload_converter_class.__name__
        raise BadInput(f"runs need Signoff's payload converter, and the client has '{name}': leave it out")
    return replace(existing, payload_converter_class=StrictPayloadConverter)
