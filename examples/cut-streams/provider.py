"""A fake provider of both APIs, which talks for long: `max_tokens` words, each of two tokens."""

import json
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

PROMPT = 10
app = FastAPI()


@app.post("/v1/chat/completions")
async def complete(request: Request) -> StreamingResponse:
    """Stream chunks as OpenAI does."""
    return StreamingResponse(map(sent, chunks((await request.json())["max_tokens"])), media_type="text/event-stream")


@app.post("/v1/messages")
async def message(request: Request) -> StreamingResponse:
    """Stream events as Anthropic does."""
    return StreamingResponse(map(sent, events((await request.json())["max_tokens"])), media_type="text/event-stream")


def sent(event: dict[str, Any] | str) -> str:
    """Return an event as it is sent."""
    name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
    return f"{name}data: {event if isinstance(event, str) else json.dumps(event)}\n\n"


def chunks(words: int) -> Iterator[dict[str, Any] | str]:
    """Yield the chunks of a chat."""
    for number in range(words):
        yield chunk([{"index": 0, "delta": {"content": f"word{number % 1000:03} "}, "finish_reason": None}])
    yield chunk([{"index": 0, "delta": {}, "finish_reason": "stop"}])
    usage = {"prompt_tokens": PROMPT, "completion_tokens": 2 * words, "total_tokens": PROMPT + 2 * words}
    yield {**chunk([]), "usage": usage}
    yield "[DONE]"


def chunk(choices: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a chunk."""
    return {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "fake", "choices": choices}


def events(words: int) -> Iterator[dict[str, Any]]:
    """Yield the events of a message."""
    message = {"id": "m-1", "type": "message", "role": "assistant", "model": "fake", "content": []}
    begun = {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": PROMPT, "output_tokens": 1}}
    yield {"type": "message_start", "message": {**message, **begun}}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    for number in range(words):
        delta = {"type": "text_delta", "text": f"word{number % 1000:03} "}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    stopped = {"stop_reason": "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": stopped, "usage": {"output_tokens": 2 * words}}
    yield {"type": "message_stop"}
