"""Calendar windows and totals in a manifest: what they are, how they are written, and what is refused."""

import json

import pytest

from zae_limiter_manifest import (
    Address,
    Change,
    LimitDecl,
    LimitsManifest,
    ManifestError,
    ResourceDecl,
    dump,
    json_schema,
    load,
)
from zae_limiter_manifest.canonical import canonical
from zae_limiter_manifest.changes import fingerprint
from zae_limiter_manifest.cloudformation import StackProperties
from zae_limiter_manifest.render.words import live_and_declared, parts

TEXT = """\
namespace: a
resources:
  gpt-4:
    limits:
      credits: 500 total
      seats: 3 cron 0 6 * * MON Europe/Berlin
      usd: 250/month Europe/Berlin from 15 burst 350
"""
USD = LimitDecl(250, burst=350, window="month", timezone="Europe/Berlin", starts_on=15)


def problems(limit: str, level: str = "") -> str:
    with pytest.raises(ManifestError) as caught:
        load(f"namespace: a\nsystem: {{{level}limits: {{usd: {limit}}}}}\n", "limits.yaml")
    return str(caught.value)


def test_windows_are_read_and_written() -> None:
    manifest = load(TEXT, "limits.yaml")
    in_full = """{credits: {capacity: 500, kind: total},
        seats: {capacity: 3, window: 0 6 * * MON, timezone: Europe/Berlin},
        usd: {capacity: 250, burst: 350, window: month, timezone: Europe/Berlin, starts_on: 15}}"""
    assert load(f"namespace: a\nresources: {{gpt-4: {{limits: {in_full}}}}}") == manifest
    limits = manifest.resources["gpt-4"].limits
    assert limits["usd"] == USD
    assert [limits[name].kind for name in limits] == ["total", "calendar", "calendar"]
    assert dump(manifest) == TEXT
    assert LimitsManifest.from_dict(manifest.to_dict()) == manifest


@pytest.mark.parametrize("window", ["0  6 * * MON", " 0\t6 * * MON "])
def test_a_cron_expression_has_one_space_between_its_fields(window: str) -> None:
    limit = LimitDecl(3, window=window)
    assert (limit, limit.text) == (LimitDecl(3, window="0 6 * * MON"), "3 cron 0 6 * * MON UTC")
    limits = f"{{seats: {{capacity: 3, window: {json.dumps(window)}}}}}"
    manifest = load(f"namespace: a\nresources: {{gpt-4: {{limits: {limits}}}}}\n")
    assert manifest.resources["gpt-4"].limits == {"seats": limit}
    assert load(dump(manifest)) == manifest


def test_a_stack_passes_them_as_text() -> None:
    manifest = load(TEXT, "limits.yaml")
    properties = StackProperties(manifest).to_dict()
    usd = properties["Resources"]["gpt-4"]["Limits"]["usd"]
    assert usd == {"Capacity": 250, "Burst": 350, "Window": "month", "Timezone": "Europe/Berlin", "StartsOn": 15}
    usd["StartsOn"] = "15"
    assert StackProperties.from_dict(json.loads(json.dumps(properties))).manifest == manifest
    usd["StartsOn"] = "32"
    with pytest.raises(ManifestError, match="must be at most 31"):
        StackProperties.from_dict(properties)
    usd |= {"StartsOn": "9", "Window": "week"}
    with pytest.raises(ManifestError, match="StartsOn: must be at most 7 with `window: week`"):
        StackProperties.from_dict(properties)


def test_a_plan_tells_what_changes() -> None:
    change = Change(Address("r"), ResourceDecl({"usd": LimitDecl(250)}), ResourceDecl({"usd": USD}))
    [told] = live_and_declared(change)
    assert told == (
        "usd: burst is 250, declared 350; window is absent, declared month; timezone is UTC, declared Europe/Berlin; "
        "starts_on is 1, declared 15"
    )


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (USD, "250/month Europe/Berlin from 15 burst 350"),
        (LimitDecl(3, window="0 6 * * MON", shadow=True), "3 cron 0 6 * * MON UTC shadow"),
        (LimitDecl(500, kind="total", weights={"output": 4}), "500 total, weights output=4"),
    ],
)
def test_a_plan_tells_a_limit_that_comes_as_its_text(limit: LimitDecl, said: str) -> None:
    assert [part.text for part in parts(Change(Address("r"), None, ResourceDecl({"usd": limit})))] == [said]


def test_a_token_bucket_has_the_fingerprint_of_earlier_releases() -> None:
    assert canonical(ResourceDecl({"rpm": LimitDecl(5, prefetch=0.5, burst=90)})) == "rpm 5 90 5 60 prefetch 500"
    others = [USD, LimitDecl(250, burst=350), LimitDecl(250, burst=350, kind="total")]
    others += [LimitDecl(250, burst=350, window="month"), LimitDecl(250, burst=350, window="month", starts_on=15)]
    assert len({fingerprint(ResourceDecl({"usd": limit})) for limit in others}) == len(others)


def test_the_prefetch_of_a_level_is_not_for_limits_that_come_at_once() -> None:
    text = "namespace: a\nsystem: {prefetch: 0.5, limits: {rpm: {capacity: 500}, usd: {capacity: 5, window: day}}}\n"
    limits = load(text, "limits.yaml").system.limits  # type: ignore[union-attr]
    assert (limits["rpm"].prefetch, limits["usd"].prefetch) == (0.5, 0)


def test_the_schema_has_their_keys() -> None:
    _, whole = json_schema()["$defs"]["LimitDecl"]["anyOf"]
    properties = whole["properties"]
    assert {"kind", "window", "timezone", "starts_on"} <= properties.keys()
    assert properties["kind"]["enum"] == ["token_bucket", "calendar", "first_use", "total", "concurrent"]


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        ("{capacity: 5, window: fortnight}", "must be `minute`, `hour`"),
        ("{capacity: 5, window: 3600}", "must be a string, not the integer 3600"),
        ("{capacity: 5, window: '0 25 * * *'}", "is not a cron expression that fires"),
        ("{capacity: 5, window: '0 6 30 2 *'}", "is not a cron expression that fires"),
        (
            "{capacity: 5, window: month, timezone: Europe/Berlln}",
            'must be a time zone, not "Europe/Berlln", did you mean `Europe/Berlin`?',
        ),
        ("{capacity: 5, window: month, timezone: ../../etc}", "must be a time zone"),
        ("{capacity: 5, window: month, timezone: localtime}", "must be a time zone like `Europe/Berlin`"),
        ("{capacity: 5, window: month, timezone: posixrules}", "must be a time zone like `Europe/Berlin`"),
        ("{capacity: 5, window: month, starts_on: 32}", "must be at most 31"),
        ("{capacity: 5, window: week, starts_on: 8}", "must be at most 7 with `window: week`"),
        ("{capacity: 5, window: day, starts_on: 2}", "must be at most 1 with `window: day`"),
        ("{capacity: 5, window: hour, timezone: Asia/Kolkata}", "begins at the full hour of UTC"),
        ("{capacity: 5, timezone: Europe/Berlin}", "is for a `window`: add one"),
        ("{capacity: 5, starts_on: 3}", "is for a `window`: add one"),
        ("{capacity: 5, kind: calendar}", "needs a `window`"),
        ("{capacity: 5, kind: total, window: month}", 'must not be "total" beside a `window`'),
        ("{capacity: 5, kind: totl}", "did you mean `total`?"),
        ("{capacity: 5, kind: total, refill_amount: 3}", "means nothing beside `kind: total`"),
        ("{capacity: 5, window: month, refill_period: 3600}", "means nothing beside `kind: calendar`"),
        ("{capacity: 5, window: month, prefetch: 1}", "means nothing beside `kind: calendar`"),
    ],
)
def test_a_mistake_is_named_with_its_place(limit: str, told: str) -> None:
    said = problems(limit)
    assert told in said
    assert "limits.yaml:2" in said


def test_windows_of_the_first_use_are_texts() -> None:
    text = "namespace: a\nsystem:\n  limits:\n    rpm: 100 per hour from first use\n"
    manifest = load(text, "limits.yaml")
    assert manifest.system is not None
    rpm = manifest.system.limits["rpm"]
    assert rpm == LimitDecl(100, kind="first_use", refill_period=3600)
    assert dump(manifest) == text
    assert LimitsManifest.from_dict(manifest.to_dict()) == manifest
    assert load(text.replace("hour", "3600s"), "limits.yaml") == manifest
    assert StackProperties.from_dict(json.loads(json.dumps(StackProperties(manifest).to_dict()))).manifest == manifest
    assert canonical(manifest.system) == 'rpm ["first_use", "", "UTC", 1] 100 100 100 3600'


@pytest.mark.parametrize(
    ("limit", "problem"),
    [
        ("{capacity: 5, window: 3600}", "write the limit as `100 per 3600s from first use`"),
        ("{capacity: 5, kind: first_use, burst: 9}", "burst: means nothing beside `kind: first_use`"),
        ("{capacity: 5, kind: first_use, refill_amount: 9}", "refill_amount: means nothing beside"),
        ("{capacity: 5, kind: first_use, prefetch: 1}", "prefetch: means nothing beside"),
        ("{capacity: 5, kind: first_use, window: day}", "beside a `window`"),
        ("100 per 5x from first use", "5x is not a period"),
        ("100 per hour from", "is not a limit"),
        ("100 per hour from first use prefetch", "is not a limit"),
    ],
)
def test_what_does_not_go_with_a_first_use_has_one_line(limit: str, problem: str) -> None:
    assert problem in problems(limit).replace("\n  ", " ")
