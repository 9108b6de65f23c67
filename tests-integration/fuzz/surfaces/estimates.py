"""Requests to language models, and their estimates: never below a fifth of the bytes that are not media.

A stream of such a request that is left has used that, and what came.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from hypothesis import strategies as st

from zae_limiter.integrations.litellm_stream import Stream
from zae_limiter.integrations.tokens import estimate

from ..batches import Surface
from ..bodies import Body, draw
from ..judging import Tally, Unclean, judging

EVENTS: Any = (
    lambda text: {"choices": [{"index": 0, "delta": {"content": text}}]},
    lambda text: {"choices": [{"index": 0, "text": text}]},
    lambda text: {"type": "response.output_text.delta", "delta": text},
    lambda text: f"data: {json.dumps({'type': 'content_block_delta', 'delta': {'text': text}})}\n\n".encode(),
)


@contextmanager
def opened() -> Iterator[Surface]:
    """Bodies of every API, as a proxy reads them."""

    def feed(seed: int, tally: Tally) -> None:
        random = Random(seed)
        body = draw(random)
        with judging(tally):
            _check(body, random)

    yield Surface(st.integers(0, 2**64), feed)


def _check(body: Body, random: Random) -> None:
    request, bytes_ = json.loads(json.dumps(body.sent)), body.least_bytes()
    found = estimate(request)
    least = bytes_ / 5 + (0 if body.damaged else body.answers)
    if found < least:
        raise Unclean(f"estimated as {found}, though it has {bytes_} bytes: at least {least:.0f}")
    if not body.damaged and found > body.answers * prompts(request) + bytes_ / 4 + numbers(request) + 1:
        raise Unclean(f"estimated as {found}, though it has only {bytes_} bytes and {body.answers} of answers")
    stream, texts = Stream(request), ["word " * random.randint(0, 9) for _ in range(random.randint(0, 4))]
    for text in texts:
        stream.add(random.choice(EVENTS)(text))
    came = sum(map(len, texts)) / 4
    if stream.usage.total < bytes_ / 5 + came:
        raise Unclean(f"left as {stream.usage.total}, though it has {bytes_} bytes, and {came} tokens came")


def prompts(request: Any) -> int:
    """Return how many prompts a request has at most."""
    return max(1, len(request["prompt"])) if isinstance(request.get("prompt"), list) else 1


def numbers(request: Any) -> int:
    """Return how many tokens a request has at most, where prompts may be tokens already."""
    return sum(len(request[name]) for name in ("prompt", "input") if isinstance(request.get(name), list))
