"""Limits of several: a key, its user, its team, and everybody together."""

import pytest

from museum.exhibits import shows
from museum.stage import Stage, admitted, passes
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter

ONE = {"cents": 1}


def path(limiter: SyncRateLimiter, budgets: dict[str, int], parents: dict[str, list[str]]) -> None:
    """Store who is above whom, and the budget of each."""
    for entity, budget in budgets.items():
        above = parents.get(entity, [])
        limiter.create_entity(entity, parent_ids=above, cascade=bool(above))
        limiter.set_limits(entity, [Limit.total("cents", budget)])


@shows(
    "https://github.com/BerriAI/litellm/issues/27394",
    "[Bug]: User max_budget check in common_checks() skipped for team-associated API keys (Budget Bypass)",
)
def test_the_budget_of_a_user_holds_for_keys_of_a_team(stage: Stage) -> None:
    limiter = stage.process()
    path(limiter, {"user": 3, "team": 100, "key": 1_000}, {"key": ["user", "team"]})
    assert admitted(20, lambda: passes(limiter, "key", ONE)) == 3
    assert limiter.available("team", "gpt-4") == {"cents": 97}

    user, team = 3, 100

    def user_is_asked_for_keys_without_a_team() -> bool:
        nonlocal user, team
        has_team = True
        if team < 1 or (user < 1 and not has_team):
            return False
        user, team = user - 1, team - 1
        return True

    assert admitted(20, user_is_asked_for_keys_without_a_team) == 20


@shows(
    "https://github.com/Kuadrant/limitador/issues/513",
    "RHCL / Kuadrant: multiple TokenRateLimitPolicy limits — restrictive limit shadowed",
)
def test_the_strictest_limit_wins_whatever_stands_beside_it(stage: Stage) -> None:
    limiter = stage.process()
    path(limiter, {"organisation": 100, "user": 3_000}, {"user": ["organisation"]})
    assert admitted(7, lambda: passes(limiter, "user", {"cents": 100})) == 1
    with pytest.raises(RateLimitExceeded) as refused, limiter.acquire("user", "gpt-4", {"cents": 100}):
        pass
    assert refused.value.refused_by == "organisation"

    left = {"user": 3_000, "organisation": 100}

    def first_limit_that_matches_decides() -> bool:
        name = next(iter(left))
        left[name] -= 100
        return left[name] >= 0

    assert admitted(7, first_limit_that_matches_decides) == 7


@shows(
    "https://github.com/BerriAI/litellm-docs/pull/735", "docs(proxy): document actual dynamic rate limiter v3 behavior"
)
def test_a_lone_key_gets_all_that_the_model_has(stage: Stage) -> None:
    limiter = stage.process()
    keys = {f"key-{number}": 100 for number in range(4)}
    path(limiter, {"model": 100, **keys}, {key: ["model"] for key in keys})
    assert admitted(200, lambda: passes(limiter, "key-0", ONE)) == 100

    used = 0

    def share_is_a_ceiling_above_the_threshold() -> bool:
        nonlocal used
        reservation, threshold = 0.25, 0.5
        if used >= max(reservation, threshold) * 100:
            return False
        used += 1
        return True

    assert admitted(200, share_is_a_ceiling_above_the_threshold) == 50


@shows(
    "https://github.com/alisaifee/flask-limiter/issues/108",
    "Global/application rate limits applied twice if per route rate limits are also specified",
)
def test_who_is_above_by_two_ways_counts_a_call_once(stage: Stage) -> None:
    limiter = stage.process()
    budgets = {"everybody": 10, "user": 100, "team": 100, "key": 100}
    path(limiter, budgets, {"user": ["everybody"], "team": ["everybody"], "key": ["user", "team"]})
    assert admitted(20, lambda: passes(limiter, "key", ONE)) == 10

    left = 10

    def each_way_counts() -> bool:
        nonlocal left
        for _ in ("user", "team"):
            left -= 1
        return left >= 0

    assert admitted(20, each_way_counts) == 5
