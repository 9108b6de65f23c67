"""The tokens of a call of a language model: an estimate before it, the provider's count after it.

For requests and answers of the APIs of OpenAI and Anthropic, as mappings or as objects. Needs no library.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ..values.limits import MAX_TOKENS

CHARACTERS_PER_TOKEN: Final = 4
MOST_PARTS: Final = 1_000_000
LONGEST_MARK: Final = 32  # of what says what a part is: "type", "role", the names of fields
_MOST: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_TEXTS: Final = ("messages", "prompt", "suffix", "input", "system", "instructions", "prediction", "documents", "query")
_SCHEMAS: Final = ("tools", "functions", "response_format", "text", "output_format")  # prompts have these, too
_MEDIA: Final = ("image/", "audio/", "video/")
_DATA: Final = "data:"
_COUNTS: Final = (
    ("total_tokens",),
    ("prompt_tokens", "input_tokens"),
    ("completion_tokens", "output_tokens"),
    ("cache_creation_input_tokens",),
)


def estimate(request: Mapping[str, Any], *, answer: int = 1000) -> int:
    """Return the most tokens that a call is likely to use: its text, four characters to a token, and the longest
    answer.

    Prompts that are tokens already count as such, images and sound as nothing, other files by their size, like text.
    ``answer`` is the longest answer if the request names none.
    """
    named = [number for name in _MOST if (number := _number(request.get(name))) is not None]
    answers = _number(request.get("n")) or 1
    characters = sum(_characters(request[name]) for name in _TEXTS + _SCHEMAS if name in request)
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

        For Anthropic this leaves out what was read from the cache of prompts, as its limits do.
        """
        total, *parts = self._counts
        return total or sum(parts) or None


def _number(value: object) -> int | None:
    """Return a count as JSON has it: a large one may be a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        return None
    return int(min(value, MAX_TOKENS))


def _get(holder: object, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _characters(given: object) -> int:
    """Count the characters of all texts at any depth, except those of images and sound; a number counts as a token.

    A request of more than ``MOST_PARTS`` parts gets a count that no limit admits.
    """
    characters, left, parts = 0, [given], 0
    while left:
        value, parts = left.pop(), parts + 1
        if parts > MOST_PARTS:
            return MAX_TOKENS * CHARACTERS_PER_TOKEN
        if isinstance(value, str):
            characters += len(value)
        elif isinstance(value, int):
            characters += CHARACTERS_PER_TOKEN
        elif isinstance(value, Mapping):
            characters += sum(len(name) for name in value if isinstance(name, str) and len(name) > LONGEST_MARK)
            left += [part for name, part in value.items() if not _is_mark(name, part) and not _is_media(name, part)]
        elif isinstance(value, Sequence) and not isinstance(value, bytes):
            left += value
    return characters


def _is_mark(name: object, part: object) -> bool:
    """Return whether a part of a message says what another part is."""
    return name in {"type", "role"} and isinstance(part, str) and len(part) <= LONGEST_MARK


def _is_media(name: object, part: object) -> bool:
    """Return whether a part is an image or sound: by its place, or by the kind of data that it names."""
    if name in {"image_url", "input_audio"}:
        return True
    if name == "source" and isinstance(part, Mapping):
        return part.get("type") == "base64" and str(part.get("media_type")).startswith(_MEDIA)
    return name == "file_data" and isinstance(part, str) and part.removeprefix(_DATA).startswith(_MEDIA)


def _events(answer: object) -> Iterator[object]:
    """Yield the answer itself, or the document of each ``data`` line if it is server-sent events."""
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
