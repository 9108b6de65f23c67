"""What a stream of LiteLLM's proxy has used, and answers that come after their calls: ``background`` of the responses
API.

Such a call is answered at once with an id and without usage; the id gives access to the answer once it is there.
So the call stays open under its id, and is settled when it is fetched. This module imports nothing of LiteLLM.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ..runtime.dataclass import replace
from .heard import bytes_heard
from .tokens import BYTES_PER_TOKEN, floor
from .usage import TokenUsage, UsageReader, documents, part_of

GONE: Final = "this process of the proxy no longer knows the call of this answer, so no one would be charged for it"
_GOES_ON: Final = frozenset({"queued", "in_progress"})
_TEXTS: Final = (str, list, tuple)
_SOUND: Final = "audio.delta"  # events of responses whose delta is base64


def is_later(answer: object) -> bool:
    """Whether an answer says that its call was in the background."""
    return part_of(answer, "background") is True


def goes_on(answer: object) -> bool:
    """Whether a provider still works at an answer."""
    return part_of(answer, "status") in _GOES_ON


def id_of(answer: object) -> str:
    """Return the id of an answer; empty if it has none."""
    found = part_of(answer, "id")
    return found if isinstance(found, str) else ""


def later_id(request: Mapping[str, Any], answer: object) -> str:
    """Return the id under which the answer to a request in the background can be fetched; empty for another one."""
    return id_of(answer) if request.get("background") or is_later(answer) else ""


class Stream:
    """The usage that a stream reports, and what came of it.

    Only the provider's own word lowers an estimate: a model thinks unseen, and goes on when its client has left. A
    stream that is not whole has used at least the floor of its request and what came.
    """

    def __init__(
        self,
        request: Mapping[str, Any],
        *,
        least: int | None = None,
        measure: Callable[[object], int] | None = None,
    ) -> None:
        """``least``: the floor of the request, for one that is not kept. ``measure`` returns the bytes of an event's
        text.
        """
        self._request, self._least = request, least
        self._measure = measure or heard_of
        self._reader = UsageReader()
        self._bytes: dict[str, int] = {}
        self._ended = False
        self.begun = False
        self.later_id = ""  # under which the answer can be fetched, whatever becomes of the stream

    def add(self, part: Any) -> None:
        """Take a part of the answer."""
        self.begun = True
        self.later_id = later_id(self._request, getattr(part, "response", None)) or self.later_id
        for document in documents(part):
            self._reader.add(document)
            self.hear("part", self._measure(document))
        # a client may leave after the last event, before the stream ends; the parts of chat completions do not say
        # which one is the last
        self._ended = self._reader.whole and part_of(part, "choices") is None

    def hear(self, way: str, size: int) -> None:
        """Count the bytes of text of a part without a usage. A text that comes in several ways counts once."""
        self.begun = True
        self._bytes[way] = self._bytes.get(way, 0) + size

    def end(self) -> None:
        """Note that no part is missing."""
        self._ended = True

    @property
    def whole(self) -> bool:
        """Whether the provider has reported all tokens of the call."""
        return self._ended and self._reader.usage is not None

    @property
    def usage(self) -> TokenUsage:
        """All tokens of the call; without the usage of all of it, what it has used at least."""
        if self.whole and (usage := self._reader.usage):
            return usage
        told = self._reader.so_far or TokenUsage()
        least = floor(self._request) if self._least is None else self._least
        unread = least - (told.input + told.cached + told.cache_write)
        unheard = -(-max(self._bytes.values(), default=0) // BYTES_PER_TOKEN) - (told.output + told.reasoning)
        return replace(told, input=told.input + max(0, unread), output=told.output + max(0, unheard))


def heard_of(document: object) -> int:
    """Return the bytes of text in an event of OpenAI's APIs, Anthropic's messages, or Gemini; all text of a part that
    is malformed.
    """
    if isinstance(document, _TEXTS):
        return bytes_heard(document)
    size = 0
    for choice in _each(part_of(document, "choices")):
        rest = choice if isinstance(choice, Mapping) else getattr(choice, "__dict__", {})
        size += bytes_heard(part_of(choice, "delta"), choice if isinstance(choice, _TEXTS) else {**rest, "delta": None})
    for candidate in _each(part_of(document, "candidates")):
        size += bytes_heard(candidate if isinstance(candidate, _TEXTS) else part_of(candidate, "content"))
    delta = part_of(document, "delta")
    if str(part_of(document, "type")).endswith(_SOUND):
        delta = {"data": delta}
    return size + bytes_heard(delta, part_of(document, "content_block"))


def _each(value: object) -> Sequence[object]:
    """Return what a list has; another value in a list."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
