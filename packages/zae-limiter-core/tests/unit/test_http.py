"""Header fields and problem documents: byte for byte as the draft has them."""

import json
import math
import time
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from zae_limiter import Limit, LimitStatus, RateLimitExceeded, ValidationError
from zae_limiter.http import QUOTA_EXCEEDED, headers, problem


class Admitted(NamedTuple):
    """What a lease has."""

    statuses: list[LimitStatus]
    entity_id: str = "key-1"


def status(
    limit: Limit,
    available: int,
    *,
    wait: float = 0.0,
    more: float = math.inf,
    requested: int = 1,
    entity_id: str = "key-1",
) -> LimitStatus:
    return LimitStatus(entity_id, "api", limit.name, limit, available, requested, wait > 0, wait, more)


PER_MINUTE = Limit.per_minute("fixedwindow", 100)
HOUR, DAY = Limit.per_hour("hour", 1000), Limit.per_day("day", 5000)
TPM = Limit.per_minute("tpm", 6000)


def test_a_lease_has_its_policy_and_what_is_left() -> None:
    # the draft's B.2.1
    assert headers(Admitted([status(PER_MINUTE, 99, more=49.001)])) == {
        "RateLimit-Policy": '"fixedwindow";q=100;w=60',
        "RateLimit": '"fixedwindow";r=99;t=50',
    }


def test_no_time_is_shown_where_no_more_comes() -> None:
    full, blocked = status(PER_MINUTE, 100), status(Limit.per_minute("blocked", 0), 0)
    assert headers(Admitted([full, blocked]), legacy=True) == {
        "RateLimit-Policy": '"fixedwindow";q=100;w=60, "blocked";q=0;w=60',
        "RateLimit": '"fixedwindow";r=100, "blocked";r=0',
        "X-RateLimit-Limit": "0",
        "X-RateLimit-Remaining": "0",
    }


def test_several_policies_are_one_list() -> None:
    # the draft's B.3.2, with the hour, which it may leave out
    assert headers(Admitted([status(HOUR, 1000), status(DAY, 100, more=36000)])) == {
        "RateLimit-Policy": '"hour";q=1000;w=3600, "day";q=5000;w=86400',
        "RateLimit": '"hour";r=1000, "day";r=100;t=36000',
    }


def test_a_limit_may_have_a_unit() -> None:
    found = headers(Admitted([status(PER_MINUTE, 99), status(TPM, 5000)]), units={"tpm": "tokens"})
    assert found["RateLimit-Policy"] == '"fixedwindow";q=100;w=60, "tpm";q=6000;qu="tokens";w=60'


def test_a_refusal_shows_what_is_short_and_when_to_come_back() -> None:
    refusal = RateLimitExceeded([status(HOUR, 990), status(PER_MINUTE, 0, wait=4.2)])
    assert headers(refusal) == {
        "RateLimit-Policy": '"hour";q=1000;w=3600, "fixedwindow";q=100;w=60',
        "RateLimit": '"fixedwindow";r=0;t=5',
        "Retry-After": "5",
    }


def test_a_refusal_for_ever_has_no_broken_field() -> None:
    refusal = RateLimitExceeded([status(PER_MINUTE, 100, wait=math.inf, requested=101)])
    found = headers(refusal, legacy=True)
    assert found == {
        "RateLimit-Policy": '"fixedwindow";q=100;w=60',
        "RateLimit": '"fixedwindow";r=100',
        "X-RateLimit-Limit": "100",
        "X-RateLimit-Remaining": "100",
    }
    assert all(isinstance(value, str) for value in found.values())


def test_a_debt_shows_as_nothing_left() -> None:
    assert headers(RateLimitExceeded([status(PER_MINUTE, -40, wait=25)]))["RateLimit"] == '"fixedwindow";r=0;t=25'


def test_the_limits_of_a_parent_have_names_of_their_own() -> None:
    lease = Admitted([status(PER_MINUTE, 99), status(PER_MINUTE, 50, entity_id="project")])
    assert headers(lease)["RateLimit-Policy"] == '"fixedwindow";q=100;w=60, "parent/fixedwindow";q=100;w=60'


def test_no_limit_can_have_the_name_of_a_parents_limit() -> None:
    with pytest.raises(ValidationError, match="parent/rpm"):
        Limit.per_minute("parent/rpm", 60)
    own = [status(Limit.per_minute("rpm", 60), 1), status(Limit.per_minute("parent.rpm", 60), 1)]
    lease = Admitted([*own, *(replace(each, entity_id="project") for each in own)])
    names = [policy.split(";")[0] for policy in headers(lease)["RateLimit"].split(", ")]
    assert names == ['"rpm"', '"parent.rpm"', '"parent/rpm"', '"parent/parent.rpm"']


def test_no_number_is_longer_than_a_field_can_have() -> None:
    large = Limit.custom("large", 10**15, refill_amount=1, refill_period=10**9)
    assert headers(Admitted([status(large, 10**15, more=10**16)])) == {
        "RateLimit-Policy": '"large";q=999999999999999;w=999999999999999',
        "RateLimit": '"large";r=999999999999999;t=999999999999999',
    }


def test_a_slower_refill_makes_a_longer_window() -> None:
    slow = Limit.custom("slow", 100, refill_amount=30, refill_period=60)
    assert headers(Admitted([status(slow, 100)]))["RateLimit-Policy"] == '"slow";q=100;w=200'


def test_an_outage_has_no_fields() -> None:
    assert headers(Admitted([])) == {}


def test_legacy_fields_are_of_the_scarcest_limit() -> None:
    lease = Admitted([status(HOUR, 500, more=3.6), status(DAY, 500, more=17.28)])
    assert headers(lease, legacy=True, now=1_795_000_000.0) == {
        "RateLimit-Policy": '"hour";q=1000;w=3600, "day";q=5000;w=86400',
        "RateLimit": '"hour";r=500;t=4, "day";r=500;t=18',
        "X-RateLimit-Limit": "5000",
        "X-RateLimit-Remaining": "500",
        "X-RateLimit-Reset": "1795000018",
    }


def test_the_legacy_reset_is_an_instant_by_the_clock_of_the_system() -> None:
    begun = time.time()
    for answer in (Admitted([status(HOUR, 500, more=3600)]), RateLimitExceeded([status(HOUR, 0, wait=3600)])):
        reset = int(headers(answer, legacy=True)["X-RateLimit-Reset"])
        assert begun + 3600 <= reset <= time.time() + 3601


def test_a_problem_document_names_the_policies_and_no_entity() -> None:
    refusal = RateLimitExceeded(
        [
            status(HOUR, 990),
            status(PER_MINUTE, 0, wait=4.2),
            status(DAY, 9, wait=7200, requested=10, entity_id="secret"),
        ]
    )
    document = problem(refusal, instance="/answers/1")
    assert document == {
        "type": QUOTA_EXCEEDED,
        "title": "Quota Exceeded",
        "status": 429,
        "detail": "fixedwindow: 1 requested, 0 available; retry in 5 s; "
        "parent/day: 10 requested, 9 available; retry in 7200 s",
        "violated-policies": ["fixedwindow", "parent/day"],
        "retry-after": 7200,
        "instance": "/answers/1",
    }
    assert "secret" not in json.dumps(document)


def test_a_problem_that_never_passes_says_so() -> None:
    document = problem(RateLimitExceeded([status(PER_MINUTE, 100, wait=math.inf, requested=101)]))
    assert document["retry-after"] is None
    assert document["detail"] == "fixedwindow: 101 requested, which can never pass: at most 100"


@pytest.mark.parametrize(
    ("wait", "told"),
    [(math.inf, "which is blocked"), (44.8, "0 available; retry in 45 s")],
    ids=["for ever", "in debt"],
)
def test_only_a_wait_without_end_is_called_blocked(wait: float, told: str) -> None:
    document = problem(RateLimitExceeded([status(Limit.per_minute("rpm", 0), -45, wait=wait, requested=0)]))
    assert document["detail"] == f"rpm: 0 requested, {told}"


@pytest.mark.parametrize("unit", ["ünits", "a\nb", 5, None])
def test_a_unit_that_no_field_can_have_is_refused(unit: Any) -> None:
    with pytest.raises(ValueError, match="header field"):
        headers(Admitted([status(TPM, 1)]), units={"tpm": unit})
