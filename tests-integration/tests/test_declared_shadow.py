"""What lives here: shadow limits of a manifest, from its plan to the limiters that obey it, and back to a manifest.
What never does: what an acquire of a shadow limit writes (the tests of core).
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from support.integration.declared import Deployed, deployed_on
from support.integration.targets import Target
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter
from zae_limiter_manifest import LimitsManifest, Plan, dump, load
from zae_limiter_manifest.render import as_text

pytestmark = [pytest.mark.needs("endpoint", "atomic"), pytest.mark.apart]

A_DAY = 86_400


@pytest.fixture
def deployed(target: Target, table_name: str) -> Iterator[Deployed]:
    with deployed_on(target, table_name) as deployed:
        yield deployed


def declared(capacity: int = 10, *, shadow: bool) -> LimitsManifest:
    """`rpd` of gpt-4, which is tried or enforced, beside `tpd`, which is enforced."""
    rpd = {"capacity": capacity, "refill_amount": 1, "refill_period": A_DAY, "shadow": shadow}
    limits = {"rpd": rpd, "tpd": {"capacity": 1000, "refill_amount": 1, "refill_period": A_DAY}}
    return LimitsManifest.from_dict({"namespace": "tenant-alpha", "resources": {"gpt-4": {"limits": limits}}})


def whole_level(*, shadow: bool) -> LimitsManifest:
    """Everything of gpt-4 under the mark of its level."""
    plain = declared(shadow=False).to_dict()
    plain["resources"]["gpt-4"]["shadow"] = shadow
    return LimitsManifest.from_dict(plain)


def plan_of(deployed: Deployed, wanted: LimitsManifest, action: Any = "plan") -> Plan:
    plan = deployed.ask(action, wanted).plan
    assert plan is not None
    return plan


def admitted(limiter: SyncRateLimiter, times: int) -> tuple[int, int]:
    """How many of so many acquires pass, and how many of these a shadow limit would have refused."""
    passed, shadowed, found = 0, 0, set[str]()
    for _ in range(times):
        try:
            with limiter.acquire("u", "gpt-4", {"rpd": 1, "tpd": 1}) as lease:
                passed += 1
                shadowed += [status.limit_name for status in lease.shadowed] == ["rpd"]
        except RateLimitExceeded as refused:
            found.update(status.limit_name for status in refused.violations)
    assert found <= {"rpd"}
    return passed, shadowed


def test_a_limit_is_tried_then_enforced_by_two_changes_of_a_manifest(deployed: Deployed) -> None:
    assert "+ rpd: 1/rolling day capacity 10 shadow" in as_text.render_plan(plan_of(deployed, declared(shadow=True)))
    deployed.ask("apply", declared(shadow=True))
    with deployed.limiter() as limiter:
        assert admitted(limiter, 14) == (14, 4)
        bucket = limiter.repository.get_bucket("u", "gpt-4")
        assert bucket is not None
        assert (bucket.available, bucket.shadowed) == ({"rpd": 0, "tpd": 986}, 4)

        assert "~ rpd: shadow -> enforced" in as_text.render_plan(plan_of(deployed, declared(shadow=False)))
        assert plan_of(deployed, declared(shadow=True)).changes == ()
        deployed.ask("apply", declared(shadow=False))
        assert admitted(limiter, 3) == (0, 0)

        assert "~ rpd: enforced -> shadow" in as_text.render_plan(plan_of(deployed, declared(shadow=True)))
        deployed.ask("apply", declared(shadow=True))
        assert admitted(limiter, 3) == (3, 3)


def test_what_a_shadow_limit_has_left_is_all_that_the_enforced_one_admits(deployed: Deployed) -> None:
    deployed.ask("apply", declared(50, shadow=True))
    with deployed.limiter() as one, deployed.limiter() as other:
        assert admitted(one, 20) == (20, 0)
        deployed.ask("apply", declared(50, shadow=False))
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda number: admitted((one, other)[number % 2], 10), range(8)))
        assert (sum(passed for passed, _ in found), sum(shadowed for _, shadowed in found)) == (30, 0)


def test_a_level_is_tried_and_exported_with_the_mark_on_each_limit(deployed: Deployed) -> None:
    deployed.ask("apply", whole_level(shadow=True))
    exported = deployed.ask("export", "tenant-alpha").manifest
    assert exported == whole_level(shadow=True)
    assert dump(exported).count("/rolling day capacity") == dump(exported).count(" shadow\n") == 2
    for again in (load(dump(exported)), whole_level(shadow=True)):
        assert plan_of(deployed, again).changes == ()
        assert plan_of(deployed, again, "diff").changes == ()
    fields = plan_of(deployed, whole_level(shadow=False)).changes[0].fields()
    assert [tuple(each) for each in fields] == [(name, "mode", "shadow", "enforced") for name in ("rpd", "tpd")]


def test_a_mark_that_somebody_sets_or_removes_by_hand_is_drift(deployed: Deployed) -> None:
    deployed.ask("apply", declared(shadow=True))
    with deployed.limiter() as limiter:
        by_hand = [
            Limit.custom("rpd", 10, refill_amount=1, refill_period=A_DAY),
            Limit.custom("tpd", 1000, refill_amount=1, refill_period=A_DAY, shadow=True),
        ]
        limiter.set_resource_defaults("gpt-4", by_hand)
        (drifted,) = plan_of(deployed, declared(shadow=True), "diff").drifted
        assert [tuple(each) for each in drifted.fields()] == [
            ("rpd", "mode", "enforced", "shadow"),
            ("tpd", "mode", "shadow", "enforced"),
        ]
        (removed,) = plan_of(deployed, declared(shadow=False), "diff").drifted
        assert [tuple(each) for each in removed.fields()] == [("tpd", "mode", "shadow", "enforced")]
        deployed.ask("apply", declared(shadow=True))
        assert admitted(limiter, 12) == (12, 2)


def test_two_applies_at_once_leave_one_of_both_marks_and_a_state_that_fits(deployed: Deployed) -> None:
    deployed.ask("apply", declared(shadow=False))
    wanted = [declared(shadow=True), declared(shadow=False)]
    for _ in range(5):
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda each: deployed.ask("apply", each, lock_timeout=30), wanted))
        assert [answer.errors for answer in answers] == [(), ()]
        live = deployed.ask("export", "tenant-alpha").manifest
        state = deployed.ask("state", "tenant-alpha").state
        assert live in wanted
        assert state is not None
        assert (state.applied_hash, state.lock) == (live.canonical_hash(), None)
        assert plan_of(deployed, live, "diff").changes == ()
