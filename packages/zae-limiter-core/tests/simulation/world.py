"""One history: several processes, their callers, and everything that happens to them.

Lives here: the course of events. Never: a check of a write (oracle, ledger, accounts).
"""

import copyreg
import gc
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from random import Random
from threading import RLock
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.flows.acquire.acquire import acquire
from zae_limiter.flows.acquire.counting import count_the_rest
from zae_limiter.flows.acquire.requests import validate_request
from zae_limiter.flows.acquire.taking import ASKS_AGAIN
from zae_limiter.flows.bucket.merging import merge_bucket
from zae_limiter.flows.bucket.serving import cached_shard
from zae_limiter.flows.bucket.splitting import split_shard
from zae_limiter.flows.process.config_cache import config_keys
from zae_limiter.flows.process.namespace_state import NamespaceState, bucket_key
from zae_limiter.flows.records import levels as stored
from zae_limiter.flows.records.entities import create_entity, update_entity
from zae_limiter.flows.steps import Flow, play
from zae_limiter.operations.errors import ConditionFailed, StoreError
from zae_limiter.operations.values import NOTHING, Conditions, Delete, Key, Operation, Scan, Update
from zae_limiter.rules.sharding import MAX_SHARDS
from zae_limiter.schema import keys
from zae_limiter.schema.items import BucketId
from zae_limiter.values.audit import Cause
from zae_limiter.values.limits import Limit
from zae_limiter.values.provisioner import ConfigPlace
from zae_limiter.values.refusal import AccessDisabled
from zae_limiter.values.resolution import UNLIMITED

from .accounts import Account
from .bucket_items import SLOTS
from .callers import Caller, Refusal
from .crowds import Crowd
from .deploys import Deploys
from .driver import Driver
from .kernel import Cancelled, Kernel, Script, Task, Violation
from .levels import key_of_pattern, ordered
from .machine import WORST_MS, Machine
from .network import Link
from .oracle import Oracle
from .outages import Outages
from .plan import DEFAULTS, OVERFLOW, RESOURCES, Plan, planned
from .reservations import Held
from .schedules import Schedules
from .seams import SOUND, Seams
from .settled import check_settled
from .sharing import Sharing, check_shares
from .siblings import was_short_for_good
from .switching import Place, Switchboard, levels
from .trees import MOST_PARENTS
from .waits import check_order

UNAVAILABLE = {"RateLimiterUnavailable", "ContentionError"}
ANSWERS = {"admitted", "refused", "disabled", "ValidationError", "BodyFailed", "Cancelled", *UNAVAILABLE}

ENDED_BY_HAND = 0.2
OF_PATTERNS, OF_SYSTEM, GETS_LIMITS = 0.6, 0.2, 0.7
SWITCHES = (("disabled", (True, True, None)), ("bypass", (True, True, None)), ("cascade", ("on", "off", None)))
NOT_TOLD_MS = 5_000  # where there is no bucket to tell: a read may have been under way, and clocks differ
SETTLED_US = 300_000_000  # after so long every process has read the limits again, and no override is in force
OLDEST_MS = 2_200  # a request, both ways, when the network is slow

COPIED: Mapping[type, Callable[[Any], Any]] = {  # how what a fork copies is copied here, where Python cannot
    type(RLock()): lambda _: (RLock, ()),
    MappingProxyType: lambda mapping: (MappingProxyType, (dict(mapping),)),
}


class Process:
    """One process, from its cold start until it crashes."""

    def __init__(self, world: "World") -> None:
        plan, rng = world.plan, world.rng
        link = Link(
            world.kernel,
            world.table,
            world.oracle,
            rng,
            network=plan.network,
            skew_ms=rng.randint(-plan.skew_ms, plan.skew_ms),
            machine=Machine(world.kernel, rng, wrong_dates=plan.wrong_dates, as_wrong=world.seams.dates)
            if plan.wrong_clocks
            else None,
            seams=world.seams,
        )
        self.alive = True
        self.tree = plan.tree
        self.wakes_us = 0
        self.generation = 0
        self.now_ms = now = link.clock if world.seams is SOUND else lambda: world.seams.now_ms(link.clock())
        self.shadow = rng.random() < plan.shadow_processes
        self.given: tuple[Limit, ...] = ()  # that all its calls pass
        self.namespace_state = NamespaceState(
            "demo",
            "ns",
            stack="simulated",
            now=now,
            settings=plan.settings,
            pick=rng.randrange,
            doubted=link.doubted,
        )
        if plan.signed:
            self.namespace_state.sign_writes()
        self.driver = Driver(
            world.kernel,
            link,
            self,
            rng,
            world.oracle,
            namespace_state=self.namespace_state,
            held=world.held,
            sharing=world.sharing,
        )

    def crash(self) -> None:
        """End, whatever it was about to do."""
        self.alive = False

    def fork(self, child: "Process") -> None:
        """Have the child know what this one knows, with what it holds; the child is to hold nothing."""
        child.generation = self.generation + 1
        for entity, resource in product(self.tree, RESOURCES):
            cached = self.namespace_state.cached_shards.get((entity, resource, 0))
            if cached is None or cached.prefetch is None:
                continue
            copied = cached_shard(child.namespace_state, entity, resource)
            copied.resolved, copied.state, copied.known = cached.resolved, cached.state, cached.known
            copied.seen_at_ms = cached.seen_at_ms
            own = {id(cached.prefetch.now): child.namespace_state.now}
            with patch.dict(copyreg.dispatch_table, COPIED):
                copied.prefetch = deepcopy(cached.prefetch, own)


class World:
    """A history that is to be run once."""

    def __init__(
        self,
        seed: int,
        *,
        seams: Seams = SOUND,
        changes: Mapping[str, str] = NOTHING,
        epoch_ms: int | None = None,
    ) -> None:
        self.rng = Random(seed)
        self.plan: Plan = planned(self.rng, changes)
        self.seams = seams
        self.kernel = Kernel(self.plan.epoch_ms if epoch_ms is None else epoch_ms)
        self.table = MemoryTable()
        self.changes = 0
        self.overrides = 0
        self.overridden: set[tuple[str, str]] = set()
        skew_ms = WORST_MS if self.plan.wrong_clocks else self.plan.skew_ms
        self.oracle = Oracle(
            self.kernel,
            self.table,
            skew_ms=skew_ms,
            lossless=self.plan.lossless,
            forgetful=self.plan.forgets_buckets,
        )
        self.oracle.from_calls = self._from_calls()
        self.oracle.schedules = Schedules(self.plan.scheduled)
        self.switches = Switchboard()
        self.held = Held(self.kernel, seams)
        self.sharing = Sharing()
        self.deploys = Deploys(self)
        self.calls = Counter[str]()  # that took place before those of the callers, by bucket
        self.processes: list[Process] = []
        self.callers: list[tuple[Process, Caller, Task]] = []

    def run(self) -> None:
        """Let everything happen, and check it. Raises ``Violation``."""
        self._prepare()
        self.processes = [Process(self) for _ in range(self.plan.processes)]
        self._split_up()
        self._schedule()
        with self.oracle.noted.noting(), self.held.noting(), self.sharing.noting():
            self.kernel.run()
            self._settle()
        self._check()

    def _from_calls(self) -> dict[str, set[Limit]]:
        limits: dict[str, set[Limit]] = {}
        for limit in (
            limit for version in self.plan.limits for limit in version if self.plan.conflicting or self.plan.deploys
        ):
            limits.setdefault(limit.name, set()).add(limit)
        return limits

    def _prepare(self) -> None:
        """Store entities below their parents, and the first limits, unseen by the oracle."""
        namespace_state = NamespaceState(
            "demo", "ns", stack="simulated", now=lambda: self.kernel.now_ms, settings=self.plan.settings
        )

        def store(flow: Flow[object]) -> None:
            play(flow, execute)

        def execute(operation: Operation[Any]) -> Any:
            answer = self.table.execute(operation)
            self.oracle.levels.saw(operation, self.kernel.now_ms)
            return answer

        for entity, above in self.plan.tree.items():
            cause, cascade = self._cause(), above.cascade
            created = create_entity(
                namespace_state,
                entity,
                cause,
                name=None,
                parent_id=None,
                parent_ids=above.parents,
                cascade=cascade,
                metadata=None,
            )
            store(created)
        first, places = self.plan.limits[0], config_keys("ns", "", RESOURCES[0])
        if self.plan.deploys == DEFAULTS:
            return
        store(
            stored.set_limits(namespace_state, stored.SYSTEM, first, self._change_of(places.system, own=ordered(first)))
        )
        if self.plan.of_overflow:
            cause = self._change_of(config_keys("ns", "", OVERFLOW).resource, own=ordered(self.plan.of_overflow))
            store(stored.set_limits(namespace_state, (None, OVERFLOW), self.plan.of_overflow, cause))
        chosen = dict.fromkeys(self.rng.sample([*self.plan.tree], self.rng.randint(0, 2)), first)
        if self.plan.of_parent:
            chosen["parent"] = self.plan.of_parent
        if self.plan.of_spent:
            chosen["child-a"] = self.plan.of_spent
        for entity, first in chosen.items():
            cause = self._change_of(config_keys("ns", entity, RESOURCES[0]).entity, own=ordered(first))
            store(stored.set_limits(namespace_state, (entity, RESOURCES[0]), first, cause))

    def _split_up(self) -> None:
        """Have the parent's bucket begin with as many shards as it is to have."""
        if self.plan.shards == 1:
            return
        process, bucket = self.processes[0], BucketId("ns", "parent", RESOURCES[0])
        first = acquire(process.namespace_state, validate_request("parent", RESOURCES[0], {"rpm": 1}))
        counts = [1 << power for power in range((self.plan.shards - 1).bit_length())]
        splits = [bucket.other(shard) for count in counts for shard in range(count)]
        flows: list[Flow[Any]] = [first, *(split_shard(process.namespace_state, shard) for shard in splits)]
        for flow in flows:
            Task(self.kernel, process, self._store(process, flow))
            self.kernel.run()
        self.calls[bucket.pk[:-2]] += 1

    def _schedule(self) -> None:
        plan, rng = self.plan, self.rng
        if plan.outages:
            return Outages(self).schedule()
        if plan.deploys:
            return self.deploys.schedule()
        start = 0
        for _ in range(plan.callers):
            if rng.random() < plan.bursts:
                checks = rng.random() < plan.checks
                for turn in range(12) if checks else [rng.randint(0, 12)]:
                    self.kernel.later(start, partial(self._join, checks=checks), turns=turn)
                continue
            start += rng.randint(0, 2 * plan.span_us // plan.callers)
            start += rng.randint(1_000_000, 200_000_000) if rng.random() < plan.idle else 0
            self.kernel.later(start, self._arrive)
        events: list[tuple[int, Callable[[], None]]] = [
            (plan.changes, self._change),
            (plan.crashes, self.crash),
            (plan.expiries, self._expire),
            (plan.splits, self.split),
            (plan.merges, self.merge),
            (plan.disturbances, self._disturb),
            (plan.overrides, self._override),
            (plan.suspensions, self.suspend),
            (plan.forks, self._fork),
            (plan.deletions, partial(self._delete, first=rng.randint(0, 1))),
            (plan.moves, self._move),
            (plan.switches, self._switch),
        ]
        for times, event in events:
            for _ in range(times):
                self.kernel.later(rng.randint(0, start), event)
        if plan.expiries:
            for behind in (65, 130, 200):
                self.kernel.later(start + behind * 1_000_000, self._expire)
                self.kernel.later(start + behind * 1_000_000 + 1_000, self._arrive)
        return None

    def _arrive(self) -> None:
        busy = [task for _, _, task in self.callers if not task.ended.done] if self.plan.one_by_one else []
        if busy:
            return busy[-1].ended.when_done(lambda: self.kernel.later(1_000, self._arrive))
        checks = self.rng.random() < self.plan.checks
        return self._admit(self.rng.choice(self.processes), self._some_bucket(), checks=checks)

    def arrive(self, weights: Sequence[float]) -> None:
        """Somebody comes to a process, which is chosen by its weight."""
        [process] = self.rng.choices(self.processes, weights)
        self._admit(process, self._some_bucket(), checks=False)

    def start(self) -> Process:
        """Start one more process."""
        self.processes.append(process := Process(self))
        return process

    def come(self, process: Process, place: tuple[str, str]) -> None:
        """Somebody comes to a process, for a bucket."""
        self._admit(process, place, checks=False)

    def change(self) -> None:
        """Store the second version of the limits at a level, for all who are not to have others."""
        process, limits = self.rng.choice(self.processes), self.plan.limits[-1]
        for entity in self.plan.entities:
            place = config_keys("ns", entity, RESOURCES[0])
            cause = self._change_of(place.entity, own=ordered(limits))
            flow = stored.set_limits(process.namespace_state, (entity, RESOURCES[0]), limits, cause)
            Task(self.kernel, process, self._store(process, flow))

    def _join(self, *, checks: bool) -> None:
        """Somebody comes together with the one before, to the same process, for the same bucket."""
        if self.plan.one_by_one or not self.callers or not self.callers[-1][0].alive:
            return self._arrive()
        process, caller, _ = self.callers[-1]
        return self._admit(process, caller.place, checks=checks)

    def _admit(self, process: Process, place: tuple[str, str], *, checks: bool) -> None:
        caller = Caller(
            self.kernel,
            process,
            self.plan,
            self.rng,
            place,
            checks=checks,
            levels=self.oracle.levels,
            switches=self.switches,
        )
        task = Task(self.kernel, process, caller.live())
        self.callers.append((process, caller, task))
        if self.rng.random() < self.plan.cancelled:
            if self.plan.network.typical_us:
                self.kernel.later(self.rng.randint(0, 50_000), task.cancel)
            else:
                self.kernel.later(0, task.cancel, turns=self.rng.randint(0, 40))

    def _settle(self) -> None:
        """Long after the last change every process comes once more, wherever limits were overridden."""
        self.kernel.later(SETTLED_US, lambda: None)
        self.kernel.run()
        if self.plan.outages:
            self._pay_the_rest()
        if any(limit._has_slots for version in self.plan.limits for limit in version):
            self._take_all_slots()
        for place in sorted(self.overridden):
            for process in self.processes:
                since = self.oracle.instant
                self._admit(process, place, checks=False)
                self.kernel.run()
                if self.callers[-1][1].answer == "admitted" and self.plan.faultless and not self.plan.conflicting:
                    check_settled(self.oracle, since)

    def _take_all_slots(self) -> None:
        """Once all holders are gone for twice ``expires``, somebody new gets every slot. Raises ``Violation``."""
        everything = self.table.execute(Scan(limit=100_000)).items
        items = [item for item in everything if f"b_{SLOTS}_tk" in item and item["PK"].endswith("#0")]
        for item in self.rng.sample(items, min(2, len(items))):
            self.kernel.later(SETTLED_US, lambda: None)
            self.kernel.run()
            entity, resource = item["PK"].split("#")[1:3]
            process = Process(self)
            process.driver.link.calm()
            limits = [Limit.concurrent(SLOTS, item[f"b_{SLOTS}_cp"] // 1000, expires=item[f"b_{SLOTS}_ex"] // 1000)]
            request = validate_request(entity, resource, {SLOTS: limits[0].capacity}, limits=limits)
            asked = Task(self.kernel, process, process.driver.run(acquire(process.namespace_state, request), Account()))
            asked.ended.when_done(process.crash)
            self.kernel.run()
            if asked.ended.error is not None and not isinstance(asked.ended.error, AccessDisabled):
                raise Violation(f"slots of {item['PK']} are gone: {asked.ended.error}; {item}")

    def _pay_the_rest(self) -> None:
        """Every process closes, while the table answers: twice, for a first payment may be under way."""
        for process in self.processes:
            process.driver.link.calm()
            for _ in range(2):
                Task(self.kernel, process, self._store(process, count_the_rest(process.namespace_state)))
                self.kernel.run()

    def _change(self) -> None:
        process, limits = self.rng.choice(self.processes), self.rng.choice(self.plan.limits)
        Task(self.kernel, process, self._store(process, self._changing(process.namespace_state, limits)))

    def _changing(self, namespace_state: NamespaceState, limits: tuple[Limit, ...]) -> Flow[object]:
        rng, entity = self.rng, self.rng.choice(self.plan.entities)
        resource, plan = rng.choice(self.plan.resources), self.plan
        if plan.patterns and rng.random() < OF_PATTERNS:
            return self._changing_shared(namespace_state, limits)
        place, what = config_keys("ns", entity, resource), rng.randrange(4)
        level = (entity, resource) if what % 2 == 0 else (None, resource)
        return self._setting(
            namespace_state, level, place.resource if what % 2 else place.entity, limits, sets=what < 2
        )

    def _changing_shared(self, namespace_state: NamespaceState, limits: tuple[Limit, ...]) -> Flow[object]:
        """Somebody changes the limits of a pattern, or removes them; or changes those of the system."""
        rng = self.rng
        if rng.random() < OF_SYSTEM:
            cause = self._change_of(config_keys("ns", "", "").system, own=ordered(limits))
            return stored.set_limits(namespace_state, stored.SYSTEM, limits, cause)
        pattern = rng.choice(self.plan.patterns)
        return self._setting(
            namespace_state, (None, pattern), key_of_pattern(pattern), limits, sets=rng.random() < GETS_LIMITS
        )

    def _setting(
        self, namespace_state: NamespaceState, level: ConfigPlace, key: Key, limits: tuple[Limit, ...], *, sets: bool
    ) -> Flow[object]:
        """Give a level limits, which may add to those of the next one; or none."""
        rng = self.rng
        mode = rng.choice((None, "extends", "extends", "unlimited")) if self.plan.modes and sets else None
        if mode == "extends":
            limits = tuple(rng.sample(limits, rng.randint(1, len(limits))))
        cause = self._change_of(key, own=ordered(limits) if sets and mode != UNLIMITED else (), mode=mode)
        if not sets:
            return stored.delete_limits(namespace_state, level, cause)
        given: Any = UNLIMITED if mode == UNLIMITED else limits
        return stored.set_limits(namespace_state, level, given, cause, extends=mode == "extends")

    def _override(self) -> None:
        """Somebody overrides the limits of an entity, for a moment or for longer, or ends what another has set."""
        process, rng = self.rng.choice(self.processes), self.rng
        namespace_state, (entity, resource) = process.namespace_state, self._some_bucket()
        self.overridden.add((entity, resource))
        place = rng.choice((resource, "_default_"))
        key = config_keys("ns", entity, place).entity
        if rng.random() < ENDED_BY_HAND:
            cause = self._change_of(key, override=(), until_ms=0)
            flow = stored.delete_override(namespace_state, (entity, place), cause)
        else:
            self.overrides += 1  # no two have the same burst, and no config has it
            prefetch = rng.choice((0.0, 0.5)) if self.plan.prefetching else 0.0
            limits = [
                Limit.custom(name, rng.choice((1, 40)), burst=1000 + self.overrides, prefetch=prefetch)
                for name in ("rpm", "tpm")
            ]
            until_ms = namespace_state.now() + rng.choice((50, 500, 2_000, 20_000))
            until = datetime.fromtimestamp(until_ms // 1000, UTC) + timedelta(milliseconds=until_ms % 1000)
            cause = self._change_of(key, override=ordered(limits), until_ms=until_ms)
            flow = stored.set_override(namespace_state, (entity, place), limits, until, cause)
        Task(self.kernel, process, self._store(process, flow))

    def _switch(self) -> None:
        """Somebody closes buckets, opens them, or says whether parents are drawn on; or takes it back: of one level."""
        rng = self.rng
        own, *wider = levels(*self._some_bucket())
        place = rng.choice((own, own, own, *wider))
        process = rng.choice(self.processes)
        name, values = rng.choice(SWITCHES)
        fields = {name: rng.choice(values)}
        if fields.get("disabled"):
            fields["bypass"] = None
        if fields.get("bypass"):
            fields["disabled"] = None
        flow = self._switching(process.namespace_state, *place, fields)
        change = self.switches.begin(place, fields, self.kernel.now_ms)
        there = all(place) and self._is_there(place)  # who makes it meanwhile may know the switches of before
        task = Task(self.kernel, process, process.driver.run(flow, Account()))

        def done() -> None:
            if task.ended.error is not None:
                return
            told = there and self._is_there(place)
            change.done(self.kernel.now_ms, heeded_after_ms=0 if told else self._untold_ms)

        task.ended.when_done(done)

    def _is_there(self, place: Place) -> bool:
        return self.oracle.look(bucket_key(BucketId("ns", *place))) is not None

    def _switching(self, state: NamespaceState, entity: str, resource: str, fields: Mapping[str, Any]) -> Flow[object]:
        level = stored.of_either(entity or None, resource or None)
        return stored.set_switches(state, level, fields, None, self._cause())

    def _move(self) -> None:
        """Give somebody other parents, among those who were there before."""
        process, rng, everybody = self.rng.choice(self.processes), self.rng, [*self.plan.tree]
        place = rng.randrange(1, len(everybody))
        parents = rng.sample(everybody[:place], min(place, rng.randint(1, MOST_PARENTS)))
        fields = {"parent_ids": parents, "cascade": True}
        flow = update_entity(process.namespace_state, everybody[place], fields, self._cause(), expected_version=None)
        Task(self.kernel, process, self._store(process, flow))

    def _change_of(self, key: Key, **changes: Any) -> Cause:
        """The cause of an administrator's change, of which the oracle knows what it means."""
        cause = self._cause()
        self.oracle.levels.intend(cause, key, **changes)
        return cause

    def split(self) -> None:
        """Split a shard as the aggregator does: beside the writes that the process has under way."""
        process, rng = self.rng.choice(self.processes), self.rng
        bucket = BucketId("ns", *self._some_bucket(), rng.choice((0, 0, 1, 2, 3)))
        Task(self.kernel, process, self._store(process, split_shard(process.namespace_state, bucket)))

    def merge(self) -> None:
        """Merge the shards of a bucket as the aggregator does: beside the writes that the process has under way."""
        process, bucket = self.rng.choice(self.processes), BucketId("ns", *self._some_bucket())
        Task(self.kernel, process, self._store(process, merge_bucket(process.namespace_state, bucket)))

    def _disturb(self) -> None:
        """Somebody whose clock was hours fast has anchored a shard."""
        bucket = BucketId("ns", *self._some_bucket(), self.rng.choice((0, 0, 1)))
        late = {"rf": self.kernel.now_ms + self.rng.randint(120_000, 10_000_000)}
        with suppress(ConditionFailed):
            self.table.execute(Update(bucket_key(bucket), set=late, when=Conditions(exists=("PK",))))
            self.oracle.disturbed(bucket.pk.rpartition("#")[0])

    def _delete(self, *, first: int) -> None:
        """Somebody deletes a bucket by hand; without its shard 0, he was interrupted."""
        place = self._some_bucket()
        bucket = BucketId("ns", *place)
        for shard in range(first, MAX_SHARDS):
            self.table.execute(Delete(bucket_key(bucket.other(shard))))
        self.oracle.deleted(bucket.pk.rpartition("#")[0])
        if first == 0:
            self.switches.untold(place, self.kernel.now_ms + self._untold_ms)

    @property
    def _untold_ms(self) -> int:
        """After how long a switch is heeded of which no bucket is told."""
        return self.plan.settings.config_ttl_ms + NOT_TOLD_MS

    def _some_bucket(self) -> tuple[str, str]:
        return self.rng.choice(self.plan.entities), self.rng.choice(self.plan.resources)

    def _cause(self) -> Cause:
        """An administrator's change: one of its own, to the store."""
        self.changes += 1
        return Cause(None, "2026-01-01T00:00:00Z", f"{self.changes:08d}", None)

    def _store(self, process: Process, flow: Flow[object]) -> Script[None]:
        try:
            yield from process.driver.run(flow, Account())
        except StoreError:
            return  # another administrator may try again

    def crash(self) -> None:
        """All that a process knew and was about to do is gone; what it sent may still arrive."""
        index = self.rng.randrange(len(self.processes))
        before, fresh = self.processes[index], Process(self)
        before.alive, fresh.driver.link.away = False, before.driver.link.away
        self.processes[index] = fresh

    def suspend(self) -> None:
        """A process stands still, while its clock goes on; one that does already wakes no sooner."""
        for_us = self.rng.choice((200_000, 1_000_000, 6_000_000, 60_000_000))
        process = self.rng.choice(self.processes)
        process.wakes_us = max(process.wakes_us, self.kernel.now_us + for_us)

    def _fork(self) -> None:
        parent = self.rng.choice(self.processes)
        self.processes.append(child := Process(self))
        parent.fork(child)

    def _expire(self) -> None:
        self.table.expire(self.kernel.now_ms // 1000)

    def _check(self) -> None:
        for process, caller, task in self.callers:
            if not process.alive or (isinstance(task.ended.error, Cancelled) and not caller.began):
                continue  # a suspended process may cancel a caller before it begins
            if task.ended.error is not None:
                raise Violation(f"a caller got no answer, but {task.ended.error!r}") from task.ended.error
            if not task.ended.done or caller.answer not in ANSWERS:
                raise Violation(f"a caller got the answer {caller.answer!r}")
            if self.plan.faultless and (caller.answer in UNAVAILABLE or caller.degraded):
                raise Violation("a caller got an answer for an outage, and there was none")
            caller.account.settle()
            if caller.refusal is not None and self.plan.certain and self.plan.one_by_one:
                self._check_refusal(caller.refusal)
        for process in self.processes:
            self._check_rest(process)
        self.oracle.close()
        check_shares(self.plan, self.sharing, self.oracle, [each.driver.link for each in self.processes])
        if self.plan.certain:
            self.oracle.check_usage()
            self._check_calls()
        if self.plan.deploys:
            self.deploys.check(self.oracle.look)
        self._check_siblings()
        self._check_refusals()
        self._check_shadowed()
        if self.plan.shards > 1:
            pk = keys.pk_bucket("ns", "parent", RESOURCES[0], 0)[:-2]
            writes = [write for write in self.oracle.applications if write.bucket == pk]
            Crowd(self.plan, writes, [caller.waits for _, caller, _ in self.callers], self.kernel.epoch_ms).check()

    def _check_rest(self, process: Process) -> None:
        process.driver.at_rest()
        process.driver.counted_once()
        for place in product(self.plan.tree, RESOURCES, (0,)):
            cached = process.namespace_state.cached_shards.get(place)
            if cached is not None and cached.line:
                raise Violation(f"somebody who has left still has a place in the line of {place}")
        if self.plan.keeps_order:
            check_order([caller.waits for own, caller, _ in self.callers if own is process])

    def _check_calls(self) -> None:
        """Each bucket counts the calls that took place, and none that gave everything back.

        A lease whose slots were lost has nothing to give back, so its call stays counted.
        """
        slots = any(limit.name == SLOTS for limits in self.plan.limits for limit in limits)
        calls = self.calls.copy()
        for _, caller, _ in self.callers:
            calls.update(caller.calls)
        for bucket in calls | self.oracle.acquires:
            more = self.oracle.acquires[bucket] - calls[bucket]
            if more < 0 or (more and not slots):
                raise Violation(f"{bucket}: {calls[bucket]} calls, {self.oracle.acquires[bucket]} are counted")

    def _check_refusals(self) -> None:
        """No bucket counts more refusals than callers got; none is lost where nothing goes wrong."""
        told, perhaps, pending = (Counter[tuple[str, str]]() for _ in range(3))
        for _, caller, _ in self.callers:
            for found, noted in ((told, caller.refusals), (perhaps, caller.perhaps)):
                for (place, name), times in noted.items():
                    found[keys.pk_bucket("ns", *place, 0)[:-2], name] += times
        for process in self.processes:
            for cached, waiting in process.namespace_state.pending_refusals.counts.items():
                pending.update({(cached.id.pk[:-2], name): number for name, number in waiting.counts.items()})
        for bucket in told | self.oracle.refused:
            counted = self.oracle.refused[bucket]
            most = told[bucket] + perhaps[bucket]
            if counted > most or (self.plan.forgets_no_refusal and counted + pending[bucket] < told[bucket]):
                raise Violation(
                    f"{bucket}: {told[bucket]} refusals, {counted} of them counted, {pending[bucket]} to be counted"
                )

    def _check_shadowed(self) -> None:
        """Each bucket counts what callers were told that shadow limits would have refused."""
        told = Counter[str]()
        for _, caller, _ in self.callers:
            told.update({keys.pk_bucket("ns", *place, 0)[:-2]: times for place, times in caller.shadowed.items()})
        if self.plan.certain and self.plan.forgets_no_refusal and told != +self.oracle.shadowed:
            raise Violation(f"shadow limits would have refused {told}, and {self.oracle.shadowed} are counted")

    def _check_siblings(self) -> None:
        """Raises ``Violation`` where a parent refused what it had, but for what one process was about to give back."""
        for _, caller, _ in self.callers if self.plan.of_spent and self.plan.processes == 1 else ():
            judged = caller.refusal is not None and not caller.max_wait and caller.account.asked_again < ASKS_AGAIN
            if judged and caller.refusal is not None and self._is_false(caller.refusal):
                raise Violation(f"refused for what was about to come back: {caller.refusal}")

    def _is_false(self, refusal: Refusal) -> bool:
        since_ms = refusal.begun_ms - self.plan.settings.staleness_ms
        pk = keys.pk_bucket("ns", "parent", RESOURCES[0], 0)
        writes = [write for write in self.oracle.applications if write.pk == pk]
        of_parent = [(name, 1000 * tokens) for entity, _, name, tokens in refusal.short if entity == "parent"]
        if len(of_parent) < len(refusal.short):
            return False
        return not any(was_short_for_good(writes, *each, since_ms, refusal.ended_ms) for each in of_parent)

    def _check_refusal(self, refusal: Refusal) -> None:
        """Somewhere in the time that a copy may be old, each limit that the refusal names was short."""
        window_ms = self.plan.settings.staleness_ms + OLDEST_MS
        short = [(keys.pk_bucket("ns", e, r, 0)[:-2], name, 1000 * n) for e, r, name, n in refusal.short]
        if not all(
            self.oracle.was_short(*what, refusal.begun_ms - window_ms, refusal.ended_ms, behind_ms=1_100)
            for what in short
        ):
            raise Violation(f"refused for what was there: {refusal}")


def simulate(seed: int, *, seams: Seams = SOUND, changes: Mapping[str, str] = NOTHING) -> World:
    """The history of a seed. Raises ``Violation`` with the command that replays it."""
    world = World(seed, seams=seams, changes=changes)
    gc.disable()  # all of a history lives until its end, and to look through it meanwhile takes a fifth of the time
    try:
        world.run()
    except Violation as violation:
        command = " ".join(
            ["just simulate --replay", str(seed), *(f"{name}={value}" for name, value in changes.items())]
        )
        raise Violation(f"seed {seed}: {violation}\nreplay: {command}\n{world.plan}") from violation
    finally:
        gc.enable()
    return world
