"""A fake provider: every call uses 10 tokens for the prompt and 20 for the answer."""

import json
from collections.abc import Iterator

from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

USAGE = {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}
app = FastAPI()


@app.post("/v1/chat/completions", response_model=None)
async def complete(request: Request) -> dict[str, object] | Response:
    """Answer a call, whole or as a stream."""
    asked = await request.json()
    if asked.get("user") == "unlucky":
        return Response('{"error": {"message": "overloaded"}}', 503, media_type="application/json")
    if not asked["stream"]:
        return {"choices": [{"message": {"role": "assistant", "content": "Hello."}}], "usage": USAGE}
    return StreamingResponse(events(usage=asked["stream_options"]["include_usage"]), media_type="text/event-stream")


def events(*, usage: bool) -> Iterator[str]:
    """Yield the events of a stream."""
    parts: list[dict[str, object]] = [{"choices": [{"delta": {"content": word}}]} for word in ("Hello", ".")]
    if usage:
        parts.append({"choices": [], "usage": USAGE})
    yield from (f"data: {json.dumps(part)}\n\n" for part in parts)
    yield "data: [DONE]\n\n"
