"""The page of the table and what the code writes say the same: records, keys, index keys, attributes.

A script writes every record with every attribute that it can have, over a table in memory; the page is read as tables.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from support.core.copies import copy, opened, table_over
from support.core.owners import maintenance_of
from support.core.shards import played, split
from support.core.wires import Wire
from support.core.worlds import World
from zae_limiter import Draw, Limit, OnRefused, RateLimitExceeded
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.flows.records.alerting import Crossing, remember_told
from zae_limiter.flows.records.migrating import Migration, migrate
from zae_limiter.flows.records.usage import Use, count_usage
from zae_limiter.maintenance import (
    ProvisionerState,
    VersionRecord,
    begin_apply,
    note_progress,
    request_stop,
    set_bounds,
    set_trace,
)
from zae_limiter.operations.errors import Unreachable
from zae_limiter.operations.values import Item, Operation, Put, Update
from zae_limiter.rules.windows import LimitWindow
from zae_limiter.schema import keys
from zae_limiter.schema.alerts import told_key
from zae_limiter.schema.attributes import TOTALS
from zae_limiter.schema.changes import Consumption
from zae_limiter.schema.items import BucketId
from zae_limiter.schema.partitions import is_spread
from zae_limiter.schema.registry import version_item
from zae_limiter.schema.table import INDEXES
from zae_limiter.schema.usage import SnapshotId, stream_mark
from zae_limiter.values.provisioner import (
    ApplyProgress,
    ApplyRecord,
    HandledEvent,
    ProvisionerLock,
    StoredConfig,
    StoredEntity,
)
from zae_limiter.values.usage import Refuser
from zae_limiter.values.versions import record_of_this_release

DOCS = Path(__file__).parents[4] / "docs"
if not DOCS.is_dir():
    pytest.skip("the docs are not here: the tests were taken out of the checkout", allow_module_level=True)

RPM = Limit.per_minute("rpm", 60)
TPM = Limit.per_minute("tpm", 6_000, burst=9_000)
MARKED = Limit.per_minute("rpm", 2, shadow=True, prefetch=1, weights={"input": 1})  # its usable burst is 1
TEMPLATES = {r"w\d": "w{cell}", r"b_wcu_tc": "b_wcu_tc", r"([blo])_(?:rpm|tpm)_(\w+)": r"\1_{limit}_\2"}
TEMPLATES |= {
    r"rj_[^/]+/(?:rpm|tpm)": "rj_{entity}/{limit}",
    r"_refused_by_[^/]+/(?:rpm|tpm)": "_refused_by_{entity}/{limit}",
}
TEMPLATES |= {r"l_(?:rpm|tpm)": "l_{limit}", r"_rest_(?:rpm|tpm)": "_rest_{limit}", r"_counted_\d+": "_counted_{shard}"}
TEMPLATES |= {r"_([ar])\d\d": r"_\1{minute}"}
LIMITS, EVERY = "limits of a config", "every config"
SHARED = {"l_{limit}_…": LIMITS, "o_{limit}_…": LIMITS, "…": EVERY}  # rows that stand for those of another table
BUILDERS = {
    "bucket": (keys.pk_bucket("{ns}", "{entity}", "{resource}", "{shard}"), keys.sk_state()),  # type: ignore[arg-type]
    "entity": (keys.pk_entity("{ns}", "{entity}"), keys.sk_meta()),
    "parent link": (keys.pk_entity("{ns}", "{entity}"), keys.sk_parent("{parent}")),
    "entity config": (keys.pk_entity("{ns}", "{entity}"), keys.sk_config("{resource}")),
    "resource config": (keys.pk_resource("{ns}", "{resource}"), keys.sk_config()),
    "system config": (keys.pk_system("{ns}"), keys.sk_config()),
    "usage snapshot": (keys.pk_entity("{ns}", "{entity}"), keys.sk_usage("{resource}", "{window}")),
    "alert mark": told_key(BucketId("{ns}", "{entity}", "{resource}"), "{limit}"),
    "idempotency key": (keys.pk_idempotency("{ns}", "{entity}"), keys.sk_idempotency("{resource}", "{key}")),
    "call": (keys.pk_call("{ns}", "{entity}", "{resource}", "{part}"), keys.sk_call("{key}")),
    "audit event": (keys.pk_audit("{ns}", "{subject}"), keys.sk_audit("{event}")),
    "provisioner state": (keys.pk_system("{ns}"), keys.sk_provisioner()),
    "tier config": (keys.pk_tier("{ns}", "{tier}"), keys.sk_config("{resource}")),
    "provisioner state part": (keys.pk_system("{ns}"), keys.sk_provisioner("{number}")),  # type: ignore[arg-type]
    "apply": (keys.pk_applies("{ns}"), keys.sk_apply("{serial}")),
    "apply's manifest": (keys.pk_applies("{ns}"), keys.sk_apply("{serial}", "{place}")),
    "namespace by name": (keys.pk_system(keys.REGISTRY), keys.sk_namespace("{name}")),
    "namespace by id": (keys.pk_system(keys.REGISTRY), keys.sk_nsid("{id}")),
    "delegation's bounds": (keys.pk_system(keys.REGISTRY), keys.sk_bounds("{name}")),
    "version": (keys.pk_system(keys.REGISTRY), keys.sk_version()),
    "migration": (keys.pk_system(keys.REGISTRY), keys.sk_migration()),
}
BUILDERS = {record: (unquote(pk), unquote(sk)) for record, (pk, sk) in BUILDERS.items()}  # braces are encoded


@dataclass
class Page:
    """What the page says: the keys of each record, the patterns of its index keys, and its other attributes.

    ``always`` has those that each item of the record has.
    """

    records: dict[str, tuple[str, str]] = field(default_factory=dict)
    index_keys: dict[str, dict[str, str]] = field(default_factory=dict)
    attributes: dict[str, set[str]] = field(default_factory=dict)
    always: dict[str, set[str]] = field(default_factory=dict)

    def all_of(self, record: str) -> set[str]:
        """Every attribute that the record has, by the page."""
        return {"PK", "SK", *self.index_keys.get(record, ()), *self.attributes[record]}

    def record_of(self, item: Item) -> str:
        """The one record of the page that the item's keys are of."""
        [record] = [name for name, (pk, sk) in self.records.items() if _fits(pk, item["PK"]) and _fits(sk, item["SK"])]
        return record


def read_page(text: str) -> Page:
    page = Page()
    for heading, cells in _rows(text):
        if heading == "## Records":
            page.records[cells[0]] = cells[1], cells[2]
        elif heading == "## Indexes":
            own = page.index_keys.setdefault(cells[1], {})
            own |= {f"{cells[0]}PK": cells[2], f"{cells[0]}SK": cells[3]}
        elif heading.startswith("### "):
            record = heading.removeprefix("### ")
            assert cells[0] not in page.attributes.setdefault(record, set()), f"{cells[0]} stands twice at {record}"
            page.attributes[record].add(cells[0])
            page.always.setdefault(record, set()).update(cells[:1] if cells[-1] == "always" else ())
    for row, place in SHARED.items():
        for of in (page.attributes, page.always):
            for names in of.values():
                if row in names:
                    names.remove(row)
                    names |= {name if row == "…" else row[0] + name[1:] for name in of[place]}
    for place in (LIMITS, EVERY):
        del page.attributes[place], page.always[place]
    return page


def _rows(text: str) -> Iterator[tuple[str, list[str]]]:
    """The rows of each table, under the heading that it stands below; without its head."""
    heading, in_table = "", False
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line
        cells = [cell.strip().strip("`") for cell in line.split("|")[1:-1]]
        if in_table and cells and not set(cells[0]) <= set("-"):
            yield heading, cells
        in_table = bool(cells)


def _fits(pattern: str, key: object) -> bool:
    parts = re.split(r"(\{\w+\})", pattern)
    wanted = "".join(
        {"{ns}": "[^/#]+", "{entity}": "[^#]+"}.get(part, "[^#]+") if i % 2 else re.escape(part)
        for i, part in enumerate(parts)
    )
    return re.fullmatch(wanted, str(key)) is not None


def plain(attribute: str) -> str:
    """The attribute as the page spells it, without the names of this test's limits."""
    for pattern, template in TEMPLATES.items():
        if re.fullmatch(pattern, attribute):
            return re.sub(pattern, template, attribute)
    return attribute


class Recorder(MemoryTable):
    """A table that remembers each item that it ever had."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Item] = []

    def execute(self, operation: Operation[Any]) -> Any:
        before = dict(self._items)
        answer = super().execute(operation)
        self.written += [item for key, item in self._items.items() if item is not before.get(key)]
        return answer


@pytest.fixture(scope="module")
def page() -> Page:
    return read_page((DOCS / "design" / "table.md").read_text())


@pytest.fixture
async def written(async_world: World, monkeypatch: pytest.MonkeyPatch) -> list[Item]:
    """Every item that the script wrote."""
    monkeypatch.setattr("zae_limiter.flows.records.registry.SETTLE_SECONDS", 0)
    monkeypatch.setattr("zae_limiter.flows.records.migrating.ITEMS_PER_PAGE", 1)
    world, table = async_world, Recorder()
    world.table, world.spread = table, True
    table.execute(Put(version_item(record_of_this_release())))
    await _write_what_marked_limits_need(world)
    await _write_what_limits_need(world)
    await _write_what_switches_need(world)
    await _write_what_retried_calls_need(world)
    await _write_what_overrides_need(world)
    await _write_what_windows_need(world)
    await _write_what_the_provisioner_needs(world)
    _write_what_a_copy_needs(world)
    await _write_what_a_stack_needs(world)
    return table.written


async def _write_what_marked_limits_need(world: World) -> None:
    (wire := Wire(world.table)).lossy = True
    limiter, _ = await world.process(wire=wire)
    policy = OnRefused(overflow="credits")
    await limiter.set_system_defaults([MARKED], on_refused=policy)
    await limiter.set_resource_defaults("gpt-4", [MARKED], on_refused=policy)
    await limiter.set_limits("trial", [MARKED], "gpt-4", on_refused=policy)
    await limiter.repository.set_tier_limits("silver", [MARKED], "gpt-4", on_refused=policy)
    for away in (False, True, False):
        if away:
            wire.break_once(Unreachable("connection refused"), on=Update)
        async with limiter.acquire("trial", "gpt-4", {"rpm": 1}, on_unavailable="allow"):
            pass


async def _write_what_retried_calls_need(world: World) -> None:
    limiter, _ = await world.process()
    policy = OnRefused(overflow="gpt-3")
    await limiter.set_limits(
        "retrying", [Limit.custom("rpm", 5, refill_amount=1, refill_period=3600)], "gpt-4", on_refused=policy
    )
    await limiter.set_resource_defaults("gpt-3", [RPM])
    for key, resource in (("1", "gpt-4"), ("2", "gpt-4"), ("2", "gpt-4")):
        options: dict[str, Any] = {"draws": [Draw(resource="gpt-3")], "idempotency_key": key} if key == "1" else {}
        async with limiter.acquire("retrying", resource, {"rpm": 4}, **{"idempotency_key": key, **options}) as lease:
            await lease.settle(rpm=4)


async def _write_what_switches_need(world: World) -> None:
    limiter, _ = await world.process()
    for switches in ({"bypass": False, "cascade": "on"}, {"disabled": False}):
        more: Any = {**switches, "reason": "why"}
        await limiter.repository.set_switches("project", **more)
        await limiter.repository.set_resource_switches("gpt-3", **more)
        await limiter.repository.set_system_switches(**more)


async def _write_what_limits_need(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_system_defaults([RPM, TPM], "allow", principal="me")
    await limiter.set_resource_defaults("gpt-4", [RPM, TPM], principal="me")
    await limiter.set_resource_defaults("anthropic/*", [RPM], principal="me")
    await limiter.delete_resource_defaults("anthropic/*", principal="me")
    await limiter.repository.set_tier_limits("gold", [RPM, TPM], "gpt-4", principal="me")
    await limiter.set_limits("project", [RPM, TPM], "gpt-4", principal="me")
    await limiter.set_limits("project", [RPM], "gpt-4", principal="me")
    await limiter.create_entity("project", name="a project", principal="me")
    await limiter.create_entity("key", parent_id="project", cascade=True, tier="gold")
    await limiter.create_entity("team", parent_id="project", cascade=True)
    await limiter.create_entity("shared-key", parent_ids=["team", "project"], cascade=True)
    await limiter.create_entity("another-key", parent_ids=["team"], cascade=True)
    async with limiter.acquire("key", "gpt-4", {"rpm": 1, "tpm": 500}) as lease:
        await lease.adjust(tpm=-100)
    split(world, limiter, "key", "gpt-4")
    async with limiter.acquire("key", "gpt-4", {"rpm": 1}, limits=[Limit.per_minute("rpm", 70)]):
        pass  # by another shape
    await limiter.repository.reset_bucket("key", "gpt-4", principal="me")
    await limiter.repository.credit_bucket("key", "gpt-4", {"rpm": 1}, principal="me", idempotency_key="k")
    async with limiter.budget("run", {"rpm": 1}, within="key") as run:
        await run.end()
    with pytest.raises(RateLimitExceeded):
        await limiter.acquire("key", "gpt-4", {"rpm": 61}).__aenter__()
    await limiter.repository.close()  # counts the refusal
    ns = limiter.repository.namespace_id
    snapshot = SnapshotId(ns, "key", "gpt-4", "hourly", datetime(2026, 1, 1, tzinfo=UTC))
    use = Use(
        stream_mark("label", "1"),
        Consumption({"rpm": 1}, dict.fromkeys(TOTALS, 1), {"tpm": 500}, {Refuser("project", "rpm"): 1}),
    )
    played(
        world.table,
        count_usage(snapshot, 0, [use], expires_at=1_800_000_000, now_ms=1_767_225_600_000, spread=True),
    )
    kept = replace(snapshot, window="daily")
    played(world.table, count_usage(kept, 1, [Use(use.mark, Consumption({}, {"ev": 1}))], expires_at=None))
    for_ever, _ = await world.process(audit_retention_days=0)
    await for_ever.delete_system_defaults()
    await for_ever.set_system_defaults([], "block")


async def _write_what_overrides_need(world: World) -> None:
    limiter, _ = await world.process()
    until = datetime.fromtimestamp(world.clock.now_ms() // 1000, UTC) + timedelta(hours=1)
    await limiter.set_limits("project", [MARKED], "gpt-4", override_until=until)
    await limiter.set_limits("key", [RPM], "gpt-5", override_until=until)
    await limiter.repository.delete_override("key", "gpt-5")


async def _write_what_windows_need(world: World) -> None:
    limiter, _ = await world.process()
    until = datetime.fromtimestamp(world.clock.now_ms() // 1000, UTC) + timedelta(hours=1)
    monthly = Limit.per_month("rpm", 5, timezone="Europe/Berlin", starts_on=15)
    monthly = replace(monthly, alert=(80, 95), schedule=("weekend: sat-sun capacity 3",))  # type: ignore[arg-type]
    usd = [monthly, Limit.concurrent("tpm", 5)]
    await limiter.repository.set_system_defaults(usd)
    await limiter.repository.set_resource_defaults("gpt-4", usd)
    await limiter.repository.set_tier_limits("gold", usd, "gpt-5")
    await limiter.set_limits("monthly", usd, "gpt-4")
    await limiter.set_limits("monthly", usd, "gpt-5", override_until=until)
    async with limiter.acquire("monthly", "gpt-4", {"rpm": 1}):
        pass
    bucket = BucketId(limiter.repository.namespace_id, "monthly", "gpt-4")
    for end_ms in (None, 1_800_000_000_000):
        window = LimitWindow(end_ms or 0, end_ms, end_ms)
        played(world.table, remember_told(Crossing(bucket, monthly, window, 80, 4, 5, 1), spread=True))
    async with limiter.acquire("hourly", "gpt-4", {"rpm": 1}, [Limit.quota("rpm", 5, window=3600)]):
        pass
    with pytest.raises(RateLimitExceeded):  # below what was used
        async with limiter.acquire("hourly", "gpt-4", {"rpm": 1}, [Limit.quota("rpm", 0, window=3600)]):
            pass


async def _write_what_the_provisioner_needs(world: World) -> None:
    limiter, _ = await world.process()
    repository, printed = limiter.repository, "0" * 32
    for place in ((None, None), (None, "gpt-4"), ("project", "gpt-4"), ("$TIER:gold", "gpt-4")):
        await maintenance_of(repository).put_configs({place: StoredConfig((RPM, TPM), fingerprint=printed)})
    small = ProvisionerState(
        managed_system=True,
        managed_resources=["gpt-4"],
        managed_entities={"project": ["gpt-4"]},
        managed_records=["project"],
        intended_records=["key"],
        intended_system=True,
        intended_resources=["gpt-5"],
        intended_entities={"key": ["gpt-5"]},
        last_applied="2026-01-01T00:00:00Z",
        applied_hash="sha256:0",
        owner="cli",
        lock=ProvisionerLock("id", "cli", 1),
        handled=[HandledEvent("Create 1", ok=True)],
        share="60%",
    )
    await maintenance_of(repository).put_provisioner_state(small, expected_serial=0)
    await maintenance_of(repository).put_entity_records({"managed": StoredEntity(fingerprint=printed)})
    state = repository.namespace_state
    record = ApplyRecord(2, "2026-01-01T00:00:00Z", "cli", "sha256:0", "ann", "9f3c2e1", 1, 1, 1, 1, 1, ("x",))
    played(world.table, begin_apply(state, record, "content"))
    played(world.table, begin_apply(state, ApplyRecord(4, record.at, "cli", "sha256:0"), "content"))
    played(world.table, note_progress(state, ApplyProgress(1, 2, 0, 1), expected_serial=1))
    played(world.table, request_stop(state, "bob", expected_serial=1))
    many = {f"entity-{number}": ["gpt-4"] for number in range(400)}
    large = ProvisionerState(
        managed_entities=many,
        managed_records=["key"],
        intended_resources=["gpt-5"],
        intended_entities={"key": ["gpt-5"]},
        intended_records=["project"],
    )
    await maintenance_of(repository).put_provisioner_state(large, expected_serial=1)
    await maintenance_of(repository).put_provisioner_state(ProvisionerState(managed_entities=many), expected_serial=2)


async def _write_what_a_stack_needs(world: World) -> None:
    repository = (await world.process("other")).repository
    await maintenance_of(repository).set_version_record(VersionRecord(1, "0.1.0", "0.1.0"))
    migration = Migration(1, "nothing", "Reads every item.", "0.1.0", lambda _: None)
    played(world.table, migrate([migration], stack="my-app", report=lambda _: None))
    played(world.table, set_trace("other", 100))
    played(world.table, set_bounds("other", "{}"))
    await repository.delete_namespace("other")
    await maintenance_of(repository).recover_namespace(repository.namespace_id)
    await repository.delete_namespace("other")
    await maintenance_of(repository).purge_namespace(repository.namespace_id)


def _write_what_a_copy_needs(world: World) -> None:
    source = SyncMemoryStore()
    opened(source, world.clock, "moved")
    copy(table_over(source, world.clock), table_over(SyncMemoryStore(world.table), world.clock))


def by_record(page: Page, written: list[Item]) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = {}
    for item in written:
        found.setdefault(page.record_of(item), set()).update(map(plain, item))
    return found


async def test_each_record_is_written_with_just_the_attributes_that_the_page_lists(
    page: Page, written: list[Item]
) -> None:
    assert by_record(page, written) == {record: page.all_of(record) for record in page.records}


async def test_what_the_page_calls_always_there_is_in_every_item_and_the_rest_is_not(
    page: Page, written: list[Item]
) -> None:
    common: dict[str, set[str]] = {}
    for item in written:
        names = set(map(plain, item))
        record = page.record_of(item)
        common[record] = common.get(record, names) & names
    assert {record: common[record] & page.attributes[record] for record in page.records} == page.always


def test_the_keys_of_the_page_are_those_that_the_schema_builds(page: Page) -> None:
    assert page.records == BUILDERS


async def test_an_item_stands_in_an_index_where_the_page_says(page: Page, written: list[Item]) -> None:
    for item in written:
        for name, pattern in page.index_keys.get(page.record_of(item), {}).items():
            ends = item.get("override_until", 0 if keys.CONFIG_PREFIX.rstrip("#") in item["SK"] else None)
            key = str(item.get(name, "")).removesuffix(f"#{ends}")
            patterns = pattern, pattern.removesuffix("#{suffix}")  # without one: copied to an engine without hot keys
            assert name not in item or any(_fits(each, key) for each in patterns), (name, key, pattern)
    spread = [item for item in written if is_spread(item)]
    assert {page.record_of(item) for item in spread} == {"bucket", "usage snapshot", "alert mark"}
    assert {name[:4] for names in page.index_keys.values() for name in names} == {*INDEXES}
