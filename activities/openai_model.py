"""A `ChatModel` over any endpoint that speaks chat completions: OpenAI, vLLM, Ollama, llama.cpp and their kin.

Plain JSON goes out and comes in: the typed calls of the client walk every message of every request, and read answers
into types that many servers do not quite keep to.
"""

import email.utils
import json
import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from openai import APIConnectionError, APIError, APIStatusError, AsyncOpenAI, AsyncStream, OpenAIError

from activities.model import ModelFailure, Prompt
from protocol.errors import BadInput
from protocol.messages import Asked, Assistant, Message, Reply, ToolOffer, Usage, wire

OPENAI = "https://api.openai.com/v1"
DEFAULT_MODEL = "gpt-4.1-mini"
"""The model of an agent that names none where `SIGNOFF_MODEL` does not either."""

NO_KEY = "none"
"""What stands for the key of a server that wants none; the client insists on one."""

MAX_ERROR = 500
"""Characters of what an endpoint says about an error."""
MAX_RETRY_AFTER = 24 * 3600.0

TRANSIENT = frozenset({408, 409, 425, 429})
"""The refusals of the 4xx kind that may be gone the next time; all others are final."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where models are and what opens the door; never part of a payload."""

    base_url: str = OPENAI
    api_key: str = field(default="", repr=False)
    model: str = DEFAULT_MODEL
    stream: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Endpoint":
        """The endpoint of `OPENAI_BASE_URL`, `OPENAI_API_KEY`, `SIGNOFF_MODEL` and `SIGNOFF_STREAM`.

        A server of one's own may need no key. Raises `BadInput` for what cannot work.
        """
        base_url = environment.get("OPENAI_BASE_URL", "").strip()
        api_key = environment.get("OPENAI_API_KEY", "").strip()
        if not base_url and not api_key:
            raise BadInput(
                "no model endpoint is known: set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own"
            )
        # Neither the address nor the key is shown: both may hold a secret.
        if base_url and not _is_address(base_url):
            raise BadInput("OPENAI_BASE_URL is no address: set it to something like http://127.0.0.1:8000/v1")
        if not re.fullmatch(r"[!-~]*", api_key):
            raise BadInput("OPENAI_API_KEY holds characters that no key has: copy it once more")
        return cls(
            base_url=base_url or OPENAI,
            api_key=api_key,
            model=environment.get("SIGNOFF_MODEL", "").strip() or DEFAULT_MODEL,
            stream=environment.get("SIGNOFF_STREAM", "").strip().lower() in ("1", "true", "yes", "on"),
        )


def _is_address(url: str) -> bool:
    try:
        return re.fullmatch(r"https?://[^\s/]+(/\S*)?", url) is not None and urlsplit(url).port != 0
    except ValueError:
        return False


class OpenAIModel:
    """Answers prompts from an endpoint, by default the one that the environment names."""

    def __init__(self, endpoint: Endpoint | None = None) -> None:
        self._endpoint = endpoint or Endpoint.from_environment()
        self._client: AsyncOpenAI | None = None

    async def complete(self, prompt: Prompt) -> Reply:
        """Ask the endpoint. Refusals of the request are final; whatever may pass is not."""
        body = _body(prompt, self._endpoint)
        try:
            return await (self._streamed(body) if self._endpoint.stream else self._whole(body))
        except ModelFailure as failure:
            raise ModelFailure(
                self._safe(str(failure)), final=failure.final, retry_after=failure.retry_after
            ) from None
        except APIStatusError as error:
            raise self._refused(error, body["model"]) from None
        except APIConnectionError as error:
            cause = error.__cause__
            why = f"{type(cause).__name__}: {cause}" if cause and str(cause) else str(error)
            raise self._failure(f"cannot be reached ({why})", final=False) from None
        except APIError as error:  # said within a stream that had begun
            said = _said_instead(error.body or error.message)
            raise self._failure(str(said), final=said.final) from None
        except UnicodeEncodeError:
            raise self._failure("cannot be asked: the prompt holds half a character", final=True) from None
        except ValueError as error:
            raise self._failure(f"answered what is no JSON ({error})", final=False) from None
        except OpenAIError as error:
            raise self._failure(f"could not be asked ({error})", final=False) from None

    async def aclose(self) -> None:
        """Give the connections back."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _opened(self) -> AsyncOpenAI:
        # Made at the first call, so that its connections belong to the loop of the worker.
        if self._client is None:
            self._client = AsyncOpenAI(
                base_url=self._endpoint.base_url,
                api_key=self._endpoint.api_key or NO_KEY,
                # Temporal owns the retries; two layers of them would multiply.
                max_retries=0,
            )
        return self._client

    async def _whole(self, body: dict[str, Any]) -> Reply:
        answer = await self._opened().post("/chat/completions", cast_to=object, body=body)
        completion = _object(answer)
        if not completion:
            raise ModelFailure("the answer is no JSON object: is the address right?", final=False)
        if completion.get("error"):
            raise _said_instead(completion["error"])
        choice = _first_choice(completion)
        if choice is None or not isinstance(choice.get("message"), Mapping):
            raise ModelFailure("the answer holds no message", final=False)
        return _reply(choice["message"], completion.get("usage"))

    async def _streamed(self, body: dict[str, Any]) -> Reply:
        body = {"stream_options": {"include_usage": True}, **body, "stream": True}
        stream = await self._opened().post(
            "/chat/completions", cast_to=object, body=body, stream=True, stream_cls=AsyncStream[object]
        )
        pieces = _Pieces()
        async with stream:
            async for chunk in stream:
                pieces.add(_object(chunk))
        if not pieces.finished:
            # Half an answer must not pass for a whole one, and a connection may end without a word.
            raise ModelFailure("the stream ended before the answer was complete", final=False)
        return _reply(pieces.message(), pieces.usage)

    def _refused(self, error: APIStatusError, model: str) -> ModelFailure:
        status = error.status_code
        said = _said(error.body)
        if status == 404:
            said += f" (model '{model}'; SIGNOFF_MODEL or the agent's model names another)"
        return self._failure(
            f"answered {status}: {said}",
            final=_is_final(status),
            retry_after=retry_after(error.response.headers),
        )

    def _failure(self, text: str, *, final: bool, retry_after: float | None = None) -> ModelFailure:
        return ModelFailure(self._safe(text), final=final, retry_after=retry_after)

    def _safe(self, text: str) -> str:
        """One line that names the endpoint and holds no key, also if the endpoint shows it."""
        if self._endpoint.api_key:
            text = text.replace(self._endpoint.api_key, "[key]")
        text = re.sub(r"\bsk-[\w*.-]+", "[key]", text)
        text = " ".join(clean(text).split())
        host = urlsplit(self._endpoint.base_url).netloc.rpartition("@")[2]
        return f"the model endpoint {host}: {text if len(text) <= MAX_ERROR else text[:MAX_ERROR] + '…'}"


# ------------------------------------------------------------------------------------------- what is sent


def _body(prompt: Prompt, endpoint: Endpoint) -> dict[str, Any]:
    """The request, with the model's options as they stand where they are not ours to decide."""
    messages = [_sent(message) for message in prompt.messages]
    if prompt.instructions:
        messages.insert(0, {"role": "system", "content": prompt.instructions})
    body = {
        **prompt.model.options,
        "model": prompt.model.name or endpoint.model,
        "messages": messages,
    }
    body.pop("stream", None)
    if prompt.offers:
        body["tools"] = [_offered(offer) for offer in prompt.offers]
        if prompt.must_call:
            body["tool_choice"] = "required"
    return body


def _sent(message: Message) -> dict[str, Any]:
    """A message in the form that the strictest servers take."""
    sent = wire(message)
    if isinstance(message, Assistant):
        if message.content is None:
            # Only OpenAI knows refusals; as words, every model reads its own.
            sent["content"] = None if message.tool_calls else message.refusal
        sent.pop("refusal", None)
        for call in sent.get("tool_calls", ()):
            # Chat templates read the arguments of old calls as an object; text that is none fails every later turn.
            if not _is_object(call["function"]["arguments"]):
                call["function"]["arguments"] = json.dumps(
                    {"unreadable": call["function"]["arguments"]}, ensure_ascii=False
                )
    return sent


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _offered(offer: ToolOffer) -> dict[str, Any]:
    return {"type": "function", "function": offer.model_dump(mode="json")}


# ---------------------------------------------------------------------------------------- what comes back


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _first_choice(answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
    choices = answer.get("choices")
    found = [choice for choice in choices if isinstance(choice, Mapping)] if isinstance(choices, list) else []
    return next((choice for choice in found if not choice.get("index")), None)


def _reply(message: Mapping[str, Any], usage: Any) -> Reply:
    """What the endpoint's message says, as far as it can be understood."""
    content, refused = _words(message.get("content"))
    refusal = message.get("refusal")
    calls = message.get("tool_calls")
    if not calls and message.get("function_call"):
        calls = [{"function": message["function_call"]}]  # how calls were written before there were several
    return Reply(
        content=clean(content),
        refusal=clean(refusal if isinstance(refusal, str) else refused) or None,
        calls=tuple(_asked(call) for call in calls if isinstance(call, Mapping))
        if isinstance(calls, list)
        else (),
        usage=_usage(usage),
    )


def _words(content: Any) -> tuple[str, str]:
    """The text of a content, and a refusal that stands in one of its parts."""
    if not isinstance(content, list):
        return (content, "") if isinstance(content, str) else ("", "")
    parts = [{"text": part} if isinstance(part, str) else _object(part) for part in content]
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    refusals = [part["refusal"] for part in parts if isinstance(part.get("refusal"), str)]
    return "".join(texts), "".join(refusals)


def _asked(call: Mapping[str, Any]) -> Asked:
    function, id = _object(call.get("function")), call.get("id")
    name = function.get("name")
    return Asked(
        name=clean(name) if isinstance(name, str) else "",
        id="" if id is None else clean(str(id)),
        arguments=clean(_raw(function.get("arguments"))),
    )


def _raw(arguments: Any) -> str:
    """Arguments as text; some servers send the object itself."""
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return json.dumps(arguments, ensure_ascii=False)


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, Mapping):
        return None
    counts = {name: usage.get(name) for name in Usage.model_fields}
    return Usage(**{name: count for name, count in counts.items() if type(count) is int and count >= 0})


@dataclass
class _PieceOfCall:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class _Pieces:
    """A message that arrives in pieces. Ids and indices may be missing or come again with every piece."""

    def __init__(self) -> None:
        self.usage: Any = None
        self.finished = False
        self._content: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_PieceOfCall] = []
        self._by_index: dict[int, _PieceOfCall] = {}

    def add(self, chunk: Mapping[str, Any]) -> None:
        self.usage = chunk.get("usage") or self.usage
        choice = _first_choice(chunk)
        if choice is None:
            return
        self.finished = self.finished or bool(choice.get("finish_reason"))
        delta = _object(choice.get("delta"))
        content, refused = _words(delta.get("content"))
        refusal = delta.get("refusal")
        self._content.append(content)
        self._refusal.append(refusal if isinstance(refusal, str) else refused)
        calls = delta.get("tool_calls")
        if not calls and delta.get("function_call"):
            calls = [{"index": 0, "function": delta["function_call"]}]
        for piece in calls if isinstance(calls, list) else ():
            self._add_call(_object(piece))

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        function, id, index = _object(piece.get("function")), piece.get("id"), piece.get("index")
        id = "" if id is None else str(id)
        name = function.get("name")
        name = name if isinstance(name, str) else ""
        call = self._continued(id, name, index)
        if call is None:
            call = _PieceOfCall()
            self._calls.append(call)
        if type(index) is int:
            self._by_index[index] = call
        call.id = call.id or id
        if name != call.name:
            call.name += name
        call.arguments.append(_raw(function.get("arguments")))

    def _continued(self, id: str, name: str, index: Any) -> _PieceOfCall | None:
        """The call that a piece goes on with, if it does not begin one."""
        if type(index) is int:
            call = self._by_index.get(index)
            # Some servers number every call 0; another id under the same number is another call.
            return None if call is None or (id and call.id and id != call.id) else call
        if id:
            return next((call for call in self._calls if call.id == id), None)
        last = self._calls[-1] if self._calls else None
        return None if last is None or (name and last.name) else last

    def message(self) -> Mapping[str, Any]:
        return {
            "content": "".join(self._content),
            "refusal": "".join(self._refusal),
            "tool_calls": [
                {"id": call.id, "function": {"name": call.name, "arguments": "".join(call.arguments)}}
                for call in self._calls
            ],
        }


def clean(text: str) -> str:
    """The text with surrogate pairs joined and lone halves replaced: no JSON reader takes those."""
    return (
        text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    )


# ----------------------------------------------------------------------------------------- what goes wrong


def _is_final(status: int) -> bool:
    return status < 500 and status not in TRANSIENT


def _said(body: Any) -> str:
    """What an endpoint says about an error, wherever it says it."""
    if isinstance(body, Mapping):
        said = body.get("message") or body.get("detail") or body.get("error") or body
        return _said(said) if said is not body else json.dumps(body, ensure_ascii=False, default=str)
    if isinstance(body, Sequence) and not isinstance(body, str):
        return json.dumps(body, ensure_ascii=False, default=str)
    return str(body or "no reason was given").strip()


def _said_instead(error: Any) -> ModelFailure:
    """An error that came as an answer with status 200."""
    code = str(_object(error).get("code"))
    status = int(code) if re.fullmatch("[45][0-9][0-9]", code) else 500
    return ModelFailure(f"answered an error: {_said(error)}", final=_is_final(status))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that an endpoint asks to be left alone, from ``retry-after-ms``, or ``retry-after`` as a number or
    a date."""
    for header, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(header)
        if value is None:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            try:
                seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
            except ValueError:
                continue
        if math.isfinite(seconds) and seconds > 0:
            return min(seconds, MAX_RETRY_AFTER)
    return None
