"""Tables to copy from and to, in files and in memory.

Lives here: a namespace with a bit of everything, what its methods answer, stores that die. Never: a claim.
"""

from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from zae_limiter import Limit, OnRefused, Options, SyncRateLimiter, SyncRepository, maintenance
from zae_limiter.engines.engine import Capabilities, SyncStore
from zae_limiter.maintenance import ProvisionerState, SyncMaintenance
from zae_limiter.operations.errors import OutcomeUnknown, StoreError
from zae_limiter.operations.values import BatchWrite, Delete, Operation, Put, Transact, Update
from zae_limiter.testing import ManualClock
from zae_limiter.values.namespaces import Namespace
from zae_limiter.values.usage import UsageSnapshot, Window
from zae_limiter.wiring import namespace_state_of

WRITES = (Put, Update, Delete, Transact, BatchWrite)
RPM = Limit.per_minute("rpm", 60)
TPM = Limit.per_minute("tpm", 1000, shadow=True)
EVERY_KIND = [
    Limit.custom("rpm", 60, prefetch=0.5, schedule=["night: 22:00-06:00 Europe/Berlin 100/min"]),
    Limit.per_month("usd", 250, timezone="Europe/Berlin", starts_on=15, carry_over=True, alert=(80, 95)),
    Limit.quota("seats", 30, cron="0 6 * * MON"),
    Limit.quota("first", 10, window=86_400),
    Limit.total("credits", 500, weights={"input": 1, "output": 4}),
    Limit.total("budget", 500, expires=7 * 86_400),
    Limit.concurrent("parallel", 5, expires=86_400),
]


class Killed(Exception):
    """The process died."""


class MortalStore(SyncStore):
    """A store whose process dies right after so many writes."""

    def __init__(self, inner: SyncStore, lives: int) -> None:
        self._inner = inner
        self._lives = lives

    @property
    def capabilities(self) -> Capabilities:
        return self._inner.capabilities

    def perform(self, operation: Operation[Any]) -> Any:
        if isinstance(operation, WRITES):
            if self._lives == 0:
                raise Killed
            self._lives -= 1
        return self._inner.perform(operation)

    def close(self) -> None:
        """Close nothing: others use what is within."""


class LateStore(SyncStore):
    """A store that loses some writes, by their number, with no answer: they arrive when ``arrive`` is called."""

    def __init__(self, inner: SyncStore, lost: Collection[int]) -> None:
        self._inner = inner
        self._lost = lost
        self.writes = 0
        self.late: list[Operation[Any]] = []

    @property
    def capabilities(self) -> Capabilities:
        return self._inner.capabilities

    def perform(self, operation: Operation[Any]) -> Any:
        if isinstance(operation, WRITES):
            self.writes += 1
            if self.writes - 1 in self._lost:
                self.late.append(operation)
                raise OutcomeUnknown("no answer")
        return self._inner.perform(operation)

    def arrive(self) -> None:
        """Perform what was lost; nobody gets the answers."""
        for operation in self.late:
            with suppress(StoreError):
                self._inner.perform(operation)

    def close(self) -> None:
        """Close nothing: others use what is within."""


def table_over(store: SyncStore, clock: ManualClock) -> SyncRepository:
    """A repository for what belongs to no namespace, as ``maintenance.open_table`` makes one."""
    options = Options(clock=clock)
    return SyncRepository(store, namespace_state_of(options, "", "", clock), options, clock)


def opened(store: SyncStore, clock: ManualClock, name: str = "prod", **options: Any) -> SyncRateLimiter:
    """A limiter in a namespace."""
    return SyncRateLimiter(SyncRepository.over(store, Options(namespace=name, clock=clock, **options)))


def fill(limiter: SyncRateLimiter, clock: ManualClock) -> None:
    """Make one of everything that a namespace may have, in more than one hour."""
    limiter.set_system_defaults([RPM], "allow")
    limiter.set_resource_defaults("gpt-4", [RPM, TPM])
    limiter.repository.set_tier_limits("gold", [Limit.per_minute("rpm", 77)], "other")
    limiter.create_entity("project", name="A project", tier="gold", metadata={"tier": "gold"})
    limiter.create_entity("key/1|ü", parent_id="project", cascade=True)
    limiter.create_entity("shared|ß", parent_ids=["key/1|ü", "project"], cascade=True)
    limiter.set_limits("key/1|ü", [RPM], "gpt-4")
    limiter.set_limits("key-2", [Limit.per_minute("rpm", 7)])
    end = datetime.fromtimestamp(clock.now_ms() / 1000, UTC) + timedelta(hours=10)
    limiter.set_limits("key-2", [Limit.per_minute("rpm", 90)], "gpt-4", override_until=end)
    for spent in (5, 7):
        with limiter.acquire("key/1|ü", "gpt-4", {"rpm": spent}):
            pass
        with limiter.acquire("key-2", "other", {"rpm": 1}):
            pass
        clock.advance(3600 + 1)
    with limiter.acquire("key/1|ü", "gpt-4", {"rpm": 30}):
        pass
    _use_every_kind(limiter)
    SyncMaintenance(limiter.repository).put_provisioner_state(ProvisionerState(managed_system=True), expected_serial=0)


def _use_every_kind(limiter: SyncRateLimiter) -> None:
    stored = limiter.repository
    limiter.set_resource_defaults("kinds", EVERY_KIND, on_refused=OnRefused(0.5, "gpt-4", "80%"))
    with limiter.acquire("key-3", "kinds", {each.name: 3 for each in EVERY_KIND}):
        pass
    stored.credit_bucket("key-3", "kinds", {"credits": 2}, idempotency_key="invoice|1")
    stored.set_resource_switches("closed", disabled=True, reason="repair")
    stored.set_switches("key-3", "kinds", bypass=True, cascade="off")


def credited_again(limiter: SyncRateLimiter) -> int:
    """What the bucket has left if the credit of ``fill`` is asked for once more."""
    limiter.repository.credit_bucket("key-3", "kinds", {"credits": 2}, idempotency_key="invoice|1")
    return limiter.available("key-3", "kinds")["credits"]


def answers(limiter: SyncRateLimiter) -> dict[str, Any]:
    """What the methods that read answer, without counters of buckets, which begin anew."""
    stored = limiter.repository
    found: dict[str, Any] = {}
    for entity in ("project", "key/1|ü", "key-2", "key-3", "shared|ß"):
        found[f"entity {entity}"] = stored.get_entity(entity)
        found[f"children {entity}"] = stored.get_children(entity)
        found[f"audit {entity}"] = stored.get_audit_events(entity)
        for resource in ("gpt-4", "other", "kinds", "closed"):
            place = f"{entity} on {resource}"
            found[f"limits {place}"] = stored.get_limits(entity, resource)
            found[f"resolved {place}"] = stored.resolve_limits(entity, resource)
            found[f"available {place}"] = limiter.available(entity, resource)
            found[f"override {place}"] = stored.get_override(entity, resource)
            found[f"switches {place}"] = stored.resolve_switches(entity, resource)
        found[f"usage {entity}"] = usage(limiter, entity)
    found["system"] = stored.get_system_defaults()
    found["defaults"] = stored.get_resource_defaults("gpt-4")
    found["tiers"] = stored.list_tiers()
    found["tier"] = stored.get_tier_limits("gold", "other")
    found["of tier"] = stored.list_entities_of_tier("gold")
    found["resources"] = stored.list_resources_with_defaults()
    found["custom"] = stored.list_entities_with_custom_limits("gpt-4")
    found["state"] = SyncMaintenance(stored).get_provisioner_state()
    found["capacity"] = stored.get_resource_capacity("gpt-4")
    return found


def usage(limiter: SyncRateLimiter, entity_id: str) -> list[UsageSnapshot]:
    """All snapshots of an entity."""
    windows: tuple[Window, ...] = ("hourly", "daily")
    pages = (limiter.repository.get_usage_snapshots(entity_id=entity_id, window=window) for window in windows)
    return [snapshot for page in pages for snapshot in page.snapshots]


def copy(source: SyncRepository, target: SyncRepository, *names: str) -> list[Namespace]:
    """Copy as the command does."""
    forecasts = maintenance.forecast_copy(source, target, names)
    return maintenance.copy(source, target, forecasts, report=lambda _: None)
