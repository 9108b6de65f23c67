"""Estimate the tokens of a call of a language model, before it: ``usage`` reads what it used.

For requests of the APIs of OpenAI and Anthropic. Needs no library.
"""

from collections.abc import Mapping, Sequence
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


def estimate(request: Mapping[str, Any], *, answer: int = 1000) -> int:
    """Return the most tokens that a call is likely to use: its text, four characters to a token, and the longest
    answer.

    Prompts that are tokens already count as such, images and sound as nothing, other files by their size, like text.
    ``answer`` is the longest answer if the request names none.
    """
    named = [number for name in _MOST if (number := number_of(request.get(name))) is not None]
    answers = number_of(request.get("n")) or 1
    characters = sum(_characters(request[name]) for name in _TEXTS + _SCHEMAS if name in request)
    return min(-(-characters // CHARACTERS_PER_TOKEN) + max(named, default=answer) * answers, MAX_TOKENS)


def number_of(value: object) -> int | None:
    """Return a count as JSON has it: a large one may be a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        return None
    return int(min(value, MAX_TOKENS))


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
