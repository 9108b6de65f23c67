"""A fake provider: every call uses 10 tokens for the prompt and 20 for the answer."""

from collections.abc import Iterator

from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

USAGE = '{"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}'
app = FastAPI()


@app.post("/v1/chat/completions")
async def complete(request: Request) -> Response:
    asked = await request.json()
    if not asked["stream"]:
        text = '{"choices": [{"message": {"role": "assistant", "content": "Hello."}}], "usage": %s}'
        return Response(text % USAGE, media_type="application/json")
    return StreamingResponse(events(usage=asked["stream_options"]["include_usage"]), media_type="text/event-stream")


def events(*, usage: bool) -> Iterator[str]:
    for word in ("Hel", "lo."):
        yield 'data: {"choices": [{"delta": {"content": "%s"}}]}\n\n' % word
    if usage:
        yield 'data: {"choices": [], "usage": %s}\n\n' % USAGE
    yield "data: [DONE]\n\n"
