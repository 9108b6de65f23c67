"""What a stream that a client leaves has used, without LiteLLM."""

from typing import Any

import pytest

from zae_limiter import TokenUsage
from zae_limiter.integrations.litellm_stream import Stream
from zae_limiter.integrations.tokens import floor

REQUEST: Any = {"model": "m", "tools": [{f"{i:032}": {} for i in range(1000)}], "max_tokens": 1}
TEXT = "x" * 400
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
