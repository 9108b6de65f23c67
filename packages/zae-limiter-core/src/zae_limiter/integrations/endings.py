"""How a stream of a language model ends before its end, as clients of its API read it: as one that was too long.

| API | the last events |
|---|---|
| chat completions, completions | ``finish_reason: "length"`` in each choice, and the usage |
| Anthropic's messages | the stops of blocks, ``message_delta`` with ``stop_reason: "max_tokens"``, ``message_stop`` |
| responses | the open items as ``incomplete``, ``response.incomplete`` for ``max_output_tokens`` |

The field ``rate_limit`` of the event with the reason is the problem document of the refusal: libraries keep fields that
they do not know. Needs no library; what a program reads as objects gets objects of the same library.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from ..values.token_usage import TokenUsage
from .usage import part_of

RATE_LIMIT: Final = "rate_limit"
_CLASSES: Final = {  # of the libraries of OpenAI and Anthropic, by the type of the event
    "content_block_stop": "RawContentBlockStopEvent",
    "message_delta": "RawMessageDeltaEvent",
    "message_stop": "RawMessageStopEvent",
    "response.output_text.done": "ResponseTextDoneEvent",
    "response.content_part.done": "ResponseContentPartDoneEvent",
    "response.output_item.done": "ResponseOutputItemDoneEvent",
    "response.incomplete": "ResponseIncompleteEvent",
}
_OF_LITELLM: Final = {
    "ResponseTextDoneEvent": "OutputTextDoneEvent",
    "ResponseContentPartDoneEvent": "ContentPartDoneEvent",
    "ResponseOutputItemDoneEvent": "OutputItemDoneEvent",
}
_OF_CHUNK: Final = ("id", "object", "created", "model")
_MOST_PARTS: Final = 1000  # of an item


class Ending:
    """Knows what is open in a stream, by the events that were delivered. What it cannot read of one it leaves out."""

    def __init__(self) -> None:
        self.last: object = None
        self._api = "choices"
        self._choices: dict[int, bool] = {}  # whether each has a text of its own, in place of a delta
        self._blocks: list[int] = []
        self._response: object = None
        self._items: dict[int, dict[str, Any]] = {}
        self._added: set[int] = set()
        self._number = -1

    def add(self, document: object) -> None:
        """Note an event that is delivered."""
        self.last, self._api = document, _api_of(document) or self._api
        kind = part_of(document, "type")
        for choice in _list_of(document, "choices"):
            self._choices[_number_of(choice, "index")] = part_of(choice, "delta") is None
            if part_of(choice, "finish_reason"):
                self._choices.pop(_number_of(choice, "index"))
        if kind == "content_block_start":
            self._blocks.append(_number_of(document, "index"))
        elif kind == "content_block_stop" and _number_of(document, "index") in self._blocks:
            self._blocks.remove(_number_of(document, "index"))
        elif isinstance(kind, str) and kind.startswith("response."):
            self._add_of_response(kind, document)

    def documents(self, refused: object, usage: TokenUsage, why: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the events that end the stream in place of one that is not delivered."""
        match _api_of(refused) or self._api:
            case "response":
                return self._of_response(usage, why)
            case "messages":
                return self._of_messages(usage, why)
            case _:
                return [self._of_choices(refused, usage, why)]

    def _of_choices(self, refused: object, usage: TokenUsage, why: Mapping[str, Any]) -> dict[str, Any]:
        for choice in _list_of(refused, "choices"):
            self._choices.setdefault(_number_of(choice, "index"), part_of(choice, "delta") is None)
        read, written = usage.input + usage.cached + usage.cache_write, usage.output + usage.reasoning
        return {
            **{name: value for name in _OF_CHUNK if (value := part_of(refused, name)) is not None},
            "choices": [
                {"index": index, **({"text": ""} if text else {"delta": {}}), "finish_reason": "length"}
                for index, text in sorted(self._choices.items())
            ],
            "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": usage.total},
            RATE_LIMIT: why,
        }

    def _of_messages(self, usage: TokenUsage, why: Mapping[str, Any]) -> list[dict[str, Any]]:
        delta = {"stop_reason": "max_tokens", "stop_sequence": None}
        counted = {"output_tokens": usage.output + usage.reasoning}
        return [
            *({"type": "content_block_stop", "index": index} for index in self._blocks),
            {"type": "message_delta", "delta": delta, "usage": counted, RATE_LIMIT: why},
            {"type": "message_stop"},
        ]

    def _add_of_response(self, kind: str, event: object) -> None:
        self._number = _number_of(event, "sequence_number", self._number)
        if (response := part_of(event, "response")) is not None:
            self._response = response
        place, delta = _number_of(event, "output_index"), part_of(event, "delta")
        if kind in ("response.output_item.added", "response.output_item.done"):
            self._items[place] = _plain(part_of(event, "item"))
            (self._added.add if kind.endswith("added") else self._added.discard)(place)
        elif kind == "response.output_text.delta" and isinstance(delta, str):
            message = {"id": part_of(event, "item_id"), "type": "message", "role": "assistant", "content": []}
            content = _list_in(self._items.setdefault(place, {**message, "status": "in_progress"}), "content")
            number = _number_of(event, "content_index")
            while len(content) <= number < _MOST_PARTS:
                content.append({"type": "output_text", "text": "", "annotations": []})
            if number < len(content) and isinstance(part_of(content[number], "text"), str):
                content[number]["text"] += delta
        elif kind == "response.function_call_arguments.delta" and place in self._items and isinstance(delta, str):
            item = self._items[place]
            before = item.get("arguments")
            item["arguments"] = (before if isinstance(before, str) else "") + delta

    def _of_response(self, usage: TokenUsage, why: Mapping[str, Any]) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        for place, item in sorted(self._items.items()):
            if item.get("status") == "in_progress":
                item["status"] = "incomplete"
            if place in self._added:
                events += _ends_of_item(place, item)
        read, written = usage.input + usage.cached + usage.cache_write, usage.output + usage.reasoning
        response = {
            **_plain(self._response),
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
            "output": [item for _, item in sorted(self._items.items())],
            "usage": {
                "input_tokens": read,
                "input_tokens_details": {"cached_tokens": usage.cached},
                "output_tokens": written,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning},
                "total_tokens": usage.total,
            },
        }
        events.append({"type": "response.incomplete", "response": response, RATE_LIMIT: why})
        return [{**event, "sequence_number": self._number + n} for n, event in enumerate(events, start=1)]


def like(part: object, documents: list[dict[str, Any]]) -> Iterator[Any]:
    """Yield events in the form of a part of the stream: server-sent events, mappings, or objects of its library."""
    if isinstance(part, str | bytes):
        for text in _sent(documents):
            yield text if isinstance(part, str) else text.encode()
        return
    for document in documents:
        yield document if isinstance(part, Mapping) else _object(type(part), document)


def _sent(documents: list[dict[str, Any]]) -> Iterator[str]:
    for document in documents:
        name = f"event: {document['type']}\n" if "type" in document else ""
        yield f"{name}data: {json.dumps(document)}\n\n"
    if "choices" in documents[-1]:
        yield "data: [DONE]\n\n"


def _object(kind: Any, document: dict[str, Any]) -> Any:
    if "type" not in document:
        make = getattr(kind, "construct", None) if kind.__module__.startswith("openai.") else None
        return (make or kind)(**document)
    name, module = _CLASSES[document["type"]], kind.__module__
    if module.startswith("litellm."):
        return getattr(import_module(module), _OF_LITELLM.get(name, name)).model_construct(**document)
    package = module.rpartition(".")[0]
    prefix = "Beta" if package.endswith(".beta") else ""
    return getattr(import_module(package), prefix + name).construct(**document)


def _ends_of_item(place: int, item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    where = {"item_id": item.get("id"), "output_index": place}
    for number, part in enumerate(_list_of(item, "content")):
        here = {**where, "content_index": number}
        if part_of(part, "type") == "output_text":
            text = part_of(part, "text")
            yield {"type": "response.output_text.done", **here, "text": text, "logprobs": []}
            yield {"type": "response.content_part.done", **here, "part": part}
    yield {"type": "response.output_item.done", "output_index": place, "item": item}


def _api_of(document: object) -> str | None:
    """Return the API of an event; ``None`` if it does not say."""
    kind = part_of(document, "type")
    if isinstance(kind, str):
        return "response" if kind.startswith("response.") else "messages"
    return "choices" if _list_of(document, "choices") else None


def _list_of(holder: object, name: str) -> Sequence[Any]:
    """Return a list that an event has; an empty one where there is something else."""
    found = part_of(holder, name)
    return found if isinstance(found, list | tuple) else ()


def _list_in(item: dict[str, Any], name: str) -> list[Any]:
    """Return a list of an item, to add to it."""
    if not isinstance(item.get(name), list):
        item[name] = []
    found: list[Any] = item[name]
    return found


def _number_of(holder: object, name: str, default: int = 0) -> int:
    """Return the number of a place; the default where there is something else."""
    found = part_of(holder, name)
    return found if type(found) is int and found >= 0 else default


def _plain(value: Any) -> dict[str, Any]:
    """Return a copy of what a library has as an object; an empty one of something else."""
    dump = getattr(value, "model_dump", None)
    found = dump(mode="json", warnings=False) if callable(dump) else value
    try:
        return {**json.loads(json.dumps(found))} if isinstance(found, Mapping) else {}
    except (RecursionError, TypeError, ValueError):
        return {}
