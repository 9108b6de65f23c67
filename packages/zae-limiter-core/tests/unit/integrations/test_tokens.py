from typing import Any

import pytest

from zae_limiter.integrations.tokens import estimate
from zae_limiter.values.limits import MAX_TOKENS

PROMPT = [{"role": "user", "content": "x" * 41}]


@pytest.mark.parametrize(
    ("request_", "tokens"),
    [
        ({}, 1000),
        ({"messages": PROMPT}, 1011),
        ({"messages": PROMPT, "max_tokens": 5}, 16),
        ({"messages": PROMPT, "max_tokens": 5, "max_completion_tokens": 7}, 18),
        ({"messages": PROMPT, "max_tokens": 5, "n": 3}, 26),
        ({"input": ["x" * 8, "x" * 8], "max_output_tokens": 0}, 4),
        ({"prompt": [5, 6, 7], "max_tokens": 0}, 3),
        ({"input": [[5, 6], [7], "x" * 8], "max_tokens": 0}, 5),
        ({"system": "x" * 4, "tools": [{"name": "x" * 4}], "max_tokens": 0}, 2),
        ({"messages": [{"content": [{"type": "text", "text": "xxxx"}]}], "max_tokens": 0}, 1),
        ({"messages": [{"content": [{"type": "image_url", "image_url": {"url": "x" * 4000}}]}], "max_tokens": 0}, 0),
    ],
)
def test_an_estimate_is_the_text_and_the_longest_answer(request_: dict[str, Any], tokens: int) -> None:
    assert estimate(request_) == tokens


@pytest.mark.parametrize("number", [-1, -(10**9), "5", True, None, [], float("nan")])
def test_a_number_without_sense_counts_as_none(number: object) -> None:
    assert estimate({"max_tokens": number, "n": number}) == 1000


@pytest.mark.parametrize("number", [10**40, 1e40, float("inf")])
def test_a_number_that_is_too_large_can_be_asked_for(number: float) -> None:
    assert estimate({"max_tokens": number}) == estimate({"n": number}) == MAX_TOKENS


def test_a_request_nested_without_end_is_one_that_nobody_can_have() -> None:
    nested: list[Any] = []
    nested.append(nested)
    assert estimate({"messages": nested, "max_tokens": 1}) == MAX_TOKENS


TEXT = "x" * 400_000


def deep(levels: int) -> Any:
    part: Any = TEXT
    for _ in range(levels):
        part = {"content": [part]}
    return part


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
        {"messages": [deep(30)]},
        {"messages": [deep(5000)]},
        {"messages": [{TEXT: ""}]},
        {"tools": [{"function": {"parameters": {"properties": {TEXT: {}}}}}]},
        {"response_format": {"json_schema": {"description": TEXT}}},
        {"prediction": {"type": "content", "content": TEXT}},
    ],
)
def test_no_place_hides_a_text(request_: dict[str, Any]) -> None:
    assert 100_000 <= estimate({**request_, "max_tokens": 0}) <= 100_010


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_audio", "input_audio": {"data": TEXT, "format": "wav"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": TEXT}},
        {"type": "file", "file": {"file_data": f"data:audio/wav;base64,{TEXT}"}},
    ],
)
def test_images_and_sound_count_as_nothing(part: dict[str, Any]) -> None:
    assert estimate({"messages": [{"role": "user", "content": [part]}], "max_tokens": 0}) == 0
