"""Estimate the tokens of a call of a language model before it is made; ``usage`` reads the actual ones afterwards.

A request is measured as JSON, not searched for its texts. What a model reads (names of properties, types, roles, keys
of a schema) differs by provider and by release, so any list of places that hold text leaves some out, and a client puts
its prompt there. The standard library's encoder measures a megabyte in milliseconds, and forgets no place.

For requests of the APIs of OpenAI and Anthropic, and those alike. Needs no library.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from ..values.limits import MAX_TOKENS
from .media import media_bytes

BYTES_PER_TOKEN: Final = 4  # the marks around a message, a part or a tool are its overhead
MOST_BYTES_PER_TOKEN: Final = 5
_MOST: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_ANSWERS: Final = ("n", "best_of")
_CONFIGS: Final = ("generationConfig", "generation_config", "inferenceConfig", "options")  # Gemini, Bedrock, Ollama
_MOST_INSIDE: Final = ("maxOutputTokens", "max_output_tokens", "maxTokens", "num_predict")
_ANSWERS_INSIDE: Final = ("candidateCount", "candidate_count")
_LONGEST_NUMBER: Final = 32  # characters
_PROMPTS: Final = ("prompt", "input")


def estimate(request: Mapping[str, Any], *, answer: int = 1000) -> int:
    """Return the most tokens that a call is likely to use: its request as JSON, four bytes to a token, and the longest
    answer, as often as it asks for one.

    Prompts that are tokens already count as such, but never less than the ``floor``; images, sound and video as
    nothing, if their data are really that; all else by its size. ``answer`` is the longest answer if the request names
    none. A request without end gets a count that no limit admits.
    """
    size = _size_of(request)
    if size is None:
        return MAX_TOKENS
    prompts = [request[name] for name in _PROMPTS if isinstance(request.get(name), list | tuple)]
    given = [each for prompt in prompts for each in (prompt, *prompt) if _is_tokens(each)]
    tokens, in_bytes = sum(map(len, given)), sum(map(_bytes_of, given))
    read = max(tokens - (in_bytes - size) // BYTES_PER_TOKEN, -(-size // MOST_BYTES_PER_TOKEN))
    return min(read + _longest(request, answer) * _answers(request), MAX_TOKENS)


def estimate_prompt(request: Mapping[str, Any]) -> int:
    """Return what ``estimate`` counts of a request alone, without its answer."""
    left_out = (*_MOST, *_CONFIGS)
    return estimate({name: value for name, value in request.items() if name not in left_out}, answer=0)


def floor(request: Mapping[str, Any]) -> int:
    """Return the least tokens that a request counts: a fifth of its bytes as JSON, without its media."""
    size = _size_of(request)
    return MAX_TOKENS if size is None else -(-size // MOST_BYTES_PER_TOKEN)


def number_of(value: object) -> int | None:
    """Return a count as JSON has it: a large one may be a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        return None
    return int(min(value, MAX_TOKENS))


def _size_of(request: Mapping[str, Any]) -> int | None:
    """Return the bytes of a request as compact JSON, without its media; ``None`` for one without end."""
    try:
        return _bytes_of(request) - media_bytes(request)
    except (RecursionError, TypeError, ValueError):  # it holds itself, is nested too deep, or has what JSON has not
        return None


def _bytes_of(value: object) -> int:
    text = _JSON.encode(value)
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _is_tokens(prompt: object) -> bool:
    return isinstance(prompt, list | tuple) and set(map(type, prompt)) == {int}


def _longest(request: Mapping[str, Any], answer: int) -> int:
    """Return the longest answer. Names in places that only some providers read make it longer, never shorter."""
    named = [number for name in _MOST if (number := number_of(request.get(name))) is not None]
    texts = [_asked(request.get(name)) or 0 for name in _MOST]
    return max([max(named, default=answer), *texts, *_configured(request, _MOST_INSIDE)])


def _answers(request: Mapping[str, Any]) -> int:
    """Return how many answers the provider makes: as many to each of several prompts."""
    prompt = request.get("prompt")
    prompts = len(prompt) if isinstance(prompt, list | tuple) and not _is_tokens(prompt) else 1
    each = [_asked(request.get(name)) or 1 for name in _ANSWERS]
    return max(prompts, 1) * max([*each, *_configured(request, _ANSWERS_INSIDE)])


def _configured(request: Mapping[str, Any], names: tuple[str, ...]) -> list[int]:
    parts = [part for name in _CONFIGS if isinstance(part := request.get(name), Mapping)]
    return [number for part in parts for name in names if (number := _asked(part.get(name))) is not None]


def _asked(value: object) -> int | None:
    """Return a number that a request asks for. Some servers read texts, too."""
    try:
        return number_of(float(value) if isinstance(value, str) and len(value) <= _LONGEST_NUMBER else value)
    except ValueError:
        return None


def _plain(value: object) -> object:
    """Return what a request has for an object of a provider's library: an answer that is sent back, a type of one."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes | bytearray):
        return "x" * len(value)
    if isinstance(value, Collection):
        return list(value)
    if isinstance(value, type):
        schema = getattr(value, "model_json_schema", None)
        return schema() if callable(schema) else None
    dump = getattr(value, "model_dump", None)
    return dump(exclude_none=True) if callable(dump) else None


_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain)
