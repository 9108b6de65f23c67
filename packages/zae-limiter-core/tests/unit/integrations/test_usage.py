"""Usage in the shapes that the providers document; the numbers are those of the documents, or like them."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from zae_limiter import TokenUsage
from zae_limiter.integrations.usage import UsageMissing, UsageReader, read_usage, require_usage
from zae_limiter.values.limits import MAX_TOKENS

OPENAI_CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "gpt-5",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello!"}, "finish_reason": "stop"}],
    "usage": {
        "prompt_tokens": 2006,
        "completion_tokens": 300,
        "total_tokens": 2306,
        "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 192,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    },
}
OPENAI_RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "metadata": {"input_tokens": "x", "usage": "nothing"},  # what a client has put there
    "usage": {
        "input_tokens": 36,
        "input_tokens_details": {"cached_tokens": 16},
        "output_tokens": 87,
        "output_tokens_details": {"reasoning_tokens": 64},
        "total_tokens": 123,
    },
}
ANTHROPIC = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "Hi"}],
    "usage": {
        "input_tokens": 21,
        "cache_creation_input_tokens": 188086,
        "cache_read_input_tokens": 1024,
        "cache_creation": {"ephemeral_5m_input_tokens": 188000, "ephemeral_1h_input_tokens": 86},
        "output_tokens": 393,
        "server_tool_use": {"web_search_requests": 1},
        "service_tier": "standard",
    },
}
CONVERSE = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Hi"}]}},
    "stopReason": "end_turn",
    "usage": {
        "inputTokens": 30,
        "outputTokens": 628,
        "totalTokens": 3728,
        "cacheReadInputTokens": 3000,
        "cacheWriteInputTokens": 70,
        "cacheDetails": [{"inputTokens": 70, "ttl": "5m"}],
    },
    "metrics": {"latencyMs": 1275},
    "ResponseMetadata": {"HTTPHeaders": {"content-type": "application/json"}},
}
INVOKE = {
    "ResponseMetadata": {
        "HTTPStatusCode": 200,
        "HTTPHeaders": {
            "x-amzn-bedrock-input-token-count": "14",
            "x-amzn-bedrock-output-token-count": "30",
            "x-amzn-bedrock-cache-read-input-token-count": "100",
            "x-amzn-bedrock-cache-write-input-token-count": "7",
            "x-amzn-bedrock-invocation-latency": "1031",
        },
    }
}
GEMINI = {
    "candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}],
    "usageMetadata": {
        "promptTokenCount": 1000,
        "cachedContentTokenCount": 800,
        "candidatesTokenCount": 50,
        "toolUsePromptTokenCount": 20,
        "thoughtsTokenCount": 300,
        "totalTokenCount": 1370,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1000}],
    },
}
GEMINI_SDK = SimpleNamespace(
    usage_metadata=SimpleNamespace(
        prompt_token_count=1000,
        cached_content_token_count=800,
        candidates_token_count=50,
        tool_use_prompt_token_count=20,
        thoughts_token_count=300,
        total_token_count=1370,
    )
)
LITELLM_OF_ANTHROPIC = {  # its prompt_tokens have all input, whatever the provider counts
    "usage": {
        "prompt_tokens": 1234,
        "completion_tokens": 56,
        "total_tokens": 1290,
        "cache_creation_input_tokens": 200,
        "cache_read_input_tokens": 1000,
        "prompt_tokens_details": {"cached_tokens": 1000, "cache_creation_tokens": 200, "audio_tokens": None},
        "completion_tokens_details": None,
    }
}
LANGCHAIN = SimpleNamespace(
    usage_metadata={
        "input_tokens": 350,
        "output_tokens": 240,
        "total_tokens": 590,
        "input_token_details": {"audio": 10, "cache_creation": 200, "cache_read": 100},
        "output_token_details": {"audio": 10, "reasoning": 200},
    }
)
REALTIME = {  # the event at the end of each response of a session
    "type": "response.done",
    "event_id": "event_1",
    "response": {
        "object": "realtime.response",
        "id": "resp_1",
        "status": "completed",
        "output": [{"id": "item_1", "type": "message", "role": "assistant", "content": []}],
        "metadata": None,
        "usage": {
            "total_tokens": 253,
            "input_tokens": 132,
            "output_tokens": 121,
            "input_token_details": {
                "text_tokens": 119,
                "audio_tokens": 13,
                "image_tokens": 0,
                "cached_tokens": 64,
                "cached_tokens_details": {"text_tokens": 64, "audio_tokens": 0, "image_tokens": 0},
            },
            "output_token_details": {"text_tokens": 30, "audio_tokens": 91},
        },
    },
}
GROQ_END = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "tool_calls"}],
    "x_groq": {
        "id": "req_1",
        "usage": {
            "queue_time": 0.061348671,
            "prompt_tokens": 18,
            "prompt_time": 0.000211569,
            "completion_tokens": 439,
            "completion_time": 0.798181818,
            "total_tokens": 457,
            "total_time": 0.798393387,
        },
    },
}
COHERE = {
    "id": "c1",
    "finish_reason": "COMPLETE",
    "message": {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]},
    "usage": {
        "billed_units": {"input_tokens": 21, "output_tokens": 124},
        "tokens": {"input_tokens": 186, "output_tokens": 124},
    },
}
COHERE_V1 = {
    "text": "Hi",
    "generation_id": "g1",
    "finish_reason": "COMPLETE",
    "meta": {
        "api_version": {"version": "1"},
        "billed_units": {"input_tokens": 10.0, "output_tokens": 149.0},
        "tokens": {"input_tokens": 1394.0, "output_tokens": 149.0},
    },
}
OLLAMA = {
    "model": "llama3.2",
    "created_at": "2026-08-04T19:22:45.499127Z",
    "message": {"role": "assistant", "content": ""},
    "done": True,
    "done_reason": "stop",
    "total_duration": 4883583458,
    "load_duration": 1334875,
    "prompt_eval_count": 26,
    "prompt_eval_duration": 342546000,
    "eval_count": 282,
    "eval_duration": 4535599000,
}


LIES: list[Any] = [-1, True, "10", 5.5, float("nan"), float("inf"), [1], {}]


def as_objects(value: Any) -> Any:
    if isinstance(value, dict) and all(name.isidentifier() for name in value):
        return SimpleNamespace(**{name: as_objects(part) for name, part in value.items()})
    return [as_objects(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("form", [lambda answer: answer, as_objects, json.dumps, lambda a: json.dumps(a).encode()])
@pytest.mark.parametrize(
    ("answer", "usage"),
    [
        (OPENAI_CHAT, TokenUsage(input=86, cached=1920, output=108, reasoning=192)),
        (OPENAI_RESPONSE, TokenUsage(input=20, cached=16, output=23, reasoning=64)),
        (ANTHROPIC, TokenUsage(input=21, cached=1024, cache_write=188086, output=393)),
        (CONVERSE, TokenUsage(input=30, cached=3000, cache_write=70, output=628)),
        (INVOKE, TokenUsage(input=14, cached=100, cache_write=7, output=30)),
        (GEMINI, TokenUsage(input=220, cached=800, output=50, reasoning=300)),
        (LITELLM_OF_ANTHROPIC, TokenUsage(input=34, cached=1000, cache_write=200, output=56)),
        (REALTIME, TokenUsage(input=68, cached=64, output=121)),
        (GROQ_END, TokenUsage(input=18, output=439)),
        (COHERE, TokenUsage(input=21, output=124)),
        (COHERE_V1, TokenUsage(input=10, output=149)),
        (OLLAMA, TokenUsage(input=26, output=282)),
    ],
    ids=[
        *("chat", "responses", "anthropic", "converse", "invoke", "gemini", "litellm"),
        *("realtime", "groq", "cohere", "cohere v1", "ollama"),
    ],
)
def test_the_usage_of_each_provider_is_read_as_mapping_object_and_json(
    form: Any, answer: Any, usage: TokenUsage
) -> None:
    assert read_usage(form(answer)) == usage


@pytest.mark.parametrize("answer", [OPENAI_CHAT, OPENAI_RESPONSE, GEMINI, LITELLM_OF_ANTHROPIC, CONVERSE])
def test_the_kinds_add_up_to_the_total_of_the_provider(answer: Any) -> None:
    told = answer.get("usage") or answer["usageMetadata"]
    total = next(told[name] for name in ("total_tokens", "totalTokens", "totalTokenCount") if name in told)
    assert require_usage(answer).total == total


@pytest.mark.parametrize(
    ("answer", "usage"),
    [
        (GEMINI_SDK, TokenUsage(input=220, cached=800, output=50, reasoning=300)),
        (LANGCHAIN, TokenUsage(input=50, cached=100, cache_write=200, output=40, reasoning=200)),
        (OPENAI_CHAT["usage"], TokenUsage(input=86, cached=1920, output=108, reasoning=192)),
        ({"usage": {"prompt_tokens": 8, "total_tokens": 8}}, TokenUsage(input=8)),  # embeddings
        ({"usage": {"total_tokens": 8}}, TokenUsage(input=8)),  # Voyage's
        (REALTIME["response"], TokenUsage(input=68, cached=64, output=121)),
        ({"usage": {"tokens": {"input_tokens": 3, "output_tokens": 2}}}, TokenUsage(input=3, output=2)),  # Cohere
        ({"embeddings": {}, "meta": {"billed_units": {"input_tokens": 15}}}, TokenUsage(input=15)),
        ({"model": "all-minilm", "embeddings": [[0.1]], "prompt_eval_count": 8}, TokenUsage(input=8)),  # Ollama
        (
            {"ResponseMetadata": {"HTTPHeaders": {"x-amzn-bedrock-input-token-count": "8"}}},  # embeddings of Bedrock
            TokenUsage(input=8),
        ),
        ({"usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9}}, TokenUsage(input=9)),  # a blocked prompt
        (  # xAI leaves the reasoning out of the completion
            {
                "usage": {
                    "prompt_tokens": 32,
                    "completion_tokens": 9,
                    "total_tokens": 135,
                    "completion_tokens_details": {"reasoning_tokens": 94},
                }
            },
            TokenUsage(input=32, output=9, reasoning=94),
        ),
        (  # Gemini by OpenAI's API does not name it
            {"usage": {"prompt_tokens": 5, "completion_tokens": 10, "total_tokens": 115}},
            TokenUsage(input=5, output=10, reasoning=100),
        ),
        (  # DeepSeek
            {
                "usage": {
                    "prompt_tokens": 100,
                    "completion_tokens": 5,
                    "total_tokens": 105,
                    "prompt_cache_hit_tokens": 64,
                    "prompt_cache_miss_tokens": 36,
                }
            },
            TokenUsage(input=36, cached=64, output=5),
        ),
        ({"usage": {"input_tokens": 10.0, "output_tokens": 10**40}}, TokenUsage(input=10, output=MAX_TOKENS)),
    ],
)
def test_other_answers_are_read(answer: Any, usage: TokenUsage) -> None:
    assert read_usage(answer) == usage


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 99}},
        {"prompt_tokens": 10, "completion_tokens": 1, "cache_creation_input_tokens": 10**20},
        {"prompt_tokens": 10, "completion_tokens": 1, "completion_tokens_details": {"reasoning_tokens": 50}},
    ],
)
def test_a_part_is_never_more_than_its_whole(usage: Any) -> None:
    assert require_usage(usage).total == 11


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "",
        "data: [DONE]\n\n",
        b"\xff",
        "not json",
        "[" * 100_000,
        30,
        [30],
        object(),
        {},
        {"usage": None},
        {"usage": {}},
        {"usage": "30"},
        {"usage": {"total_tokens": 0}},
        {"usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}},
        {"usage": {"input_tokens": 5}},  # half of it
        {"usage": {"inputTokens": 5}},
        {"usage": {"prompt_tokens": 5}},
        {"usageMetadata": {"promptTokenCount": 5}},
        {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 5}},
        {"usage": {"output_tokens": 5}},
        {"usage": {"tokens": {"input_tokens": 5}}},
        {"results": [], "meta": {"billed_units": {"search_units": 1}}},  # Cohere's ranks have no tokens
        {"message": {"content": "Hi"}, "done": True, "eval_count": 5},  # older Ollama, whose prompt was cached
        *({"usage": {"prompt_tokens": lie, "completion_tokens": 3}} for lie in LIES),
        {"metadata": {"prompt_tokens": 5, "completion_tokens": 5}},
        {"ResponseMetadata": {"HTTPHeaders": {"x-amzn-bedrock-input-token-count": "1e9"}}},
    ],
)
def test_an_answer_without_a_whole_usage_is_none_or_an_error(answer: Any) -> None:
    assert read_usage(answer) is None
    with pytest.raises(UsageMissing, match="has no usage"):
        require_usage(answer)


ANTHROPIC_STREAM: list[Any] = [
    {
        "type": "message_start",
        "message": {"usage": {"input_tokens": 472, "cache_read_input_tokens": 50, "output_tokens": 2}},
    },
    {"type": "ping"},
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Okay"}},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 89}},
    {"type": "message_stop"},
]
STREAMS: list[Any] = [
    (ANTHROPIC_STREAM, TokenUsage(input=472, cached=50, output=89)),
    (
        [{"choices": [{"delta": {"content": "Hi"}}], "usage": None}, {**OPENAI_CHAT, "choices": []}],
        read_usage(OPENAI_CHAT),
    ),
    (
        [
            {"type": "response.output_text.delta", "delta": "Hi"},
            {"type": "response.completed", "response": OPENAI_RESPONSE},
        ],
        read_usage(OPENAI_RESPONSE),
    ),
    (
        [{"contentBlockDelta": {"delta": {"text": "Hi"}}}, {"metadata": {"usage": CONVERSE["usage"]}}],
        read_usage(CONVERSE),
    ),
    ([{"usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 3}}, GEMINI], read_usage(GEMINI)),
    ([{"type": "response.created", "response": {"usage": None}}, REALTIME], read_usage(REALTIME)),
    (
        [{"choices": [{"index": 0, "delta": {"content": "Hi"}}], "x_groq": {"id": "req_1"}}, GROQ_END],
        read_usage(GROQ_END),
    ),
    (
        [
            {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "Hi"}}}},
            {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": COHERE["usage"]}},
        ],
        read_usage(COHERE),
    ),
    (
        [
            {"event_type": "text-generation", "text": "Hi"},
            {"event_type": "stream-end", "finish_reason": "COMPLETE", "response": COHERE_V1},
        ],
        read_usage(COHERE_V1),
    ),
    ([{"message": {"content": "Hi"}, "done": False}, OLLAMA], read_usage(OLLAMA)),
    (
        [
            {"chunk": {"bytes": json.dumps({"type": "content_block_delta"}).encode()}},
            {
                "chunk": {
                    "bytes": json.dumps(
                        {
                            "type": "message_stop",
                            "amazon-bedrock-invocationMetrics": {
                                "inputTokenCount": 8,
                                "outputTokenCount": 12,
                                "cacheReadInputTokenCount": 4,
                                "invocationLatency": 1000,
                            },
                        }
                    ).encode()
                }
            },
        ],
        TokenUsage(input=8, cached=4, output=12),
    ),
]


@pytest.mark.parametrize(("events", "usage"), STREAMS)
def test_a_stream_has_its_usage_at_its_end(events: list[Any], usage: TokenUsage) -> None:
    reader, text = UsageReader(), UsageReader()
    for event in events:
        reader.add(event)
    assert (reader.usage, reader.whole) == (usage, True)
    if all("chunk" not in event for event in events):
        text.add("".join(f"event: e\ndata: {json.dumps(event)}\n\n" for event in events))
        assert text.usage == usage


def test_lines_of_json_are_read_as_text() -> None:
    lines = [{"message": {"content": "Hi"}, "done": False}, OLLAMA]
    assert read_usage("".join(json.dumps(line) + "\n" for line in lines)) == TokenUsage(input=26, output=282)


def test_a_stream_that_breaks_off_has_no_usage_but_what_it_has_told() -> None:
    reader = UsageReader()
    for event in ANTHROPIC_STREAM[:3]:
        reader.add(event)
    assert (reader.usage, reader.so_far, reader.whole) == (None, TokenUsage(input=472, cached=50, output=2), False)


GEMINI_STREAM: list[Any] = [
    {
        "candidates": [{"content": {"parts": [{"text": "H"}]}}],
        "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
    },
    {
        "candidates": [{"content": {"parts": [{"text": "i"}]}}],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12},
    },
    {
        "candidates": [{"content": {"parts": [{"text": "!"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 7, "totalTokenCount": 16},
    },
]
OPENAI_STREAM: list[Any] = [  # of a server that tells the usage until now with each part
    {
        "choices": [{"delta": {"content": "Hi"}, "finish_reason": None}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
    },
    {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    {
        "choices": [{"delta": {"content": ""}, "finish_reason": None}],  # as some servers have it after the end
        "usage": {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16},
    },
]


@pytest.mark.parametrize("form", [lambda event: event, as_objects, json.dumps])
@pytest.mark.parametrize("events", [GEMINI_STREAM, OPENAI_STREAM], ids=["gemini", "openai"])
def test_usage_until_now_is_not_whole_before_the_answer_ends(form: Any, events: list[Any]) -> None:
    reader = UsageReader()
    for event in events[:-1]:
        reader.add(form(event))
        assert (reader.usage, reader.whole) == (None, False)
    assert reader.so_far == TokenUsage(input=9, output=3)
    reader.add(form(events[-1]))
    assert (reader.usage, reader.whole) == (TokenUsage(input=9, output=7), True)
