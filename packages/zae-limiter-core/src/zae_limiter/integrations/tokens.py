"""The tokens of a call of a language model: an estimate before it, what its provider counted after it.

For requests and answers of the APIs of OpenAI and Anthropic, as mappings or as objects. Needs no library.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ..limits import MAX_TOKENS

CHARACTERS_PER_TOKEN: Final = 4
_MOST: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_TEXTS: Final = ("messages", "prompt", "input", "system", "instructions", "tools", "functions")
_DATA: Final = "data:"
_COUNTS: Final = (
    ("total_tokens",),
    ("prompt_tokens", "input_tokens"),
    ("completion_tokens", "output_tokens"),
    ("cache_creation_input_tokens",),
)


def estimate(request: Mapping[str, Any], *, answer: int = 1000) -> int:
    """The most tokens that a call is likely to use: its text, four characters to a token, and the longest answer.

    Prompts that are tokens already count as such, images and sound as nothing. ``answer`` is the longest answer if the
    request names none.
    """
    named = [number for name in _MOST if (number := _number(request.get(name))) is not None]
    answers = _number(request.get("n")) or 1
    characters = sum(_characters(request[name]) for name in _TEXTS if name in request)
    return min(-(-characters // CHARACTERS_PER_TOKEN) + max(named, default=answer) * answers, MAX_TOKENS)


class Usage:
    """What a provider says that a call used: ``add`` the answer, or each event of a stream."""

    def __init__(self) -> None:
        self._counts = [0] * len(_COUNTS)
        self.whole = False  # an event of Anthropic that has only the beginning of a message does not count

    def add(self, answer: object) -> None:
        """Take the largest of each count: an event of a stream has the counts until then."""
        for event in _events(answer):
            for name, holder in (
                ("", event),
                ("message", _get(event, "message")),
                ("response", _get(event, "response")),
            ):
                usage = _get(holder, "usage")
                self.whole = self.whole or (usage is not None and name != "message")
                for place, names in enumerate(_COUNTS):
                    for count in names:
                        self._counts[place] = max(self._counts[place], _number(_get(usage, count)) or 0)

    @property
    def tokens(self) -> int | None:
        """All tokens of the call; ``None`` if the provider has not said.

        For Anthropic without what was read from the cache of prompts, which its limits leave out, too.
        """
        total, *parts = self._counts
        return total or sum(parts) or None


def _number(value: object) -> int | None:
    """A count as JSON has it: a large one may be a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        return None
    return int(min(value, MAX_TOKENS))


def _get(holder: object, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _characters(value: object, depth: int = 20) -> int:
    """The characters of all texts in messages, without those of images and sound; of a number as of a token."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, int):
        return CHARACTERS_PER_TOKEN
    if not depth:
        return 0
    if isinstance(value, Mapping):
        return sum(_characters(part, depth - 1) for name, part in value.items() if not _is_media(name))
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return sum(_characters(part, depth - 1) for part in value)
    return 0


def _is_media(name: object) -> bool:
    return name in {"image_url", "input_audio", "file", "source", "type", "role"}


def _events(answer: object) -> Iterator[object]:
    """The answer itself; of server-sent events the document of each ``data`` line."""
    if isinstance(answer, bytes):
        answer = answer.decode(errors="replace")
    if not isinstance(answer, str):
        yield answer
        return
    for line in answer.splitlines():
        text = line.removeprefix(_DATA).strip()
        if line.startswith(_DATA) and '"usage"' in text:
            try:
                yield json.loads(text)
            except ValueError:  # a document in two parts, or a mark like [DONE]
                continue
