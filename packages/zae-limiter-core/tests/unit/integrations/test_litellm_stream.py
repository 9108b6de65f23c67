"""What a stream that a client leaves has used, without LiteLLM."""

from types import SimpleNamespace
from typing import Any

import pytest

from zae_limiter import TokenUsage
from zae_limiter.integrations.litellm_stream import Stream
from zae_limiter.integrations.tokens import floor

REQUEST: Any = {"model": "m", "tools": [{f"{i:032}": {} for i in range(1000)}], "max_tokens": 1}
TEXT, DATA = "x" * 400, "iVBORw0K" * 1000
SSE = b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"type":"text_delta","text":"%s"}}\n\n'
EVENTS = {
    "chat": {"choices": [{"index": 0, "delta": {"role": "assistant", "content": TEXT}}]},
    "thinking": {"choices": [{"index": 0, "delta": {"reasoning_content": TEXT}}]},
    "tool": {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": TEXT}}]}}]},
    "function": {"choices": [{"delta": {"function_call": {"arguments": TEXT}}}]},
    "two answers": {"choices": [{"delta": {"content": TEXT[:200]}}, {"delta": {"content": TEXT[200:]}}]},
    "completion": {"choices": [{"index": 0, "text": TEXT}]},
    "response": {"type": "response.output_text.delta", "delta": TEXT},
    "message": SSE % TEXT.encode(),
    "message of a mapping": {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": TEXT}},
    "transcript": {"choices": [{"delta": {"audio": {"id": "a", "data": DATA, "transcript": TEXT}}}]},
    "blocks": {
        "choices": [{"delta": {"thinking_blocks": [{"type": "thinking", "thinking": TEXT, "signature": DATA}]}}]
    },
    "thinking, told twice": {
        "choices": [{"delta": {"reasoning_content": TEXT, "thinking_blocks": [{"type": "thinking", "thinking": TEXT}]}}]
    },
    "an image": {
        "choices": [{"delta": {"content": TEXT, "images": [{"image_url": {"url": f"data:image/png;base64,{DATA}"}}]}}]
    },
    "something new": {"choices": [{"delta": {"novel": [{"deep": {"er": [[TEXT]]}}]}}]},
    "text as data": {"choices": [{"delta": {"data": f"{TEXT[:398]} x"}}]},
    "an object": SimpleNamespace(choices=[SimpleNamespace(delta=SimpleNamespace(role="assistant", novel={"a": TEXT}))]),
    "candidate": {"candidates": [{"content": {"role": "model", "parts": [{"text": TEXT, "thoughtSignature": DATA}]}}]},
    "arguments": {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": TEXT}},
}
FLOOR = floor(REQUEST)


@pytest.mark.parametrize("name", EVENTS)
def test_a_stream_that_is_left_has_used_its_request_and_what_came(name: str) -> None:
    stream = Stream(REQUEST)
    assert stream.usage == TokenUsage(input=FLOOR)
    for number in range(1, 4):
        stream.add(EVENTS[name])
        assert stream.usage == TokenUsage(input=FLOOR, output=100 * number)
        assert not stream.whole


def test_sound_is_no_text_and_an_answer_without_end_has_one() -> None:
    stream, nested = Stream(REQUEST), {"content": TEXT}
    nested["self"] = nested  # type: ignore[assignment]
    stream.add({"type": "response.audio.delta", "delta": DATA})
    assert stream.usage == TokenUsage(input=FLOOR)
    stream.add({"choices": [{"delta": nested}]})
    assert stream.usage == TokenUsage(input=FLOOR, output=100)


def test_what_a_provider_has_told_until_then_is_not_counted_twice() -> None:
    stream, told = Stream(REQUEST), {"input_tokens": 5, "cache_read_input_tokens": FLOOR, "output_tokens": 1}
    stream.add({"type": "message_start", "message": {"usage": told}})
    assert stream.usage == TokenUsage(input=5, cached=FLOOR, output=1)
    stream.add(EVENTS["message"])
    assert stream.usage == TokenUsage(input=5, cached=FLOOR, output=100)


def test_a_usage_of_the_whole_stream_is_believed() -> None:
    stream = Stream(REQUEST)
    stream.add(EVENTS["chat"])
    stream.add({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}})
    assert not stream.whole
    assert stream.usage == TokenUsage(input=FLOOR, output=100)
    stream.end()
    assert (stream.whole, stream.usage) == (True, TokenUsage(input=3, output=4))
