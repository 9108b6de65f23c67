"""A provider that speaks the APIs of OpenAI and Anthropic on this machine, and remembers what it was asked.

The name of the model says what it does:

| model | what it does |
|---|---|
| `plain` | answers, or streams, with a usage of 10 and 20 tokens |
| `silent` | the same; its streams say nothing of usage |
| `broken` | answers 500 |
| `busy` | answers 429 |
| `cut` | streams two parts and closes the connection |
| `endless` | streams until the client leaves |
| `slow` | answers after a second |
| `hopeless` | answers 429 as the web integrations do to a call that can never pass |
| `brief` | the same to one that is too fast |
| `spent` | the same to one whose budget of this month is spent: 402 |
| `used-up` | the same to one whose requests of this month are used up |

Answers of `/v1/responses` are kept. One with `background` is queued until it is fetched twice; those
of `silent` do not say that they are in the background.

Lives here: the server. Never: a claim.
"""

import asyncio
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final
from uuid import uuid4

from zae_limiter import Limit, LimitStatus, RateLimitExceeded
from zae_limiter.integrations.answers import Answers

PROMPT: Final = 10
ANSWER: Final = 20
USED: Final = PROMPT + ANSWER
PARTS: Final = ("one ", "two ", "three ")
STATUSES: Final = {"broken": 500, "busy": 429}
NO_WAIT: Final = {"retry-after": "0"}
ANSWERS: Final = Answers(style="openai", payment_required=True)


def _refused(limit: Limit, requested: int, wait: float) -> RateLimitExceeded:
    return RateLimitExceeded([LimitStatus("ann", "m", limit.name, limit, 0, requested, True, wait)])


REFUSALS: Final = {
    "hopeless": _refused(Limit.per_minute("tpm", 10), 11, math.inf),
    "brief": _refused(Limit.per_minute("rpm", 10), 1, 6.0),
    "spent": _refused(Limit.money("usd", 250, per="month"), 1, 900_000.0),
    "used-up": _refused(Limit.per_month("rpm", 10), 1, 900_000.0),
}


class Provider(ThreadingHTTPServer):
    """The provider: its URL, the bodies of all requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[dict[str, Any]] = []
        self.kept: dict[str, dict[str, Any]] = {}  # answers of /v1/responses by their ids
        self.through: Callable[[Iterator[str]], Iterator[str]] = iter  # what a gateway in front makes of a stream
        self.left = 0  # streams that were closed before their end

    @property
    def url(self) -> str:
        """Without a path."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    async def is_asked(self) -> None:
        """Wait for the first request."""
        while not self.asked:  # noqa: ASYNC110 - another thread serves
            await asyncio.sleep(0.01)


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its base names it so
        """Write nothing on stderr."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(body)
        model = body.get("model", "")
        if model == "slow":
            time.sleep(1)
        kind = self._kind(body)
        if model in REFUSALS:
            answer = ANSWERS.to(REFUSALS[model], self.path)
            self._begin(answer.status, "application/json", {**answer.headers, "Retry-After": "0"})
            self.wfile.write(answer.body)
        elif model in STATUSES:
            error = {"type": "error", "error": {"message": model, "type": model}}
            self._begin(STATUSES[model], "application/json", NO_WAIT)
            self.wfile.write(json.dumps(error).encode())
        elif not body.get("stream"):
            self._begin(200, "application/json")
            self.wfile.write(json.dumps(kind.answer()).encode())
        else:
            self._stream(model, kind)

    def do_GET(self) -> None:
        kept = self.server.kept.get(self.path.split("?")[0].rpartition("/")[2])
        self._begin(404 if kept is None else 200, "application/json")
        if kept is not None:
            self.wfile.write(json.dumps(kept).encode())
            kept.update(status="completed", usage=_Responses.USAGE)

    def _kind(self, body: dict[str, Any]) -> Any:
        if self.path.startswith("/v1/messages"):
            return _Anthropic()
        return _Responses(body, self.server) if self.path == "/v1/responses" else _OpenAI(body)

    def _stream(self, model: str, kind: Any) -> None:
        self._begin(200, "text/event-stream")
        parts = self.server.through(self._events(model, kind))
        try:
            for event in parts:
                self.wfile.write(event.encode())
                self.wfile.flush()
        except OSError:
            self.server.left += 1
        finally:
            if close := getattr(parts, "close", None):
                close()

    def _events(self, model: str, kind: Any) -> Iterator[str]:
        yield from map(_sent, kind.before())
        while model == "endless":
            yield _sent(kind.part("again "))
            time.sleep(0.01)
        yield from (_sent(kind.part(part)) for part in (PARTS[:2] if model == "cut" else PARTS))
        if model != "cut":
            yield from map(_sent, kind.after())

    def _begin(self, status: int, kind: str, headers: Any = ()) -> None:
        self.send_response(status)
        for name, text in {"Content-Type": kind, "Connection": "close", **dict(headers)}.items():
            self.send_header(name, text)
        self.end_headers()


def _sent(event: dict[str, Any] | str) -> str:
    text = event if isinstance(event, str) else json.dumps(event)
    name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
    return f"{name}data: {text}\n\n"


class _OpenAI:
    def __init__(self, body: dict[str, Any]) -> None:
        self._counts = bool((body.get("stream_options") or {}).get("include_usage")) and body.get("model") != "silent"
        self._usage = {"prompt_tokens": PROMPT, "completion_tokens": ANSWER, "total_tokens": USED}

    def answer(self) -> dict[str, Any]:
        message = {"role": "assistant", "content": "".join(PARTS)}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return _named("chat.completion") | {"choices": [choice], "usage": self._usage}

    def before(self) -> Iterator[Any]:
        yield from ()

    def part(self, text: str) -> dict[str, Any]:
        return _named("chat.completion.chunk") | {"choices": [_choice({"role": "assistant", "content": text}, None)]}

    def after(self) -> Iterator[Any]:
        yield _named("chat.completion.chunk") | {"choices": [_choice({}, "stop")]}
        if self._counts:
            yield _named("chat.completion.chunk") | {"choices": [], "usage": self._usage}
        yield "[DONE]"


def _named(kind: str) -> dict[str, Any]:
    return {"id": "c-1", "object": kind, "created": 1, "model": "fake"}


def _choice(delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": reason}


class _Responses:
    USAGE: Final = {"input_tokens": PROMPT, "output_tokens": ANSWER, "total_tokens": USED}
    PLACE: Final[dict[str, Any]] = {"item_id": "m-1", "output_index": 0, "content_index": 0}

    def __init__(self, body: dict[str, Any], server: Provider) -> None:
        told = {"object": "response", "created_at": 1, "model": "fake", "metadata": {}, "output": [], "tools": []}
        self._answer: dict[str, Any] = {
            **told,
            "id": f"resp_{uuid4().hex}",
            "status": "completed",
            "usage": self.USAGE,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "temperature": 1.0,
            "top_p": 1.0,
        }
        if body.get("background"):
            self._answer |= {"status": "queued", "usage": None}
            self._answer |= {} if body["model"] == "silent" else {"background": True}
        server.kept[str(self._answer["id"])] = self._answer

    def answer(self) -> dict[str, Any]:
        return self._answer

    def before(self) -> Iterator[Any]:
        begun = {**self._answer, "status": "in_progress", "usage": None}
        yield {"type": "response.created", "sequence_number": 0, "response": begun}
        item = {"id": "m-1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        yield {"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": item}
        part = {"type": "output_text", "text": "", "annotations": []}
        yield {"type": "response.content_part.added", "sequence_number": 2, "part": part, **self.PLACE}

    def part(self, text: str) -> dict[str, Any]:
        return {"type": "response.output_text.delta", "sequence_number": 3, "delta": text, **self.PLACE}

    def after(self) -> Iterator[Any]:
        self._answer |= {"status": "completed", "usage": self.USAGE}
        yield {"type": "response.completed", "response": self._answer}


class _Anthropic:
    def answer(self) -> dict[str, Any]:
        return self._message() | {
            "content": [{"type": "text", "text": "".join(PARTS)}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": PROMPT, "output_tokens": ANSWER},
        }

    def _message(self) -> dict[str, Any]:
        named = {"id": "m-1", "type": "message", "role": "assistant", "model": "fake", "content": []}
        return named | {
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": PROMPT, "output_tokens": 1},
        }

    def before(self) -> Iterator[Any]:
        yield {"type": "message_start", "message": self._message()}
        yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}

    def part(self, text: str) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}

    def after(self) -> Iterator[Any]:
        yield {"type": "content_block_stop", "index": 0}
        delta = {"stop_reason": "end_turn", "stop_sequence": None}
        yield {"type": "message_delta", "delta": delta, "usage": {"input_tokens": PROMPT, "output_tokens": ANSWER}}
        yield {"type": "message_stop"}


@contextmanager
def providing() -> Iterator[Provider]:
    """A provider until the end of the block."""
    with Provider() as provider:
        thread = Thread(target=provider.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield provider
        provider.shutdown()
        thread.join()
