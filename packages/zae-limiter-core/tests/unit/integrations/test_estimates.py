import math
from functools import partial
from typing import Any

import pytest

from zae_limiter import Limit, LimitStatus, RateLimitExceeded
from zae_limiter.integrations.settlement import assumed_answer
from zae_limiter.integrations.tokens import estimate

REQUEST = {"messages": [{"role": "user", "content": "x" * 40}]}


def refusal(requested: int, wait: float = math.inf, name: str = "tpm") -> RateLimitExceeded:
    status = LimitStatus("ann", "gpt", name, Limit.per_minute(name, 1000), 1000, requested, True, wait)
    return RateLimitExceeded([status])


def test_a_refusal_for_ever_names_the_answer_that_was_assumed_and_the_option() -> None:
    why = assumed_answer(refusal(estimate(REQUEST)), "tpm", REQUEST, estimate)
    assert why.startswith("1000 of the 1021 tpm are assumed for the answer")
    assert "set max_tokens" in why
    assert "estimate=partial(estimate, answer=...)" in why


@pytest.mark.parametrize(
    ("error", "request_", "by"),
    [
        (refusal(1010, wait=2.0), REQUEST, estimate),
        (refusal(1010, name="rpm"), REQUEST, estimate),
        (refusal(2010), {**REQUEST, "max_tokens": 2000}, estimate),
        (refusal(3010), REQUEST, partial(estimate, answer=3000)),
    ],
    ids=["it passes later", "another limit", "the request says it", "the application says it"],
)
def test_any_other_refusal_says_nothing_of_an_answer(error: RateLimitExceeded, request_: Any, by: Any) -> None:
    assert assumed_answer(error, "tpm", request_, by) == ""
