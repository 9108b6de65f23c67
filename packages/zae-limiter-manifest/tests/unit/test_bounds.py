"""What a file may give within bounds: no level, however it is written, gives a caller more than a bound."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zae_limiter_manifest import Bounds, LimitsManifest, ManifestError, load
from zae_limiter_manifest.bounds import MOST_NAMES, find_beyond, refuse_beyond
from zae_limiter_manifest.problems import format_path

BOUNDS = Bounds.from_yaml(
    """
    limits: {rpm: 1000/min, usd: $500/month, tpd: 10k per 1d from first use, slots: 5 concurrent, trial: 100 total}
    parents: [org-*, acme]
    tiers: [free, pro]
    """
)
ALL = {"rpm": "1000/min", "usd": "$500/month", "tpd": "10k per 1d from first use", "slots": "5 concurrent"} | {
    "trial": "100 total"
}


def beyond(bounds: Bounds = BOUNDS, /, **levels: Any) -> list[str]:
    """The paths beyond the bounds."""
    return [format_path(each.path) for each in find_beyond(manifest(**levels), bounds)]


def manifest(**levels: Any) -> LimitsManifest:
    return LimitsManifest.from_dict({"namespace": "a", **levels})


def bound(name: str, limit: Any) -> Bounds:
    return Bounds.from_dict({"limits": {name: limit}})


LEVELS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "system": lambda level: {"system": level},
    "resources.gpt": lambda level: {"resources": {"gpt": level}},
    'resources["gpt/*"]': lambda level: {"resources": {"gpt/*": level}},
    'resources["*"]': lambda level: {"resources": {"*": level}},
    "tiers.pro.resources.gpt": lambda level: {"tiers": {"pro": {"resources": {"gpt": level}}}},
    "tiers.pro.resources._default_": lambda level: {"tiers": {"pro": {"resources": {"_default_": level}}}},
    "entities.ann.resources.gpt": lambda level: {"entities": {"ann": {"resources": {"gpt": level}}}},
    "entities.ann.resources._default_": lambda level: {"entities": {"ann": {"resources": {"_default_": level}}}},
}


@pytest.mark.parametrize("at", LEVELS)
class TestEachLevel:
    def test_within_the_bounds(self, at: str) -> None:
        assert beyond(**LEVELS[at]({"limits": ALL})) == []

    @pytest.mark.parametrize(
        ("name", "limit"),
        [
            ("rpm", "1001/min"),
            ("rpm", "1000/min burst 1001"),
            ("rpm", "1000/min capacity 1001"),
            ("rpm", "1000/min shadow"),
            ("rpm", {"capacity": 1, "refill_amount": 1001, "burst": 1}),
            ("rpm", {"capacity": 1000, "schedule": ["night: 00:00-06:00 1001/min"]}),
            ("rpm", {"capacity": 1000, "schedule": ["night: 00:00-06:00 capacity 1001"]}),
            ("rpm", {"capacity": 1000, "schedule": ["day: 06:00-20:00 1/min", "night: 22:00-23:00 1/min burst 2000"]}),
            ("usd", "$500.01/month"),
            ("usd", "500/month"),
            ("usd", "€500/month"),
            ("usd", "$500/month burst $501"),
            ("slots", "6 concurrent"),
            ("trial", "101 total"),
            ("tpd", "10001 per 1d from first use"),
        ],
    )
    def test_above_a_bound(self, at: str, name: str, limit: Any) -> None:
        assert beyond(**LEVELS[at]({"limits": ALL | {name: limit}})) == [f"{at}.limits.{name}"]

    def test_unlimited(self, at: str) -> None:
        assert beyond(**LEVELS[at]({"limits": "unlimited"})) == [f"{at}.limits"]

    def test_a_level_that_admits_everything(self, at: str) -> None:
        if not at.startswith("tiers"):  # which has no switches
            assert beyond(**LEVELS[at]({"limits": ALL, "bypass": True})) == [f"{at}.bypass"]
            assert beyond(**LEVELS[at]({"limits": ALL, "disabled": True, "reason": "late"})) == []

    def test_all_of_a_level_in_shadow(self, at: str) -> None:
        assert beyond(bound("rpm", "9/min"), **LEVELS[at]({"limits": {"rpm": "1/min"}, "shadow": True})) == [
            f"{at}.limits.rpm"
        ]

    def test_a_bounded_name_that_is_left_out_of_a_level_that_replaces(self, at: str) -> None:
        left = {name: limit for name, limit in ALL.items() if name != "rpm"}
        found = beyond(**LEVELS[at]({"limits": left}))
        assert found == ([] if at == "system" else [f"{at}.limits"])  # below the system nothing makes it unlimited
        if at != "system":
            assert beyond(**LEVELS[at]({"limits": left, "extends": True})) == []
            above = left | {"usd": "$501/month"}
            assert beyond(**LEVELS[at]({"limits": above, "extends": True})) == [f"{at}.limits.usd"]

    def test_names_without_a_bound_are_free(self, at: str) -> None:
        assert beyond(**LEVELS[at]({"limits": ALL | {"other": "1M/sec"}})) == []

    def test_bounds_without_limits_leave_all_of_them_free(self, at: str) -> None:
        assert beyond(Bounds.from_dict({"tiers": ["pro"]}), **LEVELS[at]({"limits": "unlimited"})) == []


PAIRS = [
    # the limit, its bound, whether it is within it
    ("1000/min", "1000/min", True),
    ("0/min", "1000/min", True),
    ("0/min", "0/min", True),
    ("1/min", "0/min", False),
    ("500/min burst 1000", "1000/min", True),
    ("10/sec", "1000/min", True),
    ("17/sec", "1000/min", False),
    ("60k/hour", "1000/min", False),  # at once
    ("1000/min", "60k/hour", True),
    ("1001/min", "60k/hour", False),
    ("1000/min burst 2000", "1000/min burst 2000", True),
    ("1000/min prefetch 1s", "1000/min", True),
    ("500/minute UTC", "1000/min", True),  # twice around the end of a minute
    ("501/minute UTC", "1000/min", False),
    ("500 cron * * * * * UTC", "1000/min", False),  # how long it lasts is not known
    ("500 per 1min from first use", "1000/min", True),
    ("1000 total", "1000/min", True),
    ("1001 total", "1000/min", False),
    ("$500/month", "$500/month UTC", True),
    ("$500/calendar month", "$500/month UTC", True),
    ("$500/month Europe/Berlin", "$500/month UTC", False),  # twice in a month of UTC
    ("$500/month UTC from 15", "$500/month UTC", False),
    ("$150/month Europe/Berlin", "$500/month UTC", True),
    ("$10/day UTC", "$500/month UTC", True),
    ("$16/day UTC", "$500/month UTC", False),
    ("$500/year UTC", "$1000/month UTC", False),
    ("$400/year UTC", "$1000/month UTC", True),
    ("$500/rolling day", "$500/month UTC", False),
    ("$0.01/min burst $1", "$500/month UTC", True),
    ("$1/min", "$500/month UTC", False),
    ("$500 per 30d from first use", "$500/month UTC", False),
    ("$150 per 30d from first use", "$500/month UTC", True),
    ("500/month", "$500/month UTC", False),
    ("$1/month", "500/month UTC", False),
    ("$0/month", "500/month UTC", True),  # which blocks, whatever of
    ("€1/month", "$500/month UTC", False),
    ("100 cron 0 0 * * MON UTC", "100 cron 0 0 * * MON UTC", True),
    ("101 cron 0 0 * * MON UTC", "100 cron 0 0 * * MON UTC", False),
    ("100 cron 0 0 * * * UTC", "100 cron 0 0 * * MON UTC", False),
    ("1/week UTC", "100 cron 0 0 * * MON UTC", False),
    ("100 per 1d from first use", "100 per 1d from first use", True),
    ("100 per 1h from first use", "100 per 1d from first use", False),
    ("50 per 2d from first use", "100 per 1d from first use", False),
    ("30 per 2d from first use", "100 per 1d from first use", True),
    ("5 concurrent", "5 concurrent", True),
    ("6 concurrent", "5 concurrent", False),
    ("1 concurrent", "1000/min", False),
    ("1/min", "5 concurrent", False),
    ("0 concurrent", "1000/min", True),
    ("100 total", "100 total", True),
    ("101 total", "100 total", False),
    ("100 total expires 90d", "100 total", False),  # begins anew
    ("100 total", "100 total expires 90d", True),
    ("100 total expires 100d", "100 total expires 90d", True),
    ("100 total expires 80d", "100 total expires 90d", False),
    ("1/year UTC", "100 total", False),
    ("1/min", "100 total", False),
    ("$100 total", "$500/month UTC", True),
    ("$100 total expires 1d", "$500/month UTC", False),
    ("$10 total expires 1d", "$500/month UTC", True),
]


@pytest.mark.parametrize(("limit", "most", "within"), PAIRS)
def test_what_is_within_a_bound(limit: str, most: str, *, within: bool) -> None:
    found = beyond(bound("b", most), system={"limits": {"b": limit}})
    assert found == ([] if within else ["system.limits.b"])


WEIGHTS = [
    (None, None, True),
    ({"input": 1, "output": 1}, None, True),
    ({"input": 1, "output": 4, "cached": 1}, None, True),
    ({"input": 1, "output": 1, "cached": 0.1}, None, False),
    ({"output": 1}, None, False),  # input counts as nothing
    ({"input": 0, "output": 0}, None, False),
    (None, {"input": 1, "output": 4}, False),
    ({"input": 1, "output": 4}, {"input": 1, "output": 4}, True),
    ({"input": 1, "output": 3}, {"input": 1, "output": 4}, False),
    ({"input": 1, "output": 4, "reasoning": 1}, {"input": 1, "output": 4}, False),
    ({"input": 1, "output": 4, "cached": 0.1}, {"input": 1, "output": 4, "cached": 0.1}, True),
]


@pytest.mark.parametrize(("mine", "theirs", "within"), WEIGHTS)
def test_tokens_that_count_for_less_are_more_of_them(mine: Any, theirs: Any, *, within: bool) -> None:
    def limit(weights: Any) -> dict[str, Any]:
        return {"capacity": 100, **({"weights": weights} if weights else {})}

    found = beyond(bound("tpm", limit(theirs)), system={"limits": {"tpm": limit(mine)}})
    assert found == ([] if within else ["system.limits.tpm"])


class TestParentsAndTiers:
    def test_parents_that_fit(self) -> None:
        ids: dict[str, Any] = {each: {} for each in ("org-1", "acme")}
        assert beyond(entities={**ids, "ann": {"parents": ["org-1", "acme"]}, "bob": {"parent": "acme"}}) == []

    @pytest.mark.parametrize("parent", ["boss", "my-org-1", "ORG-1", "acme-2", "org", "*", "org_1"])
    def test_other_parents(self, parent: str) -> None:
        entities = {parent: {}, "org-1": {}, "ann": {"parent": parent}, "bob": {"parents": ["org-1", parent]}}
        assert beyond(entities=entities) == ["entities.ann.parent", "entities.bob.parents[1]"]

    def test_no_parent_at_all(self) -> None:
        none = Bounds.from_dict({"parents": []})
        assert beyond(none, entities={"org": {}, "ann": {"parent": "org"}}) == ["entities.ann.parent"]
        assert beyond(none, entities={"org": {}, "ann": {}}) == []
        assert beyond(Bounds.from_dict({"parents": ["*"]}), entities={"org": {}, "ann": {"parent": "org"}}) == []

    def test_another_spelling_of_a_name_is_the_same_name(self) -> None:
        bounds = Bounds.from_dict({"parents": ["zu\u0308rich"]})
        assert beyond(bounds, entities={"z\u00fcrich": {}, "ann": {"parent": "z\u00fcrich"}}) == []

    def test_a_tier_that_is_not_allowed_is_neither_declared_nor_used(self) -> None:
        level = {"resources": {"_default_": {"limits": ALL}}}
        found = beyond(tiers={"vip": level, "pro": level}, entities={"ann": {"tier": "vip"}, "bob": {"tier": "pro"}})
        assert found == ["tiers.vip", "entities.ann.tier"]

    def test_bounds_of_limits_alone_allow_every_parent_and_tier(self) -> None:
        level = {"resources": {"_default_": {"limits": {"rpm": "1/min"}}}}
        entities = {"boss": {}, "ann": {"parent": "boss", "tier": "vip"}}
        assert beyond(bound("rpm", "9/min"), tiers={"vip": level}, entities=entities) == []


SAME_PERIOD, SAME_UNIT = "write it with the same period", "give both the same unit"
EXTEND = "add `extends: true`"
OF_ANN = "entities.ann.resources.gpt.limits"
SAID = [
    "system.bypass admits every call, beyond the bounds of rpm, usd: leave it out",
    "system.limits.rpm is 2k/min, above its bound, 1k/min",
    f"resources.gpt.limits.rpm is 60k/hour, which gives 60k at once, above its bound, 1k/min: {SAME_PERIOD}",
    f"resources.gpt.limits.usd is 5/min, which does not compare with its bound, $500/month UTC: {SAME_UNIT}",
    "tiers.vip.resources._default_.limits is unlimited, beyond the bounds of rpm, usd: give limits within them",
    f"{OF_ANN} leaves out rpm, which has a bound, and so is unlimited here: name it, at most 1k/min, or {EXTEND}",
    f"{OF_ANN}.usd is $600/month UTC, above its bound, $500/month UTC",
    'tiers.vip tier "vip" may not be used here: the bounds allow none',
    'entities.ann.parent "boss" may not be a parent here: the bounds allow none',
]


def test_what_is_said_of_it() -> None:
    found = find_beyond(
        manifest(
            system={"limits": {"rpm": "2000/min", "usd": "$1/day UTC"}, "bypass": True},
            resources={"gpt": {"limits": {"rpm": "60k/hour", "usd": {"capacity": 5, "schedule": ["a: mon 6/min"]}}}},
            tiers={"vip": {"resources": {"_default_": {"limits": "unlimited"}}}},
            entities={"boss": {}, "ann": {"parent": "boss", "resources": {"gpt": {"limits": {"usd": "$600/month"}}}}},
        ),
        Bounds.from_yaml("{limits: {rpm: 1000/min, usd: $500/month}, parents: [], tiers: []}"),
    )
    assert [f"{format_path(each.path)} {each.message}" for each in found] == SAID


def test_the_place_in_the_file(tmp_path: Path) -> None:
    text = "namespace: a\nsystem:\n  limits:\n    rpm: 2000/min\nentities:\n  boss: {}\n  ann: {parent: boss}\n"
    with pytest.raises(ManifestError) as caught:
        refuse_beyond([("a.yaml", text)], BOUNDS)
    assert [(each.line, each.column) for each in caught.value.problems] == [(4, 10), (7, 17)]
    assert caught.value.with_excerpts().splitlines()[:3] == [
        "a.yaml:4:10: system.limits.rpm: is 2k/min, above its bound, 1k/min",
        "    4 |     rpm: 2000/min",
        "      |          ^",
    ]
    refuse_beyond([("a.yaml", text.replace("2000", "1").replace("boss", "acme"))], BOUNDS)


class TestTheFile:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("{}", "b.yaml:1:1: (document): must name limits, parents or tiers"),
            ("limits: {}", "b.yaml:1:1: (document): must name limits, parents or tiers"),
            ("- a", "b.yaml:1:1: (document): must be a map, not a list"),
            ("limits: unlimited", 'b.yaml:1:9: limits: must be a map, not the string "unlimited"'),
            ("limits: {rpm: 5}", "b.yaml:1:15: limits.rpm: must be a limit, not the integer 5: a text such as 100/min"),
            (
                "limits: {usd: 5/month}",
                "b.yaml:1:15: limits.usd: is not money, as limits named usd are: write 500 usd/",
            ),
            ("limits: {rpm: 5/min shadow}", "b.yaml:1:15: limits.rpm: has `shadow`, and a bound is the most at all t"),
            ("limits: {rpm: 5/min prefetch 1s}", "b.yaml:1:15: limits.rpm: has `prefetch`, and a bound is the most at"),
            (
                "limits: {rpm: {capacity: 5, schedule: ['a: mon 1/min']}}",
                "b.yaml:1:15: limits.rpm: has `schedule`, and",
            ),
            ("tiers: gold", 'b.yaml:1:8: tiers: must be a list of names, not the string "gold"'),
            ("tiers: [7]", "b.yaml:1:9: tiers[0]: must be a string, not the integer 7"),
            ("parents: [a, a]", 'b.yaml:1:14: parents[1]: "a" is there already: leave one out'),
            ("limit: {rpm: 5/min}", 'b.yaml:1:1: limit: unknown key "limit", did you mean `limits`?'),
            (f"tiers: {json.dumps([f't{n}' for n in range(MOST_NAMES + 1)])}", "b.yaml:1:8: tiers: must have 0 to 100"),
        ],
    )
    def test_a_mistake_is_said_with_its_place(self, text: str, said: str) -> None:
        with pytest.raises(ManifestError) as caught:
            Bounds.from_yaml(text, "b.yaml")
        assert str(caught.value).startswith(said)

    def test_all_mistakes_are_said_together(self) -> None:
        with pytest.raises(ManifestError) as caught:
            Bounds.from_yaml("limits: {usd: 5/month, rpm: 5/min shadow}")
        assert len(caught.value.problems) == 2

    def test_yaml_and_plain_values_are_read_back_as_they_were(self) -> None:
        weighed = Bounds.from_dict({"limits": {"tpm": {"capacity": 9, "weights": {"input": 1, "output": 2}}}})
        for bounds in (BOUNDS, weighed, Bounds.from_dict({"parents": [], "tiers": []})):
            assert (
                Bounds.from_yaml(bounds.to_yaml())
                == bounds
                == Bounds.from_dict(json.loads(json.dumps(bounds.to_dict())))
            )
        assert Bounds.from_yaml("limits: {usd: 500.50/month}").to_yaml() == 'limits:\n  usd: "$500.50/month UTC"\n'


def test_yaml_that_shares_parts_is_held_against_the_bounds_as_it_is_read() -> None:
    text = """
    namespace: a
    x-big: &big {rpm: 2000/min}
    resources: {gpt: {limits: {<<: *big}}}
    """
    assert [format_path(each.path) for each in find_beyond(load(text), bound("rpm", "1000/min"))] == [
        "resources.gpt.limits.rpm"
    ]
