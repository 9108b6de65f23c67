"""Header fields and problem documents: byte for byte as the draft has them."""

import json
import math
import time
from dataclasses import replace
from typing import Any, NamedTuple, cast

import pytest

from zae_limiter import Limit, LimitStatus, RateLimitExceeded, ValidationError
from zae_limiter.http import PROBLEM_TYPES, Show, headers, problem


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
        "x-should-retry": "false",
    }
    assert all(isinstance(value, str) for value in found.values())


def test_a_debt_shows_as_nothing_left() -> None:
    assert headers(RateLimitExceeded([status(PER_MINUTE, -40, wait=25)]))["RateLimit"] == '"fixedwindow";r=0;t=25'


PARENT = status(PER_MINUTE, 50, entity_id="acme", more=7)
SHORT_PARENT = replace(PARENT, exceeded=True, retry_after_seconds=9.5, requested=60, place=1)


def test_an_answer_shows_no_balance_of_a_parent() -> None:
    lease = Admitted([status(PER_MINUTE, 99), PARENT])
    assert headers(lease, legacy=True) == headers(Admitted([status(PER_MINUTE, 99)]), legacy=True)
    assert headers(lease, show="all")["RateLimit-Policy"] == (
        '"fixedwindow";q=100;w=60, "parent/fixedwindow";q=100;w=60'
    )


def test_of_a_parent_that_refuses_an_answer_shows_name_and_wait() -> None:
    refusal = RateLimitExceeded([status(HOUR, 990), SHORT_PARENT])
    assert headers(refusal, legacy=True, now=0) == {
        "RateLimit-Policy": '"hour";q=1000;w=3600',
        "RateLimit": '"fixedwindow";r=0;t=10',
        "Retry-After": "10",
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Reset": "10",
    }
    document = problem(refusal)
    assert document["detail"] == "fixedwindow: not enough left; retry in 10 s"
    assert document["violated-policies"] == ["fixedwindow"]


def test_a_limit_that_two_entities_have_is_named_once_with_the_longer_wait() -> None:
    for own_wait, wait, left in ((4.2, "10", 0), (12, "12", 3)):
        refusal = RateLimitExceeded([status(PER_MINUTE, 3, wait=own_wait, requested=60), SHORT_PARENT])
        assert headers(refusal)["RateLimit"] == f'"fixedwindow";r={left};t={wait}'
        assert headers(refusal)["RateLimit-Policy"] == '"fixedwindow";q=100;w=60'
        assert problem(refusal)["violated-policies"] == ["fixedwindow"]


def test_of_several_above_that_are_short_only_the_refusing_one_shows() -> None:
    further = replace(SHORT_PARENT, entity_id="org", limit_name="day", limit=DAY, retry_after_seconds=3.0, place=2)
    refusal = RateLimitExceeded([status(HOUR, 990), SHORT_PARENT, further])
    assert problem(refusal)["violated-policies"] == ["fixedwindow"]
    assert problem(refusal, show="all")["violated-policies"] == ["parent/fixedwindow", "parent-2/day"]


def test_of_a_draw_only_the_refusing_limit_shows() -> None:
    draw = replace(SHORT_PARENT, entity_id="key-1", draw=1, place=0)
    assert "fixedwindow" not in headers(Admitted([status(HOUR, 990), draw]))["RateLimit-Policy"]
    assert problem(RateLimitExceeded([status(HOUR, 990), draw]))["violated-policies"] == ["fixedwindow"]


@pytest.mark.parametrize("wait", [9.5, math.inf])
@pytest.mark.parametrize("show", ["own", "retry_after", "nothing"])
def test_nothing_that_only_the_parent_knows_is_in_an_answer(show: Show, wait: float) -> None:
    answers = []
    for capacity, available, requested in ((77_777, -4321, 987_654), (88_888, 6, 7)):
        limit = Limit.per_minute("usd", capacity)
        above = LimitStatus("acme", "api", "usd", limit, available, requested, True, wait, place=1)
        refusal = RateLimitExceeded([status(PER_MINUTE, 99), above])
        answers.append((headers(refusal, show=show, legacy=True, now=0), problem(refusal, show=show)))
    assert answers[0] == answers[1]
    assert "acme" not in json.dumps(answers)


def test_an_answer_may_name_no_limit_and_no_time() -> None:
    refusal = RateLimitExceeded([status(PER_MINUTE, 0, wait=4.2), SHORT_PARENT])
    for show, fields in (("retry_after", {"Retry-After": "10"}), ("nothing", {})):
        assert headers(refusal, show=cast("Show", show), legacy=True) == fields
        assert headers(Admitted([PARENT]), show=cast("Show", show), legacy=True) == {}
        document = problem(refusal, show=cast("Show", show))
        assert document == {
            "type": "about:blank",
            "title": "Too Many Requests",
            "status": 429,
            "detail": "Too many requests.",
        }


def test_a_level_that_is_none_is_refused() -> None:
    bad: Any = "none"
    for ask in (headers, problem):
        with pytest.raises(ValidationError, match="show 'none': must be one of nothing, retry_after, own, all"):
            ask(RateLimitExceeded([SHORT_PARENT]), show=bad)


@pytest.mark.parametrize("show", ["own", "all"])
def test_the_owner_names_limits(show: Show) -> None:
    def name(status: LimitStatus) -> str:
        return f"organisation/{status.limit_name}" if status.place else f'{status.limit_name} \n"é'

    refusal = RateLimitExceeded([status(HOUR, 990), SHORT_PARENT])
    found = headers(refusal, show=show, names=name)
    assert found["RateLimit-Policy"].startswith('"hour %0A%22%C3%A9";q=1000')
    assert found["RateLimit"].startswith('"organisation/fixedwindow";r=')
    assert problem(refusal, show=show, names=name)["violated-policies"] == ["organisation/fixedwindow"]


def test_no_limit_can_have_the_name_of_a_parents_limit() -> None:
    with pytest.raises(ValidationError, match="parent/rpm"):
        Limit.per_minute("parent/rpm", 60)
    own = [status(Limit.per_minute("rpm", 60), 1), status(Limit.per_minute("parent.rpm", 60), 1)]
    lease = Admitted([*own, *(replace(each, entity_id="project") for each in own)])
    names = [policy.split(";")[0] for policy in headers(lease, show="all")["RateLimit"].split(", ")]
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
    document = problem(refusal, show="all", instance="/answers/1")
    assert document == {
        "type": f"{PROBLEM_TYPES}rate",
        "reason": "rate",
        "title": "Too Many Requests",
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


TOTAL, SLOTS = Limit.total("credits", 10), Limit.concurrent("calls", 3)
CALENDAR = Limit.per_month("usd", 100)
REASONS = [
    (PER_MINUTE, 1, 5.0, "rate"),
    (CALENDAR, 1, 90_000.0, "quota"),
    (TOTAL, 1, math.inf, "quota"),
    (SLOTS, 1, 1.0, "concurrency"),
    (PER_MINUTE, 101, math.inf, "never"),
    (TOTAL, 11, math.inf, "never"),
    (SLOTS, 4, math.inf, "never"),
    (Limit.per_minute("blocked", 0), 1, math.inf, "disabled"),
]


@pytest.mark.parametrize(("limit", "requested", "wait", "reason"), REASONS)
def test_a_refusal_says_why(limit: Limit, requested: int, wait: float, reason: str) -> None:
    refusal = RateLimitExceeded([status(HOUR, 990), status(limit, 0, wait=wait, requested=requested)])
    document = problem(refusal)
    assert (refusal.reason, refusal.as_dict()["reason"], document["reason"]) == (reason,) * 3
    assert document["type"] == f"{PROBLEM_TYPES}{reason}"
    assert ("x-should-retry" in headers(refusal)) == (wait > 60)
    assert "x-should-retry" not in headers(refusal, show="nothing")


def test_the_longest_wait_gives_the_reason() -> None:
    both = [status(PER_MINUTE, 0, wait=5), status(CALENDAR, 0, wait=900)]
    assert RateLimitExceeded(both).reason == "quota"


def test_an_overflow_that_passes_sooner_gives_the_reason() -> None:
    never = status(PER_MINUTE, 0, wait=math.inf, requested=101)
    refusal = RateLimitExceeded([never], overflow=[status(CALENDAR, 0, wait=30)])
    assert (refusal.reason, headers(refusal)["Retry-After"]) == ("quota", "30")
    assert "x-should-retry" not in headers(refusal)


@pytest.mark.parametrize(("wait", "told"), [(60.0, None), (60.1, "false"), (math.inf, "false")])
def test_a_wait_beyond_patience_is_not_retried(wait: float, told: str | None) -> None:
    assert headers(RateLimitExceeded([status(DAY, 0, wait=wait)])).get("x-should-retry") == told


@pytest.mark.parametrize(("seconds", "told"), [(0.2, "1s"), (59.5, "1m0s"), (360, "6m0s"), (3661, "1h1m1s")])
def test_openai_reads_times_as_it_writes_them(seconds: float, told: str) -> None:
    assert headers(Admitted([status(PER_MINUTE, 9, more=seconds)]), openai=True)["x-ratelimit-reset-requests"] == told


def test_slots_and_money_have_no_fields_of_openai() -> None:
    more = [status(SLOTS, 0), status(Limit.money("usd", "5", per="day"), 0)]
    found = headers(Admitted([status(PER_MINUTE, 9), *more]), openai=True)
    assert found["x-ratelimit-remaining-requests"] == "9"
    assert not [name for name in found if name.endswith("-tokens")]


@pytest.mark.parametrize("show", ["own", "retry_after"])
def test_only_spent_money_is_402(show: Show) -> None:
    money = status(Limit.money("usd", "5", per="month"), 0, wait=900)
    for short, wanted in ((money, 402), (status(CALENDAR, 0, wait=900), 429), (status(HOUR, 0, wait=9), 429)):
        document = problem(RateLimitExceeded([short]), show=show, payment_required=True)
        assert document["status"] == (wanted if show == "own" else 429)
    assert problem(RateLimitExceeded([money]))["status"] == 429
    assert not RateLimitExceeded([money, status(PER_MINUTE, 0, wait=math.inf, requested=101)]).spends_money
