"""Levels that extend others: the limits that come together are no more than a bucket has."""

import pytest

from zae_limiter_manifest import ManifestError, load

SYSTEM = [f"s{number}" for number in range(20)]
PATTERN = [f"p{number}" for number in range(12)]
ADDS, ADDS_NOTHING = "{limits: {rpm: 1/min}, extends: true}", "{limits: {s1: 1/min}, extends: true}"
TIER = f"tiers: {{gold: {{resources: {{_default_: {ADDS_NOTHING}, y: {ADDS_NOTHING}}}}}}}"


def limits(names: list[str]) -> str:
    return "{" + ", ".join(f"{name}: 1/min" for name in names) + "}"


def of(rest: str, pattern: list[str] = PATTERN) -> str:
    return (
        f"namespace: n\nsystem: {{limits: {limits(SYSTEM)}}}\nresources:\n"
        f"  'a/*': {{limits: {limits(pattern)}, extends: true}}\n{rest}\n"
    )


@pytest.mark.parametrize(
    ("rest", "place", "count"),
    [
        (f"  a/b: {ADDS}", 'f:5:40: resources["a/b"]', "33 limits together"),
        (f"  'a/b*': {ADDS}", 'f:5:43: resources["a/b*"]', "33 limits together"),
        (
            f"tiers: {{gold: {{resources: {{a/b: {ADDS}}}}}}}",
            'f:5:65: tiers.gold.resources["a/b"]',
            "33 limits together",
        ),
        (
            f"  a/b: {ADDS_NOTHING}\nentities: {{e: {{resources: {{_default_: {ADDS}}}}}}}",
            "f:6:71: entities.e.resources._default_",
            '33 limits together on "a/*"',
        ),
        (
            f"{TIER}\nentities: {{e: {{tier: gold, resources: {{x: {ADDS}, a/c: {ADDS}}}}}}}",
            'f:6:119: entities.e.resources["a/c"]',
            "33 limits together",
        ),
    ],
)
def test_a_level_that_gives_too_many_with_others(rest: str, place: str, count: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load(of(rest), "f")
    expected = f"{place}.extends: gives {count}: a bucket has at most 32, so let one level not extend the next"
    assert str(caught.value).splitlines() == [expected]


def test_levels_that_end_the_search_add_nothing() -> None:
    many = limits([f"x{number}" for number in range(32)])
    rest = f"  a/b: {{limits: {many}}}\n  a/c: {{limits: unlimited}}\n"
    load(of(f"{rest}entities: {{e: {{resources: {{a/c: {ADDS}}}}}}}"))
    load(of(f"  a/b: {ADDS_NOTHING}", SYSTEM))
