"""A repository in memory takes from its own table without requests: the same lives with that and without."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from random import Random
from typing import Any, cast

import pytest

from zae_limiter import Limit, Options, RateLimitExceeded, SyncRateLimiter, SyncRepository, ZAELimiterError
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.operations.values import Scan
from zae_limiter.testing import ManualClock

RPM, TPM = Limit.per_minute("rpm", 60), Limit.per_second("tpm", 5_000)
KINDS = {
    "slow": [RPM],
    "fast": [TPM],
    "both": [RPM, TPM],
    "hour": [Limit.per_hour("rpm", 40, window="calendar"), TPM],
    "window": [Limit.quota("rpm", 20, window=90), TPM],
    "schedule": [Limit.custom("rpm", 60, schedule=["soon: 22:15-22:20 600/min"]), TPM],
    "total": [Limit.total("rpm", 50), TPM],
    "slots": [Limit.concurrent("rpm", 4), TPM],
    "shadow": [Limit.per_minute("rpm", 6, shadow=True), TPM],
}


class Life:
    """One repository in memory, and what became of each call. Where units are counted, each acquire is a request."""

    def __init__(self, seed: int, *, count_units: bool) -> None:
        self.chance = Random(seed)
        self.clock = ManualClock()
        self.repository = SyncRepository.in_memory(clock=self.clock, count_units=count_units)
        self.limiter = SyncRateLimiter(self.repository)
        self.told: list[Any] = []
        self.resources = self.chance.sample([*KINDS], 2)
        for resource, limits in KINDS.items():
            self.limiter.set_resource_defaults(resource, limits)
        self.limiter.create_entity("org")
        self.limiter.create_entity("child", parent_id="org", cascade=True)

    def run(self, calls: int) -> None:
        for _ in range(calls):
            step = self.chance.choices([self.acquire, self.pause, self.change, self.look], [90, 8, 1, 1])[0]
            self.told.append((step.__name__, self.clock.now_ms(), told(step)))

    def acquire(self) -> Any:
        chance, entity = self.chance, self.chance.choice(["a", "a", "a", "a", "b", "child", "org"])
        resource = chance.choice(self.resources)
        known = [limit.name for limit in KINDS[resource]]
        names = known if chance.random() < 0.7 else chance.sample(known, 1)
        least, most = chance.choice([(1, 1), (1, 1), (1, 3), (1, 3), (0, 3), (1, 100)])
        times = {"rpm": 1, "tpm": chance.choice([1, 300])}
        amounts = {name: chance.randint(least, most) * times[name] for name in names}
        found: list[Any] = []
        with suppress(ArithmeticError), self.limiter.acquire(entity, resource, amounts) as lease:
            self._use(lease, names, found)
        return found

    def _use(self, lease: Any, names: list[str], found: list[Any]) -> None:
        chance, calls = self.chance, dict[str, Callable[[], Any]]()
        one = {chance.choice(names): chance.randint(0, 2)}
        calls["statuses"] = lambda: (lease.statuses, lease.consumed, lease.shadowed)
        calls["adjust"] = lambda: lease.adjust(**{name: n * 20 - 20 for name, n in one.items()})
        calls["settle"] = lambda: lease.settle(**one)
        calls["release"] = lambda: lease.release(**one)
        calls["consume"] = lambda: lease.consume(**one)
        calls["exceed"] = lambda: lease.would_exceed(**one)
        calls["another"] = self.acquire
        calls["keep"] = lease.keep
        calls["pause"] = self.pause
        calls["change"] = self.change
        for _ in range(chance.choice([0, 0, 0, 1, 2])):
            name = chance.choices([*calls], [6, 3, 2, 2, 2, 2, 2, 1, 1, 1])[0]
            found.append((name, told(calls[name])))
        if chance.random() < 0.1:
            raise ArithmeticError

    def pause(self) -> None:
        self.clock.advance(self.chance.choice([0.001, 0.3, 1, 5, 70, 4_000]))

    def change(self) -> Any:
        limiter, entity, resource = self.limiter, self.chance.choice("ab"), self.chance.choice(self.resources)
        limits = self.chance.choice([*KINDS.values()])
        changes: list[Callable[[], Any]] = [
            lambda: limiter.set_limits(entity, limits, resource),
            lambda: limiter.delete_limits(entity, resource),
            lambda: limiter.set_resource_defaults(resource, limits),
            lambda: limiter.delete_entity(entity),
            lambda: limiter.repository.set_switches(entity, resource, disabled=True),
            lambda: limiter.repository.set_switches(entity, resource, disabled=None),
            lambda: limiter.repository.set_switches(entity, resource, bypass=True),
            lambda: limiter.repository.set_switches(entity, resource, bypass=None),
            lambda: self.repository.reset_bucket(entity, resource),
            lambda: self.repository.credit_bucket(entity, resource, {"rpm": 3}),
            self.repository.invalidate_config_cache,
        ]
        return self.chance.choice(changes)()

    def look(self) -> Any:
        resource, at = self.chance.choice(self.resources), datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC)
        looks: list[Callable[[], Any]] = [
            lambda: self.limiter.available("a", resource),
            lambda: self.limiter.check("child", resource, {"rpm": 3}),
            lambda: self.repository.get_bucket("a", resource),
            lambda: self.repository.list_buckets(resource),
            lambda: self.repository.get_usage_summary(resource=resource, end=at),
        ]
        return self.chance.choice(looks)()

    def items(self) -> list[dict[str, Any]]:
        """All that buckets and usage have, by names that both lives have."""
        store, own_id = cast("SyncMemoryStore", self.repository._store), self.repository.namespace_id
        items = [item for item in store.perform(Scan(100_000)).items if "b_wcu_tc" in item or "#USAGE" in item["SK"]]
        named = [{n: v.replace(own_id, "") if type(v) is str else v for n, v in item.items()} for item in items]
        return sorted(named, key=lambda item: (item["PK"], item["SK"]))


def told(call: Callable[[], Any]) -> Any:
    """What a caller sees of a call."""
    try:
        return call()
    except RateLimitExceeded as refusal:
        return type(refusal), refusal.as_dict(), refusal.statuses, str(refusal)
    except ZAELimiterError as error:
        return type(error), str(error)


@pytest.mark.parametrize("seed", range(4))
def test_its_own_table_changes_no_answer_and_no_item(seed: int) -> None:
    by_requests, by_own_table = Life(seed, count_units=True), Life(seed, count_units=False)
    for life in (by_requests, by_own_table):
        life.run(150)
    for one, other in zip(by_requests.told, by_own_table.told, strict=True):
        assert one == other
    assert by_requests.items() == by_own_table.items()


def test_threads_beside_another_repository_admit_no_token_twice() -> None:
    """Each thread takes of a budget, gives some back, and fails now and then; half of them make requests."""
    repository = SyncRepository.in_memory()
    store = cast("SyncMemoryStore", repository._store)
    own = SyncRateLimiter(repository)
    other = SyncRateLimiter(SyncRepository.over(SyncMemoryStore(store.table), Options()))
    own.set_resource_defaults("r", [Limit.total("usd", 300), Limit.per_second("rps", 10**6)])

    def spend(number: int) -> tuple[int, int]:
        limiter, chance, spent, calls = (own, other)[number % 2], Random(number), 0, 0
        for _ in range(40):
            amount, end = chance.randint(1, 3), chance.random()
            with (
                suppress(RateLimitExceeded, ArithmeticError),
                limiter.acquire("e", "r", {"usd": amount, "rps": 1}) as lease,
            ):
                if end < 0.2:
                    raise ArithmeticError
                if end < 0.4:
                    lease.adjust(usd=-amount)
                spent, calls = spent + (amount if end >= 0.4 else 0), calls + 1
        return spent, calls

    with ThreadPoolExecutor(8) as threads:
        spent, calls = map(sum, zip(*threads.map(spend, range(8)), strict=True))
    (item,) = [item for item in store.perform(Scan(1_000)).items if "b_usd_tk" in item]
    assert (item["b_usd_tk"], item["b_usd_tc"], item["ev"]) == ((300 - spent) * 1_000, spent * 1_000, calls)


def test_another_repository_may_keep_the_bucket_for_ever() -> None:
    clock = ManualClock()
    repository = SyncRepository.in_memory(clock=clock)
    store = cast("SyncMemoryStore", repository._store)
    own, options = SyncRateLimiter(repository), Options(bucket_ttl_multiplier=0, clock=clock)
    other = SyncRateLimiter(SyncRepository.over(SyncMemoryStore(store.table), options))
    own.set_resource_defaults("r", [TPM])

    def expires(limiter: SyncRateLimiter) -> bool:
        with limiter.acquire("e", "r", {"tpm": 1}):
            (item,) = [item for item in store.perform(Scan(1_000)).items if "b_tpm_tk" in item]
            return "ttl" in item

    assert [expires(own) for _ in range(3)] == [True] * 3
    assert not expires(other)
    assert [expires(own) for _ in range(12)][-1]


@pytest.mark.parametrize("count_units", [True, False])
def test_a_parent_that_limits_nothing_of_a_call_counts_no_acquire(*, count_units: bool) -> None:
    repository = SyncRepository.in_memory(clock=ManualClock(), count_units=count_units)
    limiter = SyncRateLimiter(repository)
    limiter.create_entity("org")
    limiter.create_entity("key", parent_id="org", cascade=True)
    limiter.set_limits("org", [Limit.per_second("usd", 100)], "api")
    limiter.set_resource_defaults("api", [TPM])
    for entity, amounts in [("org", {"usd": 1}), *[("key", {"tpm": 1})] * 3]:
        with limiter.acquire(entity, "api", amounts):
            pass
    used = repository.get_usage_summary(entity_id="org", resource="api")
    assert (used.total_events, used.total_below) == (1, 0)
