"""Explain an estimate that can never pass: most of it may be for an answer whose longest length the request does not
name.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from ..values.refusal import RateLimitExceeded
from .tokens import estimate


def assumed_answer(error: RateLimitExceeded, tokens: str, request: Mapping[str, Any], by: Callable[..., object]) -> str:
    """Return a sentence about the part of the refused estimate that was assumed; empty if the refusal is for another.

    ``tokens`` is the limit that the estimate was taken from, ``by`` the function that made it.
    """
    worst = error.primary_violation
    if by is not estimate or worst.limit_name != tokens or not math.isinf(worst.retry_after_seconds):
        return ""
    assumed = estimate(request) - estimate(request, answer=0)
    if not assumed:
        return ""
    return (
        f"{assumed} of the {worst.requested} {tokens} are assumed for the answer, because the request does not say how "
        f"long it may be: set max_tokens, or give estimate=partial(estimate, answer=...)"
    )
