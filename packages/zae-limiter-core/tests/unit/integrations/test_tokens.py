import json
from collections import deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from zae_limiter.integrations.tokens import estimate, floor
from zae_limiter.values.limits import MAX_TOKENS

PROMPT = [{"role": "user", "content": "x" * 41}]


def size(request: Mapping[str, Any]) -> int:
    return len(json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))


def tokens(request: Mapping[str, Any]) -> int:
    return -(-size(request) // 4)


@pytest.mark.parametrize(
    ("request_", "answers"),
    [
        ({"messages": PROMPT}, 1000),
        ({"messages": PROMPT, "max_tokens": 5}, 5),
        ({"messages": PROMPT, "max_tokens": 5, "max_completion_tokens": 7}, 7),
        ({"messages": PROMPT, "max_tokens": 5, "n": 3}, 15),
        ({"prompt": "x", "max_tokens": 5, "best_of": 20}, 100),
        ({"prompt": "x", "max_tokens": 5, "n": "50"}, 250),
        ({"prompt": "x", "max_tokens": "100000"}, 100_000),
        ({"prompt": "x", "options": {"num_predict": "1e5"}}, 100_000),
        ({"prompt": "x", "max_tokens": 5, "n": 30, "best_of": 20}, 150),
        ({"prompt": ["x", "y"], "max_tokens": 5, "best_of": 20}, 200),
        ({"prompt": [[50_000, 60_000], [70_000]], "max_tokens": 5}, 10),
        ({"prompt": [], "max_tokens": 5}, 5),
        ({"input": ["x" * 8, "x" * 8], "max_output_tokens": 0}, 0),
        ({"contents": [{"parts": [{"text": "x"}]}], "generationConfig": {"maxOutputTokens": 9000}}, 9000),
        ({"contents": [], "generationConfig": {"maxOutputTokens": 9, "candidateCount": 8}}, 8000),
        ({"prompt": "x", "options": {"num_predict": 0}}, 1000),
        ({"messages": [{"content": [{"type": "text", "text": "你好"}]}], "max_tokens": 0}, 0),
        ({"messages": [{"content": '\n"\\\ud83d\ude00'}], "max_tokens": 0}, 0),
    ],
)
def test_an_estimate_is_the_request_and_the_longest_answers(request_: dict[str, Any], answers: int) -> None:
    known = tokens(request_) if "prompt" not in request_ else None
    assert estimate(request_) - answers in ([known] if known else range(tokens(request_) + 1))


@pytest.mark.parametrize("number", [-1, -(10**9), "x", "-5", True, None, [], float("nan")])
def test_a_number_without_sense_counts_as_none(number: object) -> None:
    request = {"max_tokens": number, "n": number, "best_of": number}
    assert estimate(request) == 1000 + tokens(request)


@pytest.mark.parametrize("number", [10**40, 1e40, float("inf")])
def test_a_number_that_is_too_large_can_be_asked_for(number: float) -> None:
    assert estimate({"max_tokens": number}) == estimate({"n": number}) == estimate({"best_of": number}) == MAX_TOKENS


@pytest.mark.parametrize(
    ("prompt", "given"), [([5, 6, 7] * 100, 300), ([[500, 600], [700]] * 100, 300), ([[5, 6], [7]] * 100, 300)]
)
def test_a_prompt_that_is_tokens_counts_as_them(prompt: Any, given: int) -> None:
    marks = size({"prompt": [], "max_tokens": 0, "model": "m"})
    request = {"prompt": prompt, "max_tokens": 0, "model": "m"}
    assert given <= estimate(request) <= max(given + marks + size(request) // 9, floor(request))


def test_long_ids_of_tokens_count_as_the_floor() -> None:
    request = {"input": [100_000 + number for number in range(10_000)], "max_tokens": 0}
    assert estimate(request) == floor(request) == -(-size(request) // 5)


def nested(levels: int) -> Any:
    part: Any = TEXT
    for _ in range(levels):
        part = {"content": [part]}
    return part


def endless() -> Any:
    itself: list[Any] = []
    itself.append(itself)
    return itself


TEXT = "x" * 400_000


@pytest.mark.parametrize("part", [endless(), nested(5000), 10**5000, {("a",): "x"}], ids=range(4))
def test_what_json_cannot_have_is_more_than_anybody_has(part: Any) -> None:
    for name in ("messages", "prompt", "tools", "unheard_of"):
        assert estimate({name: part, "max_tokens": 1}) == floor({name: [part]}) == MAX_TOKENS


class Sent:
    """An object of a provider's library, like an answer that goes back as a message."""

    def model_dump(self, *, exclude_none: bool) -> dict[str, Any]:
        return {"role": "assistant", "content": TEXT} if exclude_none else {}


class Kind:
    """A type of an answer."""

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return {"description": TEXT}


@pytest.mark.parametrize(
    "request_",
    [
        {"messages": [{"content": [{"type": "document", "source": {"type": "text", "data": TEXT}}]}]},
        {"messages": [{"content": [{"type": "document", "source": {"type": "content", "content": [TEXT]}}]}]},
        {"messages": [{"content": [{"type": "document", "source": TEXT}]}]},
        {"messages": [{"content": [{"type": "file", "file": {"file_data": TEXT}}]}]},
        {"messages": [{"content": [{"type": "file", "file": {"file_data": f"data:text/plain;base64,{TEXT}"}}]}]},
        {"input": [{"type": "input_file", "file_data": TEXT}]},
        {"messages": [{"role": TEXT, "type": "message"}]},
        {"messages": [nested(30)]},
        {"messages": [{TEXT: ""}]},
        {"tools": [{"function": {"parameters": {"properties": {TEXT: {}}}}}]},
        {"response_format": {"json_schema": {"description": TEXT}}},
        {"prediction": {"type": "content", "content": TEXT}},
        {"contents": [{"parts": [{"text": TEXT}]}]},
        {"unheard_of": TEXT},
        {TEXT: 0},
        {"messages": deque([MappingProxyType({"content": TEXT})])},
        {"messages": [Sent()]},
        {"response_format": Kind},
        {"messages": [{"content": [{"image": {"source": {"bytes": TEXT.encode()}}}]}]},
    ],
)
def test_no_place_hides_a_text(request_: dict[str, Any]) -> None:
    assert 100_000 <= estimate({**request_, "max_tokens": 0}) <= 100_120


@pytest.mark.parametrize(
    ("request_", "least"),
    [
        ({"tools": [{"function": {"parameters": {"properties": {f"{i:032}": {} for i in range(10_000)}}}}]}, 80_000),
        ({"tools": [{"function": {"parameters": {"anyOf": [{"type": "null"}] * 100_000}}}]}, 300_000),
        ({"tools": [{"function": {"parameters": {"enum": [f"{i:04}" for i in range(10_000)]}}}]}, 15_000),
        ({"tools": [{"type": "function", "function": {"name": "f"}}] * 10_000}, 100_000),
        ({"messages": [{"role": "user", "content": "a"}] * 10_000}, 50_000),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}] * 10_000}]}, 50_000),
    ],
)
def test_many_small_parts_count_with_their_names_and_marks(request_: dict[str, Any], least: int) -> None:
    assert least <= estimate({**request_, "max_tokens": 0}) <= 2 * least + 100_000
