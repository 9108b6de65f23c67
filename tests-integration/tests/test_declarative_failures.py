"""What lives here: applies that meet others, are killed or fail in part, events of a stack, a store that is away.
What never does: an apply that nothing befalls (test_declarative), the command line (test_declarative_embedded).
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from threading import Barrier, Lock
from typing import Any

import pytest

from support.cli.account import eventually
from support.integration.cfn_resource import Resource, resource
from support.integration.clocks import START_MS
from support.integration.declared import ALPHA, Deployed, changed, deployed_on, many, named
from support.integration.proxy import Fault, Proxy
from support.integration.targets import Target
from support.provisioner.provisions import EVERY_LEVEL, WRITES, Killed, limits, manifest, rpm
from zae_limiter import OnUnavailable, Options, RateLimiterUnavailable, SyncRateLimiter, SyncRepository
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.flows.records import many_levels as bulk
from zae_limiter.stores import SyncStore
from zae_limiter.testing import ManualClock
from zae_limiter_manifest import Answer, LimitsManifest, Request
from zae_limiter_provisioner.actions import perform
from zae_limiter_provisioner.handler import on_event
from zae_limiter_provisioner.table import Table

pytestmark = [pytest.mark.needs("endpoint", "atomic"), pytest.mark.apart]

AFTER = manifest(
    system=limits(90),
    resources={"gpt-5": limits(5)},
    entities={"user-1": {"resources": {"gpt-4": limits(21)}}, "user-2": {"resources": {"gpt-4": limits(2)}}},
)
WRITES_OF_AFTER = 1 + 6 + 1  # what is intended, the changes, what became of them


@pytest.fixture
def deployed(target: Target, proxy: Proxy, table_name: str) -> Iterator[Deployed]:
    """A table whose provisioner, in this process, reaches it through the proxy."""
    with deployed_on(replace(target, endpoint_url=proxy.url), table_name) as deployed:
        yield deployed


def codes(answer: Answer) -> list[str]:
    return [failure.code for failure in answer.errors]


def is_declared(deployed: Deployed, wanted: LimitsManifest) -> bool:
    """Whether the table has just this, and the state says so, with nobody at it."""
    state = deployed.ask("state", wanted.namespace).state
    assert state
    exported = deployed.ask("export", wanted.namespace).manifest
    said = (state.managed, state.applied_hash, state.lock)
    return exported == wanted and said == (wanted.managed_set(), wanted.canonical_hash(), None)


def test_a_second_apply_is_told_who_is_at_it_or_waits_for_them(deployed: Deployed, proxy: Proxy) -> None:
    slow = Fault("late", "TransactWriteItems", "gpt-4", times=1, seconds=2)
    proxy.faults.append(slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(deployed.ask, "apply", ALPHA, principal="alice")
        assert eventually(lambda: slow.times == 0)
        refused = deployed.ask("apply", changed(600), principal="bob")
        waited = deployed.ask("apply", changed(700), principal="carol", lock_timeout=60)
        assert first.result().status == waited.status == "applied"
    assert (refused.status, codes(refused)) == ("failed", ["locked"])
    assert "cli (alice) is applying, until " in refused.errors[0].message
    assert is_declared(deployed, changed(700))


def test_of_applies_at_once_each_is_whole_and_the_state_is_that_of_one(deployed: Deployed) -> None:
    wanted = [many(60, capacity) for capacity in (1, 2, 3)]
    with ThreadPoolExecutor(len(wanted)) as pool:
        answers = list(pool.map(lambda each: deployed.ask("apply", each, lock_timeout=60), wanted))
    assert [answer.status for answer in answers] == ["applied"] * 3
    assert [is_declared(deployed, each) for each in wanted].count(True) == 1


def test_of_two_operators_and_a_rollback_at_once_one_wins_and_the_others_are_told_the_way_out(
    deployed: Deployed,
) -> None:
    for wanted in (ALPHA, changed(600)):
        assert deployed.ask("apply", wanted).status == "applied"
    (*_, first) = deployed.ask("history", "tenant-alpha").history or ()
    old = deployed.ask("show", "tenant-alpha", serial=first.serial).manifest
    assert old == ALPHA
    at_once = {"ann": changed(700), "bob": changed(800), "eve": old}
    planned = {name: deployed.ask("plan", wanted).plan for name, wanted in at_once.items()}
    together = Barrier(len(at_once))

    def apply(name: str) -> Answer:
        plan = planned[name]
        assert plan
        shown = {"expected_serial": plan.serial, "expected_plan": plan.changes_hash()}
        together.wait()
        return deployed.ask("apply", at_once[name], principal=name, **shown)

    with ThreadPoolExecutor(len(at_once)) as pool:
        answers = dict(zip(at_once, pool.map(apply, at_once), strict=True))
    (winner,) = [name for name, answer in answers.items() if answer.status == "applied"]
    assert is_declared(deployed, at_once[winner])
    for name in answers.keys() - {winner}:
        (failure,) = answers[name].errors
        assert failure.code in {"stale", "different_plan", "locked"}
        assert "plan again" in failure.message or "free the lock: zae-limiter limits unlock" in failure.message
    (last, *_) = deployed.ask("history", "tenant-alpha").history or ()
    assert (last.principal, last.outcome) == (winner, "applied")


class Mortal(SyncStore):
    """A store whose process dies when the table has applied so many writes."""

    def __init__(self, store: SyncDynamoDBStore, dies_after: int) -> None:
        self.store = store
        self.left = dies_after
        self.lock = Lock()

    def perform(self, operation: Any) -> Any:
        with self.lock:  # whatever runs in parallel: one after the other, so that a death has a place
            if self.left == 0:
                raise Killed
            answer = self.store.perform(operation)
            self.left -= isinstance(operation, WRITES)
            if self.left == 0:
                raise Killed
            return answer

    def close(self) -> None:
        self.store.close()


def by_hand(repository: SyncRepository) -> None:
    """What no manifest names at first; `gpt-5` is adopted."""
    repository.set_resource_defaults("by-hand", rpm(7))
    repository.set_resource_defaults("gpt-5", rpm(55))


@pytest.fixture
def every_change_is_a_write_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "CHANGES_PER_TRANSACTION", 1)


@pytest.mark.usefixtures("every_change_is_a_write_of_its_own")
def test_an_apply_that_is_killed_after_any_write_is_finished_by_the_next(deployed: Deployed) -> None:
    clock = ManualClock(START_MS)
    with closing(deployed.store()) as store:
        whole = Table(store, deployed.name, clock=clock)
        for dies_after in range(1, WRITES_OF_AFTER + 1):
            before, after = (named(f"tenant-{dies_after}", each) for each in (EVERY_LEVEL, AFTER))
            assert perform(whole, Request.of("apply", before)).status == "applied"
            by_hand(whole.register(after.namespace))
            mortal = Mortal(store, dies_after)
            with pytest.raises(Killed):
                perform(Table(mortal, deployed.name, clock=clock), Request.of("apply", after))
            assert mortal.left == 0
            clock.advance(906)  # the lock of an invocation without a deadline, and what is added to it
            assert perform(whole, Request.of("apply", after)).status == "applied"
            plain = after.to_dict()
            plain["resources"]["by-hand"] = limits(7)
            assert deployed.ask("export", after.namespace).manifest == LimitsManifest.from_dict(plain)
            state = deployed.ask("state", after.namespace).state
            assert state
            assert (state.managed, state.lock) == (after.managed_set(), None)


@pytest.fixture
def stack(deployed: Deployed) -> Iterator[Resource]:
    with resource(lambda event: on_event(event, None)) as stack:
        yield stack


@pytest.mark.usefixtures("every_change_is_a_write_of_its_own")
def test_one_item_that_fails_stays_pending_and_the_others_are_applied(
    deployed: Deployed, proxy: Proxy, stack: Resource
) -> None:
    deployed.ask("apply", LimitsManifest("tenant-alpha"))
    proxy.faults.append(Fault("throttle", "TransactWriteItems", "#CONFIG#gpt-4"))
    answer = deployed.ask("apply", ALPHA)
    assert (answer.status, codes(answer), answer.plan and answer.plan.created) == ("partial", ["not_written"], 3)
    pending = deployed.ask("plan", ALPHA).plan
    assert pending
    assert [str(change.address) for change in pending.changes] == ["entity user-123/gpt-4"]
    failed = stack.do("Create", ALPHA, TakeOver=True)
    assert (failed["Status"], "entity user-123/gpt-4: " in failed["Reason"]) == ("FAILED", True)
    proxy.clear()
    assert deployed.ask("apply", ALPHA).status == "applied"
    assert is_declared(deployed, ALPHA)


def test_a_stack_creates_updates_and_replaces_each_event_once(deployed: Deployed, stack: Resource) -> None:
    event = stack.event("Create", ALPHA)
    created = stack.send(event)
    assert (created["Status"], created["Data"]["Created"]) == ("SUCCESS", 4)
    assert "was handled before" in stack.send(event)["Reason"]
    stack.physical_id = created["PhysicalResourceId"]
    updated = stack.do("Update", changed(600))
    assert (updated["Status"], updated["Data"]["Updated"], updated["Data"]["Serial"]) == ("SUCCESS", 1, 4)
    assert updated["PhysicalResourceId"] == created["PhysicalResourceId"]

    beta = named("tenant-beta")
    replaced = stack.do("Update", beta)
    assert (replaced["Status"], replaced["Data"]["Created"]) == ("SUCCESS", 4)
    assert replaced["PhysicalResourceId"] != created["PhysicalResourceId"]
    stack.physical_id = created["PhysicalResourceId"]
    assert stack.do("Delete", ALPHA)["Status"] == "SUCCESS"
    assert deployed.ask("export", "tenant-alpha").manifest == LimitsManifest("tenant-alpha")
    assert is_declared(deployed, beta)


def test_the_delete_after_a_create_that_failed_leaves_what_another_owner_has(
    deployed: Deployed, stack: Resource
) -> None:
    deployed.ask("apply", ALPHA)
    failed = stack.do("Create", changed(600))
    assert (failed["Status"], "cli" in failed["Reason"]) == ("FAILED", True)
    assert stack.do("Delete", changed(600))["Status"] == "SUCCESS"
    assert is_declared(deployed, ALPHA)


@pytest.mark.parametrize("policy", ["allow", "block"])
def test_an_acquire_obeys_the_on_unavailable_of_a_manifest_when_nobody_answers(
    deployed: Deployed, proxy: Proxy, policy: OnUnavailable
) -> None:
    wanted = manifest(system={"on_unavailable": policy, **limits(100)})
    assert deployed.ask("apply", wanted).status == "applied"
    other = OnUnavailable.BLOCK if policy == "allow" else OnUnavailable.ALLOW
    repository = SyncRepository.over(deployed.store(), Options(namespace="tenant-alpha", on_unavailable=other))
    with SyncRateLimiter(repository=repository) as limiter:
        with limiter.acquire("a", "gpt-4", {"rpm": 1}) as lease:
            assert not lease.degraded
        proxy.stop()
        if policy == "block":
            with pytest.raises(RateLimiterUnavailable), limiter.acquire("a", "gpt-4", {"rpm": 1}):
                pytest.fail("the manifest says block")
        else:
            with limiter.acquire("a", "gpt-4", {"rpm": 1}) as lease:
                assert lease.degraded
