"""`expires` of a total in a manifest: its texts, its bounds, and what is refused."""

import pytest

from zae_limiter_manifest import Address, Change, LimitDecl, LimitsManifest, ManifestError, ResourceDecl, dump, load
from zae_limiter_manifest.canonical import canonical
from zae_limiter_manifest.cloudformation import StackProperties
from zae_limiter_manifest.json_schema import json_schema
from zae_limiter_manifest.render.words import live_and_declared, parts

WEEK = 7 * 86_400
BUDGET = LimitDecl(500, kind="total", expires=WEEK)


def with_limit(limit: str) -> LimitsManifest:
    return load(f"namespace: a\nresources: {{agents: {{limits: {{calls: {limit}}}}}}}\n", "limits.yaml")


@pytest.mark.parametrize(
    "limit",
    [
        "500 total expires 7d",
        "500 total expires 168h",
        "{capacity: 500, kind: total, expires: 604800}",
    ],
)
def test_text_and_map_mean_the_same_and_are_written_as_a_text(limit: str) -> None:
    manifest = with_limit(limit)
    assert manifest.resources["agents"].limits["calls"] == BUDGET
    assert "calls: 500 total expires 7d\n" in dump(manifest)
    assert load(dump(manifest)) == manifest
    given = StackProperties(manifest).to_dict()["Resources"]["agents"]["Limits"]["calls"]
    assert given == {"Capacity": 500, "Kind": "total", "Expires": WEEK}


def test_a_total_that_never_expires_has_the_fingerprint_that_it_had() -> None:
    never = canonical(ResourceDecl({"calls": LimitDecl(500, kind="total")}))
    assert never == 'calls ["total", "", "UTC", 1] 500 500 500 60'
    assert canonical(ResourceDecl({"calls": BUDGET})) == f"{never} 604800"


def test_a_plan_tells_it() -> None:
    before, after = (ResourceDecl({"calls": LimitDecl(500, kind="total", expires=n * WEEK)}) for n in (0, 1))
    change = Change(Address("agents"), before, after)
    assert [part.text for part in parts(change)] == ["expires 0 -> 604800"]
    assert live_and_declared(change) == ["calls: expires is 0, declared 604800"]


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        (
            "500 total expires 23h",
            "must be at least 86,400 seconds, a day, beside `kind: total`, not 82,800; leave it out for a total that",
        ),
        ("{capacity: 500, kind: total, expires: 60}", "must be at least 86,400 seconds, a day"),
        ("500 total expires 3651d", "must be at most 315360000"),
        ("5 concurrent expires 2d", "must be at most 86,400 seconds, a day, beside `kind: concurrent`"),
        ("{capacity: 5, expires: 86400}", "is for totals and slots: add `kind: total` or `kind: concurrent`"),
        ("{capacity: 5, window: month, expires: 86400}", "is for totals and slots"),
    ],
)
def test_a_mistake_is_named(limit: str, told: str) -> None:
    with pytest.raises(ManifestError) as caught:
        with_limit(limit)
    assert told in str(caught.value)


def test_the_schema_admits_ten_years() -> None:
    expires = json_schema()["$defs"]["LimitDecl"]["anyOf"][1]["properties"]["expires"]
    assert (expires["minimum"], expires["maximum"]) == (0, 10 * 365 * 86_400)
