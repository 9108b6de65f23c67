"""What lives here: what reads, acquires and leases answer and how they refuse, case by case.
What never does: every case of a rule (core's own tests), a cost (test_costs).
"""

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest

from support.core.owners import maintenance_of, owner_of
from support.core.snapshots import usage_item
from zae_limiter import (
    Draw,
    Limit,
    OnRefused,
    RateLimiter,
    RateLimiterUnavailable,
    RateLimitExceeded,
    Repository,
    SyncRateLimiter,
    SyncRepository,
    TokenUsage,
    UsageSnapshot,
    ValidationError,
)
from zae_limiter.exceptions import (
    BudgetEnded,
    IdempotencyKeyError,
    InfrastructureNotFoundError,
    InvalidNameError,
    LeaseExpiredError,
    NamespaceNotFoundError,
)
from zae_limiter.maintenance import ProvisionerState, VersionRecord
from zae_limiter.operations.values import Put
from zae_limiter.values import EntityUsage

from .api_case import RPM, TPM, ApiCase, now, refused
from .awaited import Variant
from .harness import REGION

REPOSITORIES: dict[Variant, Any] = {"async": Repository, "sync": SyncRepository}
LIMITERS: dict[Variant, Any] = {"async": RateLimiter, "sync": SyncRateLimiter}
DAY = datetime(2026, 9, 1, tzinfo=UTC)


async def buckets(api_case: ApiCase) -> None:
    limiter, repository = api_case.limiter, api_case.repository
    await limiter.set_system_defaults([RPM, TPM])
    for entity, amount in (("a", 60), ("b", 20)):
        async with limiter.acquire(entity, "r", {"rpm": amount}):
            pass
    bucket = await repository.get_bucket("a", "r")
    assert bucket is not None
    assert (bucket.available, await repository.get_buckets("a")) == ({"rpm": 0, "tpm": 1000}, [bucket])
    assert (await repository.get_bucket("nobody", "r"), await repository.get_buckets("nobody")) == (None, [])
    assert await maintenance_of(repository).get_buckets_at([("nobody", "r"), ("a", "r"), ("a", "r")]) == [bucket]
    first = await repository.list_buckets(limit=1)
    assert (first.buckets, (await repository.list_buckets("r", next=first.next)).next) == ((bucket,), None)
    known = await repository.list_entities(begins_with="b")
    assert [(each.entity_id, each.record, each.has_buckets) for each in known.entities] == [("b", None, True)]
    capacity = await repository.get_resource_capacity("r")
    assert [(each.limit_name, each.capacity, each.available) for each in capacity.limits] == [
        ("rpm", 120, 40),
        ("tpm", 2000, 2000),
    ]
    assert await repository.credit_bucket("a", "r", {"rpm": 7}, principal="ann")
    assert await limiter.available("a", "r") == {"rpm": 7, "tpm": 1000}
    assert await repository.reset_bucket("a", "r", principal="bob")
    assert await limiter.available("a", "r") == {"rpm": 60, "tpm": 1000}
    for _ in range(2):
        async with limiter.acquire("a", "r", {"rpm": 30}):
            pass
        assert await repository.credit_bucket("a", "r", {"rpm": 5}, idempotency_key="bill#7")
        assert await repository.reset_bucket("b", "r", idempotency_key="bill#7")
    assert await limiter.available("a", "r") == {"rpm": 5, "tpm": 1000}
    assert [await maintenance_of(repository).merge_bucket(each, "r") for each in ("a", "nobody")] == [0, 0]
    assert not await repository.reset_bucket("nobody", "r")
    assert not await repository.credit_bucket("nobody", "r", {"rpm": 1})
    await refused(
        ValidationError,
        repository.get_bucket("a", "r "),
        repository.get_buckets(" "),
        maintenance_of(repository).get_buckets_at([("a", " ")]),
        maintenance_of(repository).get_last_calls([" "]),
        repository.get_resource_capacity(""),
        maintenance_of(repository).merge_bucket("a", " "),
        repository.list_buckets(limit=0),
        repository.list_entities(next=" "),
        repository.reset_bucket("a", "r", principal=""),
        repository.reset_bucket("a", "r", idempotency_key="bill#7"),
        repository.credit_bucket("a", "r", {"rpm": 6}, idempotency_key="bill#7"),
    )


async def audit_and_usage(api_case: ApiCase) -> None:
    repository = api_case.repository
    await repository.set_limits("e", [RPM], "r", principal="ann")
    await repository.delete_limits("e", "r")
    newest = await repository.get_audit_events("e", limit=1)
    older = await repository.get_audit_events("e", start=newest.next)
    assert [(each.action, each.principal) for each in (*newest.events, *older.events)] == [
        ("limits_deleted", None),
        ("limits_set", "ann"),
    ]
    assert (await repository.get_audit_events()).events == ()
    of_all = await repository.get_namespace_audit_events(DAY - timedelta(days=10_000), kind="limits")
    assert [each.entity_id for each in of_all.events] == ["e", "e"]
    hours = [UsageSnapshot("e", "r", "hourly", DAY + timedelta(hours=n), {"rpm": n}, 1, 5 * n) for n in (1, 2)]
    for hour in hours:
        api_case.harness.perform(Put(usage_item(repository.namespace_id, hour)))
    first = await repository.get_usage_snapshots(entity_id="e", limit=1)
    rest = await repository.get_usage_snapshots(entity_id="e", next=first.next)
    assert [*first.snapshots, *rest.snapshots] == hours
    assert (await repository.get_usage_snapshots(resource="r", start=DAY + timedelta(hours=2))).snapshots == (hours[1],)
    assert await maintenance_of(repository).get_last_calls(["e", "nobody"]) == {"e": hours[1]}
    summary = await repository.get_usage_summary(resource="r")
    assert (summary.windows, summary.total_events, summary.limits[0].total) == (2, 2, 3)
    assert await repository.get_top_usage("r") == (EntityUsage("e", "r", {"rpm": 3}, 2, 15, 0),)
    assert await repository.get_top_usage("r", by="tpm") == ()
    await refused(
        ValidationError,
        repository.get_audit_events(" "),
        repository.get_audit_events("e", limit=0),
        repository.get_namespace_audit_events(DAY, kind="limit"),  # type: ignore[arg-type]
        repository.get_usage_snapshots(entity_id="e", next="?"),
        repository.get_usage_summary(resource="r", start=DAY, end=DAY),
        repository.get_top_usage("r", by="wcu"),
    )


async def acquires(api_case: ApiCase) -> None:
    limiter = api_case.limiter
    await limiter.set_resource_defaults("r", [RPM, TPM])
    assert await limiter.available("e", "r") == {"rpm": 60, "tpm": 1000}
    async with limiter.acquire("e", "r", {"rpm": 60, "tpm": 100}) as lease:
        assert (lease.consumed, lease.degraded) == ({"rpm": 60, "tpm": 100}, False)
        assert [(each.limit_name, each.available) for each in lease.statuses] == [("rpm", 0), ("tpm", 900)]
    with pytest.raises(RateLimitExceeded) as caught:
        async with limiter.acquire("e", "r", {"rpm": 3, "tpm": 1}):
            pass
    async with limiter.acquire("e", "tried", {"rpm": 61}, limits=[replace(RPM, shadow=True)]) as lease:
        assert [(each.limit_name, each.available) for each in lease.shadowed] == [("rpm", 60)]
    assert (caught.value.retry_after_seconds, len(caught.value.statuses)) == (3.0, 2)
    assert await limiter.time_until_available("e", "r", {"rpm": 3}) == 3.0
    assert not (await limiter.check("e", "r", {"rpm": 3})).passes
    found = await limiter.explain("e", "r", {"rpm": 3})
    [rpm, tpm] = found.buckets[0].limits
    assert (found.wait_seconds, rpm.available, rpm.refuses, tpm.available, tpm.requested) == (3.0, 0, True, 900, None)
    api_case.clock.advance(3)
    assert (await limiter.check("e", "r", {"rpm": 3})).passes
    assert (await limiter.explain("e", "r", {"rpm": 3})).passes
    checked = await limiter.check("e", "r", {"rpm": 4, "tpm": 5})
    assert (checked.passes, checked.retry_after_seconds) == (False, 1.0)
    assert [(each.limit_name, each.available) for each in checked.statuses] == [("rpm", 3), ("tpm", 950)]
    with pytest.raises(ValidationError):
        limiter.acquire("e", "r", {"rpm": -1})
    with pytest.raises(ValidationError):
        async with limiter.acquire("e", "r", {"unknown": 1}):
            pass
    await refused(
        ValidationError,
        limiter.available("e", "without-limits"),
        limiter.time_until_available("e", "r", {}),
        limiter.explain("e", "r", {"unknown": 1}),
        limiter.check("e", "r", {"unknown": 1}),
    )


async def leases(api_case: ApiCase) -> None:
    limiter = api_case.limiter
    await limiter.set_resource_defaults("r", [RPM])
    async with limiter.acquire("e", "r", {"rpm": 10}) as lease:
        await lease.consume(rpm=5)
        await lease.adjust(rpm=3)
        await lease.release(rpm=1)
        await lease.settle(rpm=17)
        assert (lease.entity_id, lease.consumed, lease.corrected, lease.waited) == ("e", {"rpm": 17}, True, 0)
        assert (lease.would_exceed(rpm=60), len(lease.would_exceed(rpm=61)), lease.weights) == ((), 1, {})
        await refused(RateLimitExceeded, lease.consume(rpm=60))
        await refused(ValidationError, lease.consume(tpm=1), lease.adjust(rpm=-18), lease.release(rpm=-1))
    assert await limiter.available("e", "r") == {"rpm": 43}
    await refused(
        LeaseExpiredError, lease.consume(rpm=1), lease.adjust(rpm=1), lease.release(rpm=1), lease.settle(rpm=1)
    )
    with suppress(ZeroDivisionError):
        async with limiter.acquire("e", "r", {"rpm": 10}):
            raise ZeroDivisionError
    assert await limiter.available("e", "r") == {"rpm": 43}
    with suppress(ZeroDivisionError):
        async with limiter.acquire("e", "r", {"rpm": 10}) as lease:
            lease.keep()
            raise ZeroDivisionError
    assert await limiter.available("e", "r") == {"rpm": 33}
    for ended in (lease.keep, lease.would_exceed):
        with pytest.raises(LeaseExpiredError):
            ended()
    await tokens_of_kinds(api_case)
    await draws(api_case)
    await credits_behind_a_quota(api_case)
    await retried_calls(api_case)
    of_other_variant: Any = len if api_case.harness.variant == "async" else leases
    with pytest.raises(ValidationError, match="must be a function by"):
        limiter.limit("e", "r", {"rpm": 1})(of_other_variant)


async def draws(api_case: ApiCase) -> None:
    limiter, draws = api_case.limiter, [Draw("other"), Draw(resource="s", consume={"rpm": 3})]
    await limiter.set_system_defaults([RPM])
    for _ in range(2):
        async with limiter.acquire("drawing", "s-1", {"rpm": 1}, draws=draws) as lease:
            other, more = lease.draw("other"), lease.draw(resource="s")
            assert [(each.entity_id, each.resource, each.as_called, each.has_price) for each in lease.draws] == [
                *(("other", "s-1", True, False), ("drawing", "s", False, False)),
            ]
            await other.consume(rpm=4)
            await other.adjust(rpm=1)
            await more.release(rpm=1)
            await lease.settle(rpm=2)
            assert (other.consumed, more.consumed, more.weights, more.would_exceed(rpm=3)) == (
                *({"rpm": 6}, {"rpm": 2}, {}, ()),
            )
            with pytest.raises(ValidationError, match="`draws` names"):
                lease.draw("nobody")
            await refused(RateLimitExceeded, more.consume(rpm=60))
    left = [await limiter.available(*place) for place in (("drawing", "s-1"), ("other", "s-1"), ("drawing", "s"))]
    assert left == [{"rpm": 56}, {"rpm": 48}, {"rpm": 56}]
    await refused(LeaseExpiredError, other.settle(rpm=1), other.consume(rpm=1), other.adjust(rpm=1))
    await refused(LeaseExpiredError, other.release(rpm=1))
    with pytest.raises(LeaseExpiredError):
        other.would_exceed(rpm=1)
    with pytest.raises(RateLimitExceeded) as caught:
        async with limiter.acquire("drawing", "s-1", {"rpm": 1}, draws=[Draw("other", consume={"rpm": 49})]):
            pass
    assert (caught.value.refused_by, caught.value.entity_id) == ("other", "drawing")
    assert not (await limiter.check("drawing", "s-1", {"rpm": 1}, draws=[Draw("other", consume={"rpm": 49})])).passes
    assert await limiter.available("drawing", "s-1") == {"rpm": 56}


async def run_budgets(api_case: ApiCase) -> None:
    limiter, amounts = api_case.limiter, {"usd": "$1", "calls": "9"}
    other = await api_case.harness.open(namespace=limiter.repository.name, clock=api_case.clock)
    await limiter.set_limits("team", [RPM], "r")
    run = await limiter.budget("run", amounts, within="team", expires=60).open()
    joined = await other.budget("run", within="team").open()
    below = await joined.budget("sub", {"usd": "$0.50"}).open()
    for each, spent in ((run, "0.10"), (joined, "0.20"), (below, "0.40")):
        async with each.acquire("r", {"rpm": 2}, costs={"usd": Decimal(spent)}) as lease:
            await lease.settle(rpm=1, usd=Decimal("0.10"))
    assert await run.left() == await joined.left() == {"calls": 6, "usd": 700_000}
    assert (await below.left(), await limiter.available("team", "r")) == ({"usd": 400_000}, {"rpm": 57})
    for each in (run, joined):
        with pytest.raises(RateLimitExceeded) as short:
            async with each.acquire("r", {"rpm": 1}, costs={"usd": Decimal("0.80")}):
                pass
        assert short.value.refused_by == run.entity_id
    await refused(ValidationError, other.budget("run", {"usd": "$2"}, within="team").open())
    another = await limiter.budget("another", {"usd": "$1"}, within="team", expires=60).open()
    await run.end()
    for each in (run, joined, below):
        with pytest.raises(BudgetEnded, match="'run' was ended"):
            async with each.acquire("r", {"rpm": 1}, costs={"usd": Decimal("0.01")}):
                pass
    await refused(BudgetEnded, other.budget("run", amounts, within="team").open())
    api_case.clock.advance(60)
    with pytest.raises(BudgetEnded, match="'another' has expired"):
        async with another.acquire("r", {"rpm": 1}, costs={"usd": 0}):
            pass
    with pytest.raises(ValidationError, match="has a '/'"):
        limiter.budget("a/b", within="team")
    await other.close()


async def credits_behind_a_quota(api_case: ApiCase) -> None:
    limiter, policy = api_case.limiter, OnRefused(wait=0.001, overflow="credits")
    await limiter.set_resource_defaults("quota", [Limit.total("calls", 1)], on_refused=policy)
    await limiter.set_resource_defaults("credits", [Limit.total("calls", 1)])
    for served in ("quota", "credits"):
        async with limiter.acquire("e", "quota", {"calls": 1}) as lease:
            assert (lease.resource, lease.overflowed) == (served, served == "credits")
            assert (lease.refusal is None, lease.overflowed_early) == (served == "quota", None)
    with pytest.raises(RateLimitExceeded, match="; overflow e/credits: 1 calls requested, 0 available"):
        async with limiter.acquire("e", "quota", {"calls": 1}):
            pass
    with pytest.raises(ValidationError, match="is the resource that has refused: name another one"):
        limiter.acquire("e", "quota", {"calls": 1}, on_refused=OnRefused(overflow="quota"))


async def retried_calls(api_case: ApiCase) -> None:
    limiter = api_case.limiter
    await limiter.set_resource_defaults("retried", [Limit.total("calls", 5)])
    for repeated in (False, True):
        async with limiter.acquire("e", "retried", {"calls": 1}, idempotency_key="k#1") as lease:
            assert lease.repeated == repeated
    with pytest.raises(IdempotencyKeyError, match="with other amounts or draws: take another key"):
        await limiter.acquire("e", "retried", {"calls": 2}, idempotency_key="k#1").__aenter__()
    assert await limiter.available("e", "retried") == {"calls": 4}


async def tokens_of_kinds(api_case: ApiCase) -> None:
    limiter = api_case.limiter
    await limiter.set_resource_defaults("model", [Limit.per_day("tpm", 1000, weights={"input": 1, "cached": 0.1})])
    async with limiter.acquire("e", "model", {"tpm": limiter.estimate("model", default=50, most=80)}) as lease:
        assert (lease.consumed, lease.weights) == ({"tpm": 50}, {"tpm": {"input": 1, "cached": 0.1}})
        await lease.settle(TokenUsage(input=10, cached=5))
        assert [each.requested for each in lease.would_exceed(TokenUsage(input=1001))] == [951]
        with pytest.raises(ValidationError, match="must be a TokenUsage"):
            lease.would_exceed(cast("Any", 5))
    assert await limiter.available("e", "model") == {"tpm": 989}
    with pytest.raises(ValidationError, match="must be at most `most`"):
        limiter.estimate("model", default=50, most=8)


async def slots(api_case: ApiCase) -> None:
    limiter, two = api_case.limiter, {"rpm": 1, "parallel": 2}
    limits = [RPM, Limit.concurrent("parallel", 2, expires=60)]
    await limiter.set_resource_defaults("slots", limits)
    async with limiter.acquire("e", "slots", two) as lease:
        await lease.adjust(rpm=2)
        assert await limiter.available("e", "slots") == {"rpm": 59, "parallel": 0}
        with pytest.raises(RateLimitExceeded, match="1 parallel requested, 0 available; retry in 1"):
            await limiter.acquire("e", "slots", {"rpm": 1, "parallel": 1}).__aenter__()
        await lease.release(parallel=1)
        assert (lease.lost_slots, await limiter.available("e", "slots")) == ((), {"rpm": 59, "parallel": 1})
        api_case.clock.advance(120)
        assert (lease.lost_slots, await limiter.available("e", "slots")) == (("parallel",), {"rpm": 60, "parallel": 2})
        async with limiter.acquire("e", "slots", two):
            pass
    assert await limiter.available("e", "slots") == {"rpm": 57, "parallel": 2}


async def leases_that_nobody_enters(api_case: ApiCase) -> None:
    unused = api_case.limiter.acquire("e", "r", {"rpm": 1})
    known = (
        "consumed",
        "corrected",
        "degraded",
        "draws",
        "lost_slots",
        "overflowed",
        "overflowed_early",
        "refusal",
        "repeated",
        "shadowed",
        "statuses",
    )
    for name in (*known, "waited", "weights"):
        with pytest.raises(LeaseExpiredError):
            getattr(unused, name)
    with pytest.warns(ResourceWarning, match="it was never entered"):
        del unused


async def _in_a_file(cls: Any) -> None:
    with TemporaryDirectory() as folder:
        in_file = await now(cls.sqlite(Path(folder) / "limits.db", "own"))
        assert (in_file.name, await now(in_file.ping())) == ("own", True)
        await now(in_file.close())
        with pytest.raises(InvalidNameError):
            await now(cls.sqlite(Path(folder) / "limits.db", " "))


async def opening(api_case: ApiCase) -> None:
    harness, cls = api_case.harness, REPOSITORIES[api_case.harness.variant]
    assert (api_case.repository.name, api_case.repository.namespace_id) == ("opening", harness.namespace_id)
    with pytest.raises(NamespaceNotFoundError):
        await harness.open(namespace="nobody", register=False)
    own = cls.in_memory("own")
    assert (own.name, await now(own.ping())) == ("own", True)
    await now(LIMITERS[harness.variant](own).close())
    with pytest.raises(InvalidNameError):
        cls.in_memory(" ")
    await _in_a_file(cls)
    if harness.target.endpoint_url is None:
        return
    place = {"region": REGION, "endpoint_url": harness.target.endpoint_url}
    opened = await now(cls.open("opened", stack=harness.table_name, **place))
    assert "opened" in [each.name for each in await now(opened.list_namespaces())]
    await now(opened.close())
    with pytest.raises(InfrastructureNotFoundError, match="no-such-table"):
        await now(cls.open("opened", stack="no-such-table", **place))
    builder = cls.builder().stack(harness.table_name).region(REGION).endpoint_url(harness.target.endpoint_url)
    built = await now(builder.namespace("built").build())
    assert {"built", "default"} <= {each.name for each in await now(built.list_namespaces())}
    default = await now(built.delete_namespace("default"))
    again = await now(builder.namespace("built").build())
    assert "default" not in {each.name for each in await now(again.list_namespaces())}  # deleted, it stays so
    await now(owner_of("recover_namespace", again).recover_namespace(default.namespace_id))
    await now(again.close())
    await now(built.close())


async def without_the_store(api_case: ApiCase) -> None:
    """Of a api_case whose store is away."""
    limiter, repository = api_case.limiter, api_case.repository
    assert not await repository.ping()
    with pytest.raises(RateLimiterUnavailable):
        async with limiter.acquire("e", "r", {"rpm": 1}):
            pass
    async with limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="allow") as lease:
        assert (lease.degraded, lease.consumed, lease.statuses) == (True, {"rpm": 1}, [])
    await refused(
        RateLimiterUnavailable,
        limiter.available("e", "r"),
        limiter.time_until_available("e", "r", {"rpm": 1}),
        limiter.explain("e", "r"),
        limiter.check("e", "r"),
        limiter.get_system_defaults(),
        limiter.set_system_defaults([RPM]),
        limiter.delete_system_defaults(),
        limiter.get_resource_defaults("r"),
        limiter.set_resource_defaults("r", [RPM]),
        limiter.delete_resource_defaults("r"),
        limiter.repository.list_resources_with_defaults(),
        limiter.repository.get_tier_limits("gold"),
        limiter.repository.set_tier_limits("gold", [RPM]),
        limiter.repository.delete_tier_limits("gold"),
        limiter.repository.list_tiers(),
        limiter.repository.list_entities_of_tier("gold"),
        limiter.get_limits("e", "r"),
        limiter.set_limits("e", [RPM]),
        limiter.delete_limits("e"),
        limiter.repository.set_many_limits({("e", "r"): [RPM]}),
        limiter.repository.delete_many_limits([("e", "r")]),
        limiter.repository.list_entities_with_custom_limits("r"),
        limiter.repository.list_resources_with_entity_configs(),
        limiter.repository.resolve_limits("e", "r"),
        limiter.repository.set_system_switches(cascade="off"),
        limiter.repository.set_resource_switches("r", cascade="off"),
        limiter.repository.set_switches("e", cascade="off"),
        limiter.repository.get_switches("e"),
        limiter.repository.resolve_switches("e", "r"),
        limiter.create_entity("e"),
        limiter.get_entity("e"),
        limiter.repository.update_entity("e", name="x"),
        limiter.delete_entity("e"),
        limiter.get_children("e"),
        repository.get_bucket("e", "r"),
        repository.get_buckets("e"),
        maintenance_of(repository).get_buckets_at([("e", "r")]),
        maintenance_of(repository).get_last_calls(["e"]),
        repository.get_resource_capacity("r"),
        repository.list_buckets(),
        repository.list_entities(),
        repository.reset_bucket("e", "r"),
        repository.credit_bucket("e", "r", {"rpm": 1}),
        maintenance_of(repository).merge_bucket("e", "r"),
        repository.get_audit_events("e"),
        repository.get_namespace_audit_events(DAY),
        maintenance_of(repository).count_live_buckets("r"),
        maintenance_of(repository).invalidate_live_buckets("r"),
        repository.get_usage_snapshots(resource="r"),
        repository.get_usage_summary(entity_id="e"),
        repository.get_top_usage("r"),
        repository.namespace("prod"),
        repository.register_namespace("prod"),
        repository.get_namespace("prod"),
        repository.list_namespaces(),
        repository.delete_namespace("prod"),
        maintenance_of(repository).recover_namespace("id"),
        maintenance_of(repository).list_orphan_namespaces(),
        maintenance_of(repository).purge_namespace("id"),
        maintenance_of(repository).get_version_record(),
        maintenance_of(repository).set_version_record(VersionRecord(1, "0.1.0", "0.1.0")),
        maintenance_of(repository).get_provisioner_state(),
        maintenance_of(repository).put_provisioner_state(ProvisionerState(), expected_serial=0),
        maintenance_of(repository).note_applied(expected_serial=1),
        maintenance_of(repository).get_configs([(None, None)]),
        maintenance_of(repository).put_configs({(None, "r"): None}),
        maintenance_of(repository).list_config_places(),
        maintenance_of(repository).get_entity_records(["e"]),
        maintenance_of(repository).put_entity_records({"e": None}),
        maintenance_of(repository).list_entity_ids(),
    )


API_CASES = (
    buckets,
    audit_and_usage,
    acquires,
    leases,
    run_budgets,
    slots,
    leases_that_nobody_enters,
    opening,
)
