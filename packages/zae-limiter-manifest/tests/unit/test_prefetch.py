"""The seconds that a process may prefetch tokens: of a limit, of its level, and what is not a number."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter_manifest import (
    Address,
    Change,
    LimitDecl,
    LimitsManifest,
    LiveOverride,
    ManifestError,
    ResourceDecl,
    dump,
    load,
)
from zae_limiter_manifest.cloudformation import StackProperties
from zae_limiter_manifest.render.words import live_and_declared, override_limits, parts

OFF, ON = LimitDecl(100_000), LimitDecl(100_000, prefetch=1)

OF_LEVELS = """\
namespace: a
system:
  prefetch: 0.5
  limits: {rpm: {capacity: 500}, tpm: {capacity: 9000, prefetch: 2}, off: {capacity: 500, prefetch: 0}}
resources: {gpt-4: {prefetch: 1, limits: {rpm: {capacity: 500}}}}
entities: {u: {resources: {_default_: {prefetch: 1.5, limits: {rpm: {capacity: 500}, none: {capacity: 0}}}}}}
"""
OF_LIMITS = """\
namespace: a
system:
  limits:
    'off': {capacity: 500}
    rpm: {capacity: 500, prefetch: 0.5}
    tpm: {capacity: 9000, prefetch: 2}
resources:
  gpt-4:
    limits:
      rpm: {capacity: 500, prefetch: 1}
entities:
  u:
    resources:
      _default_:
        limits:
          none: {capacity: 0, prefetch: 1.5}
          rpm: {capacity: 500, prefetch: 1.5}
"""


def problems(text: str) -> str:
    with pytest.raises(ManifestError) as caught:
        load(text, "limits.yaml")
    return str(caught.value)


def test_a_limit_prefetches_nothing_unless_told() -> None:
    assert (OFF.prefetch, OFF.usable_burst) == (0.0, 100_000)
    assert (ON.prefetch, ON.usable_burst, LimitDecl(0, prefetch=5).usable_burst) == (1.0, 98_333, 0)
    assert type(ON.prefetch) is float


def test_that_of_a_level_is_that_of_each_of_its_limits_that_has_none() -> None:
    quoted = OF_LEVELS.replace("off:", "'off':")
    assert load(quoted) == load(OF_LIMITS)
    assert load(quoted).canonical_hash() == load(OF_LIMITS).canonical_hash()
    assert load(dump(load(quoted))) == load(OF_LIMITS)


@pytest.mark.parametrize("seconds", ["0", "0.0", "-0.0", "1", "1.5", ".5", "0.001", "1_0", "3600", "8.33"])
def test_a_number_with_three_decimals_is_read(seconds: str) -> None:
    decl = load(
        f"namespace: a\nsystem: {{limits: {{tpd: {{capacity: 9, refill_period: 86400, prefetch: {seconds}}}}}}}"
    )
    assert decl.system is not None
    assert decl.system.limits["tpd"].prefetch == float(seconds)


@pytest.mark.parametrize(
    ("seconds", "problem"),
    [
        ("'1'", 'must be a number of seconds, not the string "1"'),
        ("1s", 'must be a number of seconds, not the string "1s"'),
        ("true", "must be a number of seconds, not the boolean true"),
        ("null", "must be a number of seconds, not null"),
        ("[1]", "must be a number of seconds, not a list"),
        ("-1", "must be from 0 to 3600 seconds, not -1"),
        ("3600.001", "must be from 0 to 3600 seconds, not 3600.001"),
        (".nan", "must be from 0 to 3600 seconds, not nan"),
        (".inf", "must be from 0 to 3600 seconds, not inf"),
        ("9" * 60, "must be from 0 to 3600 seconds, not (very large)"),
        ("0.0001", "must have at most three decimals, not 0.0001"),
        ("010", 'must be in decimal digits, not "010": write 8 or 10'),
        ("1:30.5", '"1:30.5" is a number in base 60 for YAML: write it in decimal digits, or put it in quotes'),
    ],
)
def test_anything_else_is_refused_on_limits_and_levels(seconds: str, problem: str) -> None:
    text = f"namespace: a\nsystem:\n  prefetch: {seconds}\n  limits: {{tpm: {{capacity: 60, prefetch: {seconds}}}}}\n"
    assert problems(text) == (
        f"limits.yaml:3:13: system.prefetch: {problem}\nlimits.yaml:4:42: system.limits.tpm.prefetch: {problem}"
    )


@pytest.mark.parametrize("value", ["1", True, None, -1, 3601, 1 / 3, float("nan")])
def test_plain_values_are_checked_as_strictly(value: Any) -> None:
    with pytest.raises(ManifestError, match="prefetch"):
        LimitDecl(500, prefetch=value)
    with pytest.raises(ManifestError, match="prefetch"):
        LimitsManifest.from_dict(
            {"namespace": "a", "system": {"prefetch": value, "limits": {"rpm": {"capacity": 500}}}}
        )


def test_seconds_that_leave_no_token_are_refused_with_the_most_that_do() -> None:
    text = "namespace: a\nsystem: {limits: {rps: {capacity: 10, refill_period: 1, prefetch: 1}}}"
    assert problems(text) == (
        "limits.yaml:2:67: system.limits.rps.prefetch: leaves no token of the burst of 10, because as many come in 1"
        " seconds: at most 0.9 seconds, or a larger burst"
    )
    assert load(text.replace("prefetch: 1", "prefetch: 0.9")).system is not None


def test_a_limit_that_the_seconds_of_its_level_do_not_fit_is_named() -> None:
    limits = "{rpm: {capacity: 10}, tpd: {capacity: 10, refill_period: 86400}}"
    text = f"namespace: a\nresources:\n  r:\n    prefetch: 60\n    limits: {limits}"
    assert problems(text) == (
        "limits.yaml:5:14: resources.r.limits.rpm: has the `prefetch` of its level, which leaves no token of the burst"
        " of 10, because as many come in 60 seconds: at most 54 seconds, or a larger burst"
    )


def test_the_bound_is_exact_where_a_float_is_not() -> None:
    assert 32.377 * 1000 > 32_377
    assert LimitDecl(281, burst=32_378, refill_amount=1000, refill_period=1, prefetch=32.377).usable_burst == 1


def test_the_seconds_of_a_level_need_limits() -> None:
    assert problems("namespace: a\nsystem: {prefetch: 1, on_unavailable: allow}") == (
        "limits.yaml:2:10: system.prefetch: is for the `limits` of this level, which has none: leave it out"
    )


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**6), st.integers(0, 3_600_000))
def test_a_declaration_is_valid_exactly_if_a_token_is_left(
    burst: int, amount: int, period: int, prefetch_ms: int
) -> None:
    try:
        decl = LimitDecl(burst, refill_amount=amount, refill_period=period, prefetch=prefetch_ms / 1000)
    except ManifestError:
        assert -(-amount * prefetch_ms // (period * 1000)) >= burst
    else:
        assert 1 <= decl.usable_burst == burst - -(-amount * prefetch_ms // (period * 1000))


def test_a_plan_shows_the_seconds_and_what_they_leave_of_the_burst() -> None:
    def shown(before: LimitDecl | None, after: LimitDecl | None) -> list[str]:
        sides = (ResourceDecl({"tpm": each}) if each else None for each in (before, after))
        return [part.text for part in parts(Change(Address("gpt-4"), *sides))]

    assert shown(OFF, ON) == ["prefetch 0 s -> 1 s, usable burst 100000 -> 98333"]
    assert shown(ON, LimitDecl(100_000, prefetch=1.5)) == ["prefetch 1 s -> 1.5 s, usable burst 98333 -> 97500"]
    assert shown(ON, OFF) == ["prefetch 1 s -> 0 s, usable burst 98333 -> 100000"]
    assert shown(None, ON) == ["100k/min prefetch 1s, usable burst 98333"]
    assert shown(OFF, LimitDecl(9000)) == ["capacity 100000 -> 9000"]


def test_drift_and_overrides_show_seconds() -> None:
    change = Change(Address("gpt-4"), ResourceDecl({"tpm": OFF}), ResourceDecl({"tpm": ON}), drift=True)
    assert live_and_declared(change) == ["tpm: prefetch is 0 s, declared 1 s; usable burst is 100000, declared 98333"]
    override = LiveOverride(Address("gpt-4", "user-1"), "2026-11-27T18:00:00Z", ResourceDecl({"tpm": ON}))
    assert [part.text for part in override_limits(override)] == ["100k/min prefetch 1s"]


def test_a_change_comes_back_from_json() -> None:
    change = Change(Address("gpt-4"), ResourceDecl({"tpm": OFF}), ResourceDecl({"tpm": ON}))
    assert Change.from_dict(json.loads(json.dumps(change.to_dict()))) == change


@pytest.mark.parametrize("said", [1.5, "1.5", "1.50", "15E-1"])
def test_cloudformation_may_pass_text(said: object) -> None:
    limits = {"rpm": {"Capacity": "500"}, "tpm": {"Capacity": 500, "Prefetch": said}}
    raw = {"Namespace": "a", "Resources": {"r": {"Prefetch": "1", "Limits": limits}}}
    found = StackProperties.from_dict(raw).manifest.resources["r"].limits
    assert {name: each.prefetch for name, each in found.items()} == {"rpm": 1.0, "tpm": 1.5}


def test_cloudformation_has_the_same_bound() -> None:
    raw = {"Namespace": "a", "System": {"Prefetch": "60", "Limits": {"rpm": {"Capacity": "10"}}}}
    with pytest.raises(
        ManifestError, match=r"System\.Limits\.rpm: has the `Prefetch` of its level, which leaves no token"
    ):
        StackProperties.from_dict(raw)


def test_the_properties_of_a_stack_come_back() -> None:
    properties = StackProperties(load(OF_LIMITS))
    assert properties.to_dict()["Resources"]["gpt-4"]["Limits"]["rpm"] == {"Capacity": 500, "Prefetch": 1.0}
    assert StackProperties.from_dict(properties.to_dict()) == properties
