"""Read the usage that a provider reports for a call of a language model, as a ``TokenUsage``. Needs no library.

Providers count some tokens twice: OpenAI's ``prompt_tokens`` contain those that came from its cache, Anthropic's
``input_tokens`` do not; OpenAI's ``completion_tokens`` contain the reasoning, Gemini's ``candidatesTokenCount`` does
not. ``_SHAPES`` says it for each of them, and nothing else here knows a provider. A shape is recognized by the names of
its counts, so an answer may be an object of the provider's library, a mapping, JSON, or an event of a stream.

An answer without usage is ``None``, or ``UsageMissing`` for a caller that cannot do without. So is an answer with half
of it, or with a count that is not a whole number: nothing is guessed. A total alone is input, because those who give no
other count have no output (embeddings, rerankers).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ..exceptions import UsageMissing
from ..runtime.dataclass import dataclass
from ..values.limits import MAX_TOKENS
from ..values.token_usage import TokenUsage
from .tokens import number_of

__all__ = ["TokenUsage", "UsageMissing", "UsageReader", "read_usage", "require_usage"]

LONGEST_COUNT: Final = 16  # digits of a count in a header field
_DATA: Final = "data:"
_HOLDERS: Final = ("usage", "meta", "usage_metadata", "usageMetadata", "amazon-bedrock-invocationMetrics")
_BEGINNING: Final = "message"  # Anthropic's first event: its output is still to come
_AROUND: Final = ("response", "metadata", "x_groq", "delta")  # of the last event: OpenAI's, Bedrock's, Groq's, Cohere's
_INSIDE: Final = ("usage", "meta")
_FIELD: Final = "x-amzn-"  # header fields are text
_ENDS: Final = ("finishReason", "finish_reason")  # of each answer, at its end


@dataclass(frozen=True, slots=True)
class _Shape:
    """The names of a provider's counts; a dot leads into a part.

    ``inside``: counts that ``prompt`` or ``answer`` contain. ``beside``: counts that they do not contain.
    ``cached``, ``written`` and ``reasoning`` are read from the first name that is there. What a ``total`` has
    beyond the prompt and the answer is reasoning, which some servers leave out of the answer.
    """

    prompt: tuple[str, ...]
    answer: tuple[str, ...]
    total: tuple[str, ...] = ()
    cached_inside: tuple[str, ...] = ()
    cached_beside: tuple[str, ...] = ()
    written_inside: tuple[str, ...] = ()
    written_beside: tuple[str, ...] = ()
    reasoning_inside: tuple[str, ...] = ()
    reasoning_beside: tuple[str, ...] = ()
    prompt_beside: tuple[str, ...] = ()
    whole_by: tuple[str, ...] = ()  # one must be there where the answer's is not: embeddings, a prompt that was blocked

    @property
    def names(self) -> Iterator[str]:
        return (name for each in self.__slots__ for name in getattr(self, each))


_SHAPES: Final = (
    _Shape(  # OpenAI's chat completions and embeddings, of any server of their API; LiteLLM, for all providers
        prompt=("prompt_tokens",),
        answer=("completion_tokens",),
        total=("total_tokens",),
        cached_inside=("prompt_tokens_details.cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens"),
        written_inside=(
            "prompt_tokens_details.cache_creation_tokens",
            "prompt_tokens_details.cache_write_tokens",
            "cache_creation_input_tokens",
        ),
        reasoning_inside=("completion_tokens_details.reasoning_tokens",),
        whole_by=("total_tokens",),
    ),
    _Shape(  # OpenAI's responses and LangChain contain what Anthropic has beside
        prompt=("input_tokens",),
        answer=("output_tokens",),
        cached_inside=(
            "input_tokens_details.cached_tokens",
            "input_token_details.cached_tokens",  # Realtime
            "input_token_details.cache_read",
        ),
        cached_beside=("cache_read_input_tokens",),
        written_inside=("input_tokens_details.cache_write_tokens", "input_token_details.cache_creation"),
        written_beside=("cache_creation_input_tokens",),
        reasoning_inside=(
            "output_tokens_details.reasoning_tokens",
            "output_tokens_details.thinking_tokens",
            "output_token_details.reasoning",
        ),
    ),
    _Shape(  # Bedrock: Converse
        prompt=("inputTokens",),
        answer=("outputTokens",),
        cached_beside=("cacheReadInputTokens",),
        written_beside=("cacheWriteInputTokens",),
    ),
    _Shape(  # Bedrock: the last event of InvokeModelWithResponseStream
        prompt=("inputTokenCount",),
        answer=("outputTokenCount",),
        cached_beside=("cacheReadInputTokenCount",),
        written_beside=("cacheWriteInputTokenCount",),
    ),
    _Shape(  # Bedrock: header fields of InvokeModel
        prompt=("x-amzn-bedrock-input-token-count",),
        answer=("x-amzn-bedrock-output-token-count",),
        cached_beside=("x-amzn-bedrock-cache-read-input-token-count",),
        written_beside=("x-amzn-bedrock-cache-write-input-token-count",),
        whole_by=("x-amzn-bedrock-input-token-count",),  # embeddings have no other
    ),
    _Shape(  # Gemini, in the spelling of its JSON and of its libraries
        prompt=("promptTokenCount", "prompt_token_count"),
        answer=("candidatesTokenCount", "candidates_token_count", "responseTokenCount", "response_token_count"),
        cached_inside=("cachedContentTokenCount", "cached_content_token_count"),
        reasoning_beside=("thoughtsTokenCount", "thoughts_token_count"),
        prompt_beside=("toolUsePromptTokenCount", "tool_use_prompt_token_count"),
        whole_by=("totalTokenCount", "total_token_count"),
    ),
    _Shape(  # Cohere: what it charges, which leaves out its own preamble and documents; else what the model has read
        prompt=("billed_units.input_tokens", "tokens.input_tokens"),
        answer=("billed_units.output_tokens", "tokens.output_tokens"),
        whole_by=("billed_units.input_tokens",),  # embeddings
    ),
    _Shape(  # Ollama's own API, in its last line
        prompt=("prompt_eval_count",),
        answer=("eval_count",),
        whole_by=("prompt_eval_count",),  # embeddings
    ),
    _Shape(prompt=("total_tokens",), answer=(), whole_by=("total_tokens",)),  # Voyage, Jina
)
_NAMES: Final = tuple(dict.fromkeys(name for shape in _SHAPES for name in shape.names))
_HEADS: Final = frozenset(name.partition(".")[0] for name in _NAMES)


def read_usage(answer: object) -> TokenUsage | None:
    """Return the usage that an answer reports; ``None`` without one.

    ``answer`` is what a call returns, its usage alone, a mapping, JSON, lines of JSON, or server-sent events as text or
    bytes: of OpenAI, Anthropic, Bedrock, Gemini, Groq, Cohere, Ollama, LangChain or LiteLLM. ``UsageReader`` reads
    streams.
    """
    reader = UsageReader()
    reader.add(answer)
    return reader.usage


def require_usage(answer: object) -> TokenUsage:
    """Return the usage that an answer reports. Raises ``UsageMissing`` without one."""
    usage = read_usage(answer)
    if usage is None:
        raise UsageMissing
    return usage


class UsageReader:
    """Reads one call: ``add`` its answer, or each event of its stream. Make one for each call.

    It takes the largest of each count, because an event has the counts until then. A stream that breaks off has no
    ``usage``; ``so_far`` has what its events have said.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._unreadable = self._ended = False
        self.whole = False  # an event that has only the beginning of an answer does not count

    def add(self, answer: object) -> None:
        """Take what an answer or an event says; most events say nothing."""
        for document in documents(answer):
            self._add(document)

    @property
    def usage(self) -> TokenUsage | None:
        """All tokens of the call; ``None`` if the provider has not said, or only the beginning."""
        return self.so_far if self.whole else None

    @property
    def so_far(self) -> TokenUsage | None:
        """The tokens that the events have reported so far; ``None`` without any."""
        if self._unreadable:
            return None
        usage = next((_tokens(shape, self._counts) for shape in _SHAPES if _has(self._counts, shape.prompt)), None)
        return usage if usage is not None and usage.total else None  # some servers say 0 and mean nothing

    def _add(self, document: object) -> None:
        answers = _answers(document)
        self._ended = self._ended or any(part_of(answer, name) for answer in answers for name in _ENDS)
        around = (part_of(part_of(document, name), inside) for name in _AROUND for inside in _INSIDE)
        taken = [self._take(usage) for usage in (*_usages(document), *around)]
        if any(taken):
            self.whole = self.whole or self._ended or not answers
        self._take(part_of(part_of(document, _BEGINNING), "usage"))

    def _take(self, usage: object) -> bool:
        """Take the counts of a usage, and return whether it has any."""
        if usage is None or (isinstance(usage, Mapping) and _HEADS.isdisjoint(usage)):  # as in most events
            return False
        found = {name: value for name in _NAMES if (value := _at(usage, name)) is not None}
        for name, value in found.items():
            self._count(name, value)
        return bool(found)

    def _count(self, name: str, value: Any) -> None:
        if name.startswith(_FIELD) and isinstance(value, str) and len(value) <= LONGEST_COUNT:
            value = int(value) if value.isascii() and value.isdigit() else value
        number = number_of(value)
        if number is None or (isinstance(value, float) and not value.is_integer()):
            self._unreadable = True
        else:
            self._counts[name] = max(self._counts.get(name, 0), number)


def _tokens(shape: _Shape, counts: Mapping[str, int]) -> TokenUsage | None:
    """Return the counts without what is in two of them."""
    if not _has(counts, shape.answer + shape.whole_by):
        return None
    prompt, total = _first(counts, shape.prompt), _first(counts, shape.total)
    answer = _first(counts, shape.answer) if _has(counts, shape.answer) else max(0, total - prompt)
    cached = min(prompt, _first(counts, shape.cached_inside)) if not _has(counts, shape.cached_beside) else 0
    written = min(prompt - cached, _first(counts, shape.written_inside))
    left_out = max(0, total - prompt - answer)
    thought = min(answer, max(0, _first(counts, shape.reasoning_inside) - left_out))
    return TokenUsage(
        input=_most(prompt - cached - written + _first(counts, shape.prompt_beside)),
        cached=_most(cached + _first(counts, shape.cached_beside)),
        cache_write=_most(written + _first(counts, shape.written_beside)),
        output=answer - thought,
        reasoning=_most(thought + left_out + _first(counts, shape.reasoning_beside)),
    )


def _has(counts: Mapping[str, int], names: tuple[str, ...]) -> bool:
    return any(name in counts for name in names)


def _first(counts: Mapping[str, int], names: tuple[str, ...]) -> int:
    return next((counts[name] for name in names if name in counts), 0)


def _most(amount: int) -> int:
    return min(amount, MAX_TOKENS)


def _usages(holder: object) -> Iterator[object]:
    """Yield what may have counts: the usage of an answer, its header fields, or the holder itself."""
    yield holder
    for name in _HOLDERS:
        usage = part_of(holder, name)
        if usage is not None:
            yield usage
    headers = part_of(part_of(holder, "ResponseMetadata"), "HTTPHeaders")
    if headers is not None:
        yield headers


def _answers(document: object) -> list[object]:
    """Return the answers that say when they end: those of Gemini, and their parts in a stream of OpenAI's API."""
    found = [part_of(document, "candidates"), part_of(document, "choices")]
    candidates, choices = (each if isinstance(each, Sequence) else () for each in found)
    return [*candidates, *(choice for choice in choices if part_of(choice, "delta") is not None)]


def _at(holder: object, path: str) -> object:
    for name in path.split("."):
        holder = part_of(holder, name)
    return holder


def part_of(holder: object, name: str) -> Any:
    if holder is None or isinstance(holder, str | bytes | int | float | list | tuple):
        return None
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def documents(answer: object) -> Iterator[object]:
    """Yield the answer itself; of text its JSON, or the JSON of each line: of ``data`` lines alone if there are any."""
    part = part_of(part_of(answer, "chunk"), "bytes")  # Bedrock's streams hold JSON
    answer = answer if part is None else part
    if not isinstance(answer, str | bytes | bytearray):
        yield answer
        return
    if (whole := parsed(answer)) is not None:
        yield whole
        return
    lines = lines_of(answer)
    events = [line.removeprefix(_DATA) for line in lines if line.startswith(_DATA)]
    for line in events or lines:
        if (found := parsed(line)) is not None:
            yield found


def lines_of(text: str | bytes | bytearray) -> list[str]:
    """Return the lines of server-sent events: a text within one may have any other separator."""
    text = text if isinstance(text, str) else text.decode(errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def parsed(text: str | bytes | bytearray) -> Any:
    """Return what a text of JSON has; ``None`` for another text."""
    try:
        return json.loads(text if isinstance(text, str) else text.decode(errors="replace"))
    except (ValueError, RecursionError):  # a document in two parts, or a mark like [DONE]
        return None
