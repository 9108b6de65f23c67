"""What a stream of LiteLLM's proxy has used."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from .litellm_later import later_id
from .tokens import BYTES_PER_TOKEN, floor
from .usage import TokenUsage, UsageReader, documents, part_of

_TEXTS: Final = ("content", "reasoning_content", "refusal", "text", "thinking", "partial_json", "arguments", "name")


class Stream:
    """The usage that a stream reports, and what came of it.

    Only the provider's own word lowers an estimate: a model thinks unseen, and goes on when its client has left. A
    stream that is not whole has used at least the floor of its request and what came.
    """

    def __init__(self, request: Mapping[str, Any], *, least: int | None = None) -> None:
        """``least``: the floor of the request, for one that is not kept."""
        self._request, self._least = request, least
        self._reader = UsageReader()
        self._bytes = 0
        self._ended = False
        self.begun = False
        self.later_id = ""  # under which the answer can be fetched, whatever becomes of the stream

    def add(self, part: Any) -> None:
        """Take a part of the answer."""
        self.begun = True
        self.later_id = later_id(self._request, getattr(part, "response", None)) or self.later_id
        for document in documents(part):
            self._reader.add(document)
            self._bytes += sum(len(text.encode(errors="replace")) for text in _texts(document))
        # a client may leave after the last event, before the stream ends; the parts of chat completions do not say
        # which one is the last
        self._ended = self._reader.whole and part_of(part, "choices") is None

    def end(self) -> None:
        """Note that no part is missing."""
        self._ended = True

    @property
    def whole(self) -> bool:
        """Whether the provider has told all tokens of the call."""
        return self._ended and self._reader.usage is not None

    @property
    def usage(self) -> TokenUsage:
        """All tokens of the call; without the usage of all of it, what it has used at least."""
        if self.whole and (usage := self._reader.usage):
            return usage
        told = self._reader.so_far or TokenUsage()
        least = floor(self._request) if self._least is None else self._least
        unread = least - (told.input + told.cached + told.cache_write)
        unheard = -(-self._bytes // BYTES_PER_TOKEN) - (told.output + told.reasoning)
        return replace(told, input=told.input + max(0, unread), output=told.output + max(0, unheard))


def _texts(document: object) -> Iterator[str]:
    """Yield the texts of an event: of OpenAI's completions, chats and responses, and of Anthropic's messages."""
    choices = part_of(document, "choices")
    for choice in choices if isinstance(choices, Sequence) else ():
        yield from _texts_of(part_of(choice, "delta"))
        yield from _texts_of(choice)
    delta = part_of(document, "delta")
    yield from (delta,) if isinstance(delta, str) else _texts_of(delta)


def _texts_of(delta: object) -> Iterator[str]:
    calls = part_of(delta, "tool_calls")
    functions = [part_of(call, "function") for call in calls] if isinstance(calls, Sequence) else []
    for holder in (delta, part_of(delta, "function_call"), *functions):
        yield from (text for name in _TEXTS if isinstance(text := part_of(holder, name), str))
