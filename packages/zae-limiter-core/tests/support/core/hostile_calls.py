"""Every public method that asks the store, called over a table with something for each, while answers are damaged.

Lives here: the table, the calls, and one trial of one of them. Never: how an answer is damaged (hostile), a claim.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final, Literal

from support.core.snapshots import usage_item
from zae_limiter import Draw, Limit, Options, RateLimiter, Repository, SyncRateLimiter, SyncRepository, UsageSnapshot
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.maintenance import (
    HandledEvent,
    ProvisionerLock,
    ProvisionerState,
    StoredConfig,
    SyncMaintenance,
    VersionRecord,
)
from zae_limiter.operations.values import Item, Put, Scan
from zae_limiter.testing import ManualClock
from zae_limiter.values.provisioner import StoredEntity

from .hostile import Damage, HostileStore, HostileTable, SyncHostileStore
from .owners import owner_of

Variant = Literal["async", "sync"]
Script = Callable[[Any, Any], Awaitable[Any]]

RPM, TPM = Limit.per_minute("rpm", 60), Limit.per_minute("tpm", 1000)
START: Final = datetime(2024, 1, 1, tzinfo=UTC)
STATE: Final = ProvisionerState(
    managed_system=True,
    managed_resources=["r", "s"],
    managed_entities={f"entity-{number:03}": ["r" * 100] for number in range(40)},  # so many that it has parts
    lock=ProvisionerLock("id", "me", 10**13),
    handled=[HandledEvent("Create 1", True)],
)
SETTINGS: Final = Options(stack="t", namespace="own", clock=ManualClock(), check_version=True)


async def of(value: Any) -> Any:
    """What a method of either variant returns."""
    return await value if inspect.isawaitable(value) else value


async def acquire(limiter: Any, *arguments: Any, steps: tuple[str, ...] = (), **options: Any) -> None:
    """An acquire of either variant, with calls of its lease."""
    lease = limiter.acquire(*arguments, **options)
    is_async = hasattr(lease, "__aenter__")
    held = await lease.__aenter__() if is_async else lease.__enter__()
    problem: BaseException | None = None
    try:
        for step in steps:
            await of(getattr(held, step)(rpm=1))
    except Exception as error:  # noqa: BLE001 - the block ends with it, as that of a caller does
        problem = error
    told = (None, None, None) if problem is None else (type(problem), problem, problem.__traceback__)
    await of(lease.__aexit__(*told) if is_async else lease.__exit__(*told))
    if problem is not None:
        raise problem


async def acquires(limiter: Any, repository: Any) -> None:
    for _ in range(3):
        await acquire(limiter, "child", "r", {"rpm": 1}, steps=("consume", "adjust", "release", "settle"))


async def cold_acquires(limiter: Any, repository: Any) -> None:
    await acquire(limiter, "new-child", "new", {"rpm": 1}, [RPM])
    await acquire(limiter, "new-child", "new", {"rpm": 1, "tpm": 5}, [RPM, TPM])
    await acquire(limiter, "alone", "new", {"rpm": 1}, [RPM], on_unavailable="allow")


async def draws(limiter: Any, repository: Any) -> None:
    for draws in ([Draw("parent", "other"), Draw("alone")], [Draw("new-child", "new", {"rpm": 2})]):
        await acquire(limiter, "child", "r", {"rpm": 1}, steps=("consume", "settle"), draws=draws)


async def budgets(limiter: Any, repository: Any) -> None:
    for amounts in ({"rpm": 50}, None):  # opens it, then joins
        run = await of(limiter.budget("run", amounts, within="child").open())
        await acquire(run, "r", {"rpm": 1}, steps=("consume", "settle"))
    await of(run.left())
    await of(run.end())


async def retried(limiter: Any, repository: Any) -> None:
    for _ in range(2):
        await acquire(limiter, "child", "r", {"rpm": 1}, steps=("settle",), idempotency_key="order")


async def pages(limiter: Any, repository: Any) -> None:
    page = await of(repository.get_usage_snapshots(resource="r", limit=1))
    await of(repository.get_usage_snapshots(resource="r", limit=1, next=page.next))


async def opens(limiter: Any, repository: Any) -> None:
    if isinstance(repository, SyncRepository):
        SyncRepository.over(repository._store, SETTINGS).close()
    else:
        await (await Repository.over(repository._store, SETTINGS)).close()


def method(name: str, /, *arguments: Any, **options: Any) -> Script:
    """The call of one method of the limiter, or else of the repository, or of its maintenance."""

    async def call(limiter: Any, repository: Any) -> Any:
        return await of(
            getattr(limiter if hasattr(limiter, name) else owner_of(name, repository), name)(*arguments, **options)
        )

    return call


LATER: Final = datetime(2023, 11, 14, 23, tzinfo=UTC) + timedelta(hours=20)
WITHOUT_THE_STORE: Final = {
    "close",
    "estimate",
    "get_cache_stats",
    "get_store_stats",
    "invalidate_config_cache",
    "limit",
}
FITTING: Final[Mapping[str, Any]] = {
    "entity_id": "child",
    "resource": "r",
    "consume": {"rpm": 1},
    "tokens": {"rpm": 1},
    "limits": [TPM],
}
OWN_CALLS: Final[Mapping[str, Script]] = {
    "open": opens,
    "acquire": acquires,
    "acquire cold": cold_acquires,
    "usage pages": pages,
    "available": method("available", "child", "r"),
    "explain": method("explain", "child", "r"),
    "check": method("check", "child", "r", {"rpm": 60}),
    "check with draws": method("check", "child", "r", {"rpm": 60}, draws=[Draw("parent", "other"), Draw("alone")]),
    "acquire with draws": draws,
    "acquire, retried": retried,
    "budget": budgets,
    "time_until_available": method("time_until_available", "child", "r", {"rpm": 60}),
    "create_entity": method("create_entity", "another", parent_id="parent"),
    "create_entity with parents": method("create_entity", "another", parent_ids=["parent", "alone"]),
    "create_entity that is there": method("create_entity", "child", parent_id="parent", exist_ok=True),
    "delete_entity with children": method("delete_entity", "parent"),
    "delete_many_limits": method("delete_many_limits", [("child", "r"), ("parent", "r")]),
    "delete_namespace": method("delete_namespace", "other"),
    "delete_override": method("delete_override", "parent", "r"),
    "get_ancestors": method("get_ancestors", "child"),
    "get_audit_events": method("get_audit_events", "child"),
    "get_buckets_at": method("get_buckets_at", [("child", "r"), ("parent", "r")]),
    "get_children": method("get_children", "parent"),
    "get_configs": method("get_configs", [("child", "r"), (None, "r"), (None, None), ("parent", "r")]),
    "get_entity_records": method("get_entity_records", ["child", "parent", "nobody"]),
    "get_last_calls": method("get_last_calls", ["child", "parent", "nobody"]),
    "get_namespace": method("get_namespace", "other"),
    "get_namespace_audit_events": method("get_namespace_audit_events", START),
    "get_override": method("get_override", "parent", "r"),
    "get_top_usage": method("get_top_usage", by="rpm"),
    "get_usage_snapshots": method("get_usage_snapshots", entity_id="child"),
    "get_usage_summary": method("get_usage_summary", resource="r"),
    "list_buckets of a resource": method("list_buckets", "r"),
    "list_entities that begin so": method("list_entities", begins_with="c", limit=2),
    "namespace": method("namespace", "other"),
    "note_applied": method("note_applied", expected_serial=1),
    "purge_namespace": method("purge_namespace", "gone-id"),
    "put_configs": method("put_configs", {("child", "r"): StoredConfig((TPM,)), (None, "r"): None}),
    "put_entity_records": method("put_entity_records", {"child": StoredEntity("alone"), "parent": None}),
    "put_provisioner_state": method("put_provisioner_state", STATE, expected_serial=1),
    "recover_namespace": method("recover_namespace", "gone-id"),
    "register_namespace": method("register_namespace", "fresh"),
    "set_limits": method("set_limits", "child", [TPM], "r"),
    "set_limits for a time": method("set_limits", "child", [TPM], "r", override_until=LATER),
    "set_many_limits": method("set_many_limits", {("child", "r"): [TPM], ("another", "r"): [RPM]}),
    "set_resource_defaults": method("set_resource_defaults", "r", [TPM]),
    "set_tier_limits": method("set_tier_limits", "gold", [TPM], "r"),
    "get_tier_limits": method("get_tier_limits", "gold", "r"),
    "delete_tier_limits": method("delete_tier_limits", "gold", "r"),
    "list_entities_of_tier": method("list_entities_of_tier", "gold"),
    "update_entity to a tier": method("update_entity", "child", tier="gold"),
    "set_system_defaults": method("set_system_defaults", [TPM], "allow"),
    "set_switches": method("set_switches", "child", "r", disabled=True, reason="why"),
    "set_resource_switches": method("set_resource_switches", "r", bypass=True),
    "set_system_switches": method("set_system_switches", cascade="on"),
    "get_switches": method("get_switches", "child", "r"),
    "resolve_switches": method("resolve_switches", "child", "r"),
    "set_version_record": method("set_version_record", VersionRecord(1, "0.1.0", "0.1.0")),
    "invalidate_live_buckets": method("invalidate_live_buckets", "r", writes_per_second=10_000),
    "update_entity": method("update_entity", "child", name="n", metadata={"k": [1]}),
    "update_entity to a parent": method("update_entity", "parent", parent_id="alone"),
    "update_entity to parents": method("update_entity", "child", parent_ids=["alone", "parent"]),
}


def public_methods() -> dict[str, Callable[..., object]]:
    """Every method of a repository and of a limiter that asks the store."""
    found = {
        name: inspect.getattr_static(cls, name)
        for cls in (SyncRepository, SyncRateLimiter)
        for name in dir(cls)
        if not name.startswith("_") and name not in WITHOUT_THE_STORE
    }
    return {name: member for name, member in sorted(found.items()) if inspect.isfunction(member)}


def fitting_calls() -> dict[str, Script]:
    """The calls of the methods without a call of their own whose parameters all have names of ``FITTING``."""
    calls: dict[str, Script] = {}
    for name, function in public_methods().items():
        parameters = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
        needed = [each.name for each in parameters if each.default is each.empty]
        if name not in OWN_CALLS and FITTING.keys() >= {*needed}:
            calls[name] = method(name, **{each: FITTING[each] for each in needed})
    return calls


CALLS: Final[Mapping[str, Script]] = {**OWN_CALLS, **fitting_calls()}


def filled() -> list[Item]:
    """The items of a table that has something for each call."""
    table = MemoryTable()
    repository = SyncRepository.over(SyncHostileStore(HostileTable(table)), SETTINGS)
    limiter = SyncRateLimiter(repository)
    SyncMaintenance(repository).set_version_record(VersionRecord(1, "0.1.0", "0.1.0"))
    limiter.set_system_defaults([RPM], "block")
    limiter.set_resource_defaults("r", [RPM])
    limiter.repository.set_tier_limits("gold", [RPM], "r")
    limiter.create_entity("alone", tier="gold")
    limiter.create_entity("parent", metadata={"k": 1})
    for child in ("child", "new-child"):
        limiter.create_entity(child, name="n", parent_id="parent", cascade=True)
    limiter.set_limits("child", [RPM, TPM], "r")
    limiter.set_limits("parent", [RPM], "r", override_until=LATER)
    limiter.repository.set_switches("child", bypass=False, cascade="on", reason="why")
    for _ in range(2):
        with limiter.acquire("child", "r", {"rpm": 1}):
            pass
    for hour in range(3):
        usage = UsageSnapshot("child", "r", "hourly", START + timedelta(hours=hour), {"rpm": 1}, 1)
        table.execute(Put(usage_item(repository.namespace_id, usage)))
    SyncMaintenance(repository).put_provisioner_state(STATE, expected_serial=0)
    repository.register_namespace("other")
    gone = repository.register_namespace("gone")
    repository.delete_namespace("gone")
    items = table.execute(Scan(1000)).items
    return [_named(item, gone.namespace_id) for item in items]


def _named(item: Item, gone: str) -> Item:
    """The item, with a fixed id for the namespace that is gone."""
    return {name: value.replace(gone, "gone-id") if isinstance(value, str) else value for name, value in item.items()}


async def trial(items: list[Item], name: str, variant: Variant, random: Random) -> Any:
    """Make one call while answers are damaged. Raises what it raises."""
    table = MemoryTable()
    for item in items:
        table.execute(Put(item))
    hostile = HostileTable(table)
    limiter: Any
    if variant == "async":
        limiter = RateLimiter(await Repository.over(HostileStore(hostile), SETTINGS))
    else:
        limiter = SyncRateLimiter(SyncRepository.over(SyncHostileStore(hostile), SETTINGS))
    hostile.damage = Damage(random, good=random.choice([0, 0, 0, 1, 2, 3]))
    try:
        return await CALLS[name](limiter, limiter.repository)
    finally:
        hostile.damage = None
        await of(limiter.close())


@contextmanager
def lines() -> Iterator[list[logging.LogRecord]]:
    """The log lines of the library while the block runs."""
    found: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = found.append  # type: ignore[method-assign, assignment]
    logger = logging.getLogger("zae_limiter")
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)
