"""What lives here: the provisioner's handler on real tables: plan, apply, drift, what an application then obeys.
What never does: every way to fail (the provisioner's own tests), the command line (test_declarative_embedded).
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from support.integration.declared import ALPHA, Deployed, changed, deployed_on, many
from support.integration.targets import Target
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter
from zae_limiter_manifest import LimitsManifest, Plan

pytestmark = [pytest.mark.needs("endpoint", "atomic"), pytest.mark.apart]

RPM = "rpm"


@pytest.fixture
def deployed(target: Target, table_name: str) -> Iterator[Deployed]:
    with deployed_on(target, table_name) as deployed:
        yield deployed


def capacities(deployed: Deployed) -> list[int]:
    """What holds for a stranger, on gpt-4, for user-123, and for it on gpt-4."""
    with deployed.limiter() as limiter:
        places = [("a", "other"), ("a", "gpt-4"), ("user-123", "other"), ("user-123", "gpt-4")]
        return [limiter.available(entity, resource)[RPM] for entity, resource in places]


def test_a_plan_changes_nothing_and_an_apply_is_obeyed_at_every_level(deployed: Deployed) -> None:
    before = deployed.scan()
    for action in ("plan", "diff"):
        assert deployed.ask(action, ALPHA).plan.created == 4  # type: ignore[union-attr]
    for action in ("export", "state"):
        (failure,) = deployed.ask(action, "tenant-alpha").errors
        assert failure.code == "namespace_not_found"
    assert deployed.scan() == before

    assert deployed.ask("apply", ALPHA).plan.created == 4  # type: ignore[union-attr]
    assert capacities(deployed) == [10_000, 1_000, 200, 500]
    with deployed.limiter() as limiter:
        assert limiter.repository.resolve_limits("a", "other")[1] == "allow"
        with limiter.acquire("user-123", "gpt-4", {RPM: 500}):
            pass
        assert limiter.available("user-123", "gpt-4")[RPM] < 500


def test_one_capacity_that_changes_is_obeyed_by_a_bucket_in_use(deployed: Deployed) -> None:
    deployed.ask("apply", ALPHA)
    with deployed.limiter() as limiter:
        with limiter.acquire("user-123", "gpt-4", {RPM: 500}):
            pass
        plan = deployed.ask("plan", changed(600)).plan
        assert plan
        assert [tuple(each) for each in plan.changes[0].fields()] == [("rpm", "capacity", 500, 600)]
        deployed.ask("apply", changed(600))
        with pytest.raises(RateLimitExceeded) as refused, limiter.acquire("user-123", "gpt-4", {RPM: 600}):
            pass
        assert [status.limit for status in refused.value.violations] == [Limit.per_minute(RPM, 600)]


def test_an_unchanged_apply_is_one_write_and_no_lock(deployed: Deployed) -> None:
    deployed.ask("apply", ALPHA)
    cost = deployed.counted("apply", ALPHA)
    assert cost.requests == {"BatchGetItem": 2, "GetItem": 1, "UpdateItem": 1}


def test_drift_is_found_and_repaired_and_what_was_set_by_hand_stays(deployed: Deployed) -> None:
    deployed.ask("apply", ALPHA)
    with deployed.limiter() as limiter:
        limiter.set_limits("user-123", [Limit.per_minute(RPM, 9)], "gpt-4")
        limiter.delete_resource_defaults("gpt-4")
        limiter.set_resource_defaults("by-hand", [Limit.per_minute(RPM, 7)])
        drift = deployed.ask("diff", ALPHA).plan
        assert drift
        assert [change.action for change in drift.drifted] == ["create", "update"]
        assert [str(address) for address in drift.unmanaged] == ["resource by-hand"]
        deployed.ask("apply", ALPHA)
        assert deployed.ask("diff", ALPHA).plan.changes == ()  # type: ignore[union-attr]
        deployed.ask("apply", LimitsManifest("tenant-alpha"))
        assert limiter.get_resource_defaults("by-hand") == [Limit.per_minute(RPM, 7)]
        assert limiter.repository.list_resources_with_defaults() == ["by-hand"]


def test_what_was_exported_changes_no_limits_when_it_is_applied(deployed: Deployed) -> None:
    deployed.ask("apply", ALPHA)
    exported = deployed.ask("export", "tenant-alpha").manifest
    assert exported == ALPHA
    assert deployed.ask("plan", exported).plan.changes == ()  # type: ignore[union-attr]


@pytest.mark.long
def test_thousands_of_entities_are_applied_and_found(deployed: Deployed) -> None:
    count = deployed.target.quirks.entities
    wanted = many(count)
    assert deployed.ask("apply", wanted).plan.created == count  # type: ignore[union-attr]
    cost = deployed.counted("apply", wanted)
    assert cost.requests == {"BatchGetItem": count // 100 + 2, "GetItem": 1, "UpdateItem": 1}
    fewer = many(count - 100)
    assert deployed.ask("apply", fewer).plan.deleted == 100  # type: ignore[union-attr]
    assert deployed.ask("export", "tenant-alpha").manifest == fewer


def test_an_apply_neither_removes_an_override_nor_takes_it_for_drift(deployed: Deployed) -> None:
    deployed.ask("apply", ALPHA)
    until = datetime.now(UTC) + timedelta(hours=1)
    with deployed.limiter() as limiter:
        for entity, resource in (("user-123", "gpt-4"), ("stranger", "gpt-4")):
            limiter.set_limits(entity, [Limit.per_minute(RPM, 9)], resource, override_until=until)
        hashes = {each.changes_hash() for each in (plan_of(deployed, "plan"), plan_of(deployed, "diff"))}
        drift = plan_of(deployed, "diff")
        assert (drift.changes, drift.unmanaged) == ((), ())
        assert [str(each.address) for each in drift.overrides] == ["entity stranger/gpt-4", "entity user-123/gpt-4"]
        exported = deployed.ask("export", "tenant-alpha")
        assert exported.manifest == ALPHA
        assert exported.plan
        assert len(exported.plan.overrides) == 2
        assert deployed.ask("apply", changed(600)).plan.updated == 1  # type: ignore[union-attr]
        assert capacity_of(limiter, "user-123") == 9
        assert deployed.ask("apply", LimitsManifest("tenant-alpha")).plan.deleted == 4  # type: ignore[union-attr]
        assert capacity_of(limiter, "user-123") == capacity_of(limiter, "stranger") == 9
        deployed.ask("apply", ALPHA)
        limiter.repository.delete_override("user-123", "gpt-4")
        assert capacity_of(limiter, "user-123") == 500
        limiter.repository.delete_override("stranger", "gpt-4")
        assert {plan_of(deployed, "plan").changes_hash()} == hashes


def plan_of(deployed: Deployed, action: str) -> Plan:
    plan = deployed.ask(action, ALPHA).plan
    assert plan
    return plan


def capacity_of(limiter: SyncRateLimiter, entity: str) -> int:
    return limiter.repository.resolve_limits(entity, "gpt-4")[0][0].capacity
