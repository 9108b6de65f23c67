"""The door of core for the programs that maintain a table: the aggregator, the provisioner, the command line.

They are versioned apart from core, so that they import no room of core but this module and the public
``values``. Everything named here keeps its meaning within a minor version of core; what is behind it may move.

- **A table**: ``open_upkeep`` gives the means to run flows on it, which raise ``StoreError``; ``is_invalid`` says
  whether no repeat can succeed. ``open_store`` gives the store of a program that opens many namespaces,
  ``open_registered`` a namespace that is new, ``open_table`` a repository for what belongs to no namespace.
- **Its stream**: ``bucket_of``, ``is_audit_event``, ``audit_event_of`` and ``namespace_of`` say which item a record is
  of; ``check_bucket`` and ``BucketImages`` refuse what core cannot have written; ``consumption``, ``writes``,
  ``anchor_of`` and ``shard_count_of`` read the images of a bucket.
- **Its upkeep**, each a ``Flow`` to run: ``count_usage``, ``reanchor``, ``split_shard``, ``merge_shards`` of a bucket
  that ``is_quiet``, ``look_up``, which returns what is ``Known`` of namespaces; ``stream_state`` says how far it has
  counted (``StreamState``).
- **Its alerts**: ``watch`` finds the limits with thresholds in changes of buckets (``BucketUse``), ``find_crossings``
  what was crossed (``Crossing``), and ``remember_told`` that it was told of (``Told``); the last two are flows.
- **Its usage**: ``usage_pages`` reads all snapshots of a namespace, each row of the index once.
- **Its migrations**: ``MIGRATIONS``, ``pending``, ``forecast`` and ``migrate``; ``change_version_record`` and
  ``unrecorded_schema``. ``run`` runs such a flow on a table of ``open_table``, and raises public errors.
- **Its applies**, flows as well: ``begin_apply``, ``end_apply``, ``list_applies`` and ``read_apply`` keep their
  history; ``note_progress``, ``peek_state`` and ``request_stop`` are of the one under way.
- **A trace**: ``set_trace`` says which share of a namespace's entities it keeps, ``trace_of`` reads that, ``is_traced``
  says whose; ``traced_write`` is what a write did, ``trace_line`` and ``read_trace`` its form.
- **A replay**: ``BucketReplay`` decides the writes of a trace by the limits of ``BucketLimits``, which may be
  ``DISABLED``; ``judged`` bounds what a limit would have refused in each ``Hour``, ``summed`` adds the ``Bounds``,
  ``looks_back_ms`` says from when on use matters.
- **Its audit events**: ``is_plain_limit`` finds a limit in one, ``plain_text`` is its text.
- **Its lists**: ``Skipped`` collects the records that they skip because they cannot be read.
- **Rates**: ``given_in`` says what a limit gives in a time, in millitokens, ``period_seconds`` how long its period is,
  ``lasts_seconds`` how long tokens last at a rate of use.
- **Copies**: ``forecast_copy`` and ``copy``, from a table of ``open_table`` to another.
- **A file**: ``check_place`` refuses one that SQLite may not open, or whose lock or log its programs cannot share,
  ``check_tables`` one whose tables are not this project's, after ``restrict`` bounds its statements; ``risks_of`` is
  what others may do to it.
- **Its caller**: ``caller_arn`` asks STS who that is.
- **Its errors**: ``without_passwords`` hides those of proxies in a text.
- **Its shape**: keys, indexes and the request that creates it, for templates and policies.

It is imported by Lambdas, cold: no AWS library is imported before the first request.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

from .clock.system import Clock, SystemClock
from .engines.dynamodb.aws.identity import CallerIdentity
from .engines.dynamodb.aws.proxy_password import without_passwords
from .engines.dynamodb.images import BucketImages, check_bucket
from .engines.dynamodb.marshal import read_item, read_row
from .engines.dynamodb.options import ClientOptions
from .engines.dynamodb.sync.store import SyncDynamoDBStore
from .engines.engine import Capabilities, SyncStore
from .engines.sqlite.connection import check_tables, restrict
from .engines.sqlite.owners import risks_of
from .engines.sqlite.place import check_place
from .exceptions import RateLimiterUnavailable
from .flows.bucket.anchors import reanchor
from .flows.bucket.merging import is_quiet, merge_bucket
from .flows.bucket.splitting import split_shard as _split_shard
from .flows.process.late_opening import in_namespace
from .flows.process.namespace_state import NamespaceState, Settings
from .flows.public_errors import with_public_errors
from .flows.records import copying, registry
from .flows.records.alerting import BucketUse, Crossing, find_crossings, remember_told, watch
from .flows.records.copying import CopyForecast
from .flows.records.migrating import (
    MIGRATIONS,
    Change,
    Forecast,
    Migration,
    forecast,
    migrate,
    pending,
    unrecorded_schema,
)
from .flows.records.provisioner_state import (
    APPLIES_KEPT,
    begin_apply,
    end_apply,
    list_applies,
    note_progress,
    peek_state,
    read_apply,
    request_stop,
)
from .flows.records.registry import Known, change_version_record, look_up, set_trace, trace_of
from .flows.records.usage import (
    StreamState,
    Use,
    count_usage,
    next_page,
    open_pages,
    stream_state,
    validate_usage,
)
from .flows.skipped import Skipped
from .flows.steps import Flow
from .observers.emf import NAMESPACE as METRICS_NAMESPACE
from .observers.emf import embedded_metrics
from .operations.errors import StoreError, is_invalid
from .operations.values import Key, Scan
from .replay.hourly import Bounds, Hour, judged, looks_back_ms, summed
from .replay.writes import DISABLED, BucketLimits, BucketReplay, Judged
from .rules.registry import lasts_seconds
from .rules.windows import given_in, period_seconds
from .runtime.json_logs import log_as_json
from .runtime.named_tuple import NamedTuple
from .schema.alerts import Told
from .schema.attributes import ACQUIRES, REFUSED, TTL, UNCOUNTED
from .schema.changes import (
    Consumption,
    anchor_of,
    audit_event_of,
    bucket_of,
    consumption,
    is_audit_event,
    namespace_of,
    shard_count_of,
    writes,
)
from .schema.items import BucketId
from .schema.keys import (
    AUDIT_PREFIX,
    REGISTRY,
    AuditAddress,
    audit_resource,
    audit_system,
    audit_tier,
    pk_audit,
    pk_bucket,
    pk_entity,
    pk_system,
    sk_state,
    tier_of_subject,
)
from .schema.limit_fields import is_plain_limit, plain_text
from .schema.table import INDEXES, create_table_request
from .schema.trace import TRACE_PREFIX, TracedWrite, TracePage, is_traced, read_trace, trace_line, traced_write
from .schema.usage import SnapshotId, stream_mark
from .settings import Options
from .sync.driver import SyncDriver
from .sync.store import store_of
from .values.buckets import LiveBuckets, ToldBuckets
from .values.namespaces import Namespace
from .values.provisioner import (
    ApplyProgress,
    ApplyRecord,
    ConfigPlace,
    HandledEvent,
    ProvisionerLock,
    ProvisionerState,
    StoredConfig,
    StoredEntity,
)
from .values.usage import UsageSnapshot
from .values.versions import VersionRecord
from .wiring import clock_over, namespace_state_of, new_namespace

if TYPE_CHECKING:
    from .sync.repository import SyncRepository

T = TypeVar("T")

__all__ = [
    "ACQUIRES", "APPLIES_KEPT", "AUDIT_PREFIX", "DISABLED", "INDEXES", "METRICS_NAMESPACE", "MIGRATIONS", "REFUSED",
    "REGISTRY", "TRACE_PREFIX", "TTL", "UNCOUNTED", "ApplyProgress", "ApplyRecord", "AuditAddress", "Bounds",
    "BucketId", "BucketImages", "BucketLimits", "BucketReplay", "BucketUse", "Capabilities", "Change",
    "ConfigPlace", "Consumption", "CopyForecast", "Crossing", "Flow", "Forecast", "HandledEvent", "Hour", "Judged",
    "Key", "Known", "LiveBuckets", "Migration", "ProvisionerLock", "ProvisionerState", "RunFlow", "Skipped",
    "SnapshotId", "StoreError", "StoredConfig", "StoredEntity", "StreamState", "SystemClock", "Told", "ToldBuckets",
    "TracePage", "TracedWrite", "Upkeep", "Use", "VersionRecord", "anchor_of", "audit_event_of", "audit_resource",
    "audit_system", "audit_tier", "begin_apply", "bucket_of", "caller_arn", "change_version_record", "check_bucket",
    "check_place", "check_tables", "consumption", "copy", "count_usage", "create_table_request", "embedded_metrics",
    "end_apply", "find_crossings", "forecast", "forecast_copy", "given_in", "is_audit_event", "is_invalid",
    "is_plain_limit", "is_quiet", "is_traced", "judged", "lasts_seconds", "list_applies", "log_as_json", "look_up",
    "looks_back_ms", "merge_shards", "migrate", "namespace_of", "note_progress", "open_registered", "open_store",
    "open_table", "open_upkeep", "peek_state", "pending", "period_seconds", "pk_audit", "pk_bucket", "pk_entity",
    "pk_system", "plain_text", "read_apply", "read_item", "read_row", "read_trace", "reanchor", "remember_told",
    "request_stop", "restrict", "risks_of", "run", "set_trace", "shard_count_of", "sk_state", "split_shard",
    "stream_mark", "stream_state", "summed", "tier_of_subject", "trace_line", "trace_of", "traced_write",
    "unrecorded_schema", "usage_pages", "watch", "without_passwords", "writes",
]  # fmt: skip


class RunFlow(Protocol):
    """Run a flow and return its result. Raises ``StoreError``, and what the flow raises."""

    def __call__(self, flow: Flow[T]) -> T: ...


class Upkeep(NamedTuple):
    """The means to keep up one table: threads may share ``run``; the table's answers correct ``clock``."""

    run: RunFlow
    clock: Clock


def open_store(stack: str, *, connect_timeout: float, read_timeout: float) -> SyncStore:
    """Return a store over the table of a stack; region, endpoint and credentials are found as the SDK finds them.

    Nothing is sent yet. ``SyncRepository.over`` opens a namespace over it, and closes it with the repository.
    """
    return SyncDynamoDBStore(stack, connect_timeout=connect_timeout, read_timeout=read_timeout)


def caller_arn(*, region: str | None = None, profile: str | None = None) -> str | None:
    """Return the ARN of the caller of AWS; ``None`` if STS does not answer in time, or the endpoint is not AWS's."""
    return CallerIdentity(ClientOptions(region=region, profile=profile)).arn()


def open_upkeep(stack: str) -> Upkeep:
    """Return the means to run flows on the table of a stack, with one store and its clock; nothing is sent yet."""
    store = SyncDynamoDBStore(stack)
    return Upkeep(SyncDriver(store).run, store.clock)


def split_shard(bucket: BucketId, *, stack: str, now: Callable[[], int], among: int | None = None) -> Flow[int]:
    """Split a shard once, shard 0 of the bucket before any other; the flow returns the number of shards split.

    ``now`` is in epoch milliseconds. Nothing happens if the shard is missing, is one of 64, or is no longer one of
    ``among``, if that is given. Raises ``StoreError``.
    """
    namespace_state = NamespaceState("", bucket.namespace_id, stack=stack, now=now, settings=Settings())
    return _split_shard(namespace_state, bucket, among=among)


def merge_shards(bucket: BucketId, *, stack: str, now: Callable[[], int]) -> Flow[int]:
    """Merge all shards of a bucket into one; the flow returns how many have gone.

    ``now`` is in epoch milliseconds. Raises ``StoreError``, also if the bucket is written too often for it.
    """
    namespace_state = NamespaceState("", bucket.namespace_id, stack=stack, now=now, settings=Settings())
    return merge_bucket(namespace_state, bucket.other(0))


def open_registered(store: SyncStore, options: Options) -> "SyncRepository":
    """Return a repository over the namespace of ``options``, and register it if there is none, or only a deleted one.

    Unlike ``SyncRepository.over`` it logs nothing, because a new namespace is expected. Versions are not checked.
    """
    from .sync.repository import SyncRepository

    options, clock = options.over(store.capabilities), clock_over(store, options)
    driver = SyncDriver(store, operation_timeout=options.operation_timeout, clock=clock)
    registered = driver.run(
        with_public_errors(options.stack_name, registry.register(new_namespace(options.namespace_name, clock)))
    )
    reads_spread = not store.capabilities.plain_indexes
    state = namespace_state_of(options, registered.name, registered.namespace_id, clock, reads_spread=reads_spread)
    return SyncRepository(store, state, options, clock, driver=driver)


def open_table(options: Options) -> "SyncRepository":
    """Return a repository over the table of ``options`` for what belongs to no namespace: versions, the registry.

    It opens no namespace: the one that ``options`` name may be deleted, and stays so.
    """
    from .sync.repository import SyncRepository

    store = store_of(options)
    clock = clock_over(store, options)
    reads_spread = not store.capabilities.plain_indexes
    state = namespace_state_of(options, options.namespace_name, "", clock, reads_spread=reads_spread)
    return SyncRepository(store, state, options, clock)


def run(table: "SyncRepository", flow: Flow[T]) -> T:
    """Run a flow and return its result. Raises ``InfrastructureError`` and what the flow raises."""
    return table.driver.run(with_public_errors(table.namespace_state.stack, flow))


def usage_pages(
    repository: "SyncRepository", resource: str | None, start: datetime, end: datetime
) -> Iterator[Sequence[UsageSnapshot]]:
    """Yield the hourly snapshots of a namespace, or of a resource, a page at a time: what
    ``get_usage_snapshots`` returns page by page, without a second read of rows that a page has left over.

    Raises ``ValidationError``, and with each page what a list of the repository raises.
    """
    state, asked = repository.namespace_state, validate_usage(None, resource, "hourly", start, end)
    pages = repository.driver.run(in_namespace(state, open_pages(state, asked)))
    while not pages.ended:
        yield repository.driver.run(in_namespace(state, next_page(pages)))


def forecast_copy(source: "SyncRepository", target: "SyncRepository", names: Collection[str]) -> list[CopyForecast]:
    """Return what a copy of these namespaces would write, or of all in use if there are no ``names``; write nothing.

    Raises ``NamespaceNotFoundError``, ``NamespaceStateError`` for a namespace that the target has and that is not
    empty, ``VersionError``, ``InfrastructureError``.
    """
    for table in (target, source):
        run(table, copying.check_schema(table.namespace_state.stack))
    forecasts = run(source, copying.survey(names))
    for each in forecasts:
        each.is_copied = run(target, copying.is_copied(each.namespace))
    return forecasts


def copy(
    source: "SyncRepository",
    target: "SyncRepository",
    forecasts: Sequence[CopyForecast],
    *,
    report: Callable[[int], None],
) -> list[Namespace]:
    """Copy the namespaces that are not copied yet, and return them as they are in the target.

    They cannot be opened before the copy is complete. ``report`` gets the number of items written so far. A repeated
    call after an interruption purges what is there and begins anew; so does this one, some times, after a lost answer.
    Raises the errors of ``forecast_copy``.
    """
    wanted = [each.namespace for each in forecasts if not each.is_copied]
    for number in range(2, copying.BEGINNINGS + 1):
        try:
            return _copy(source, target, wanted, report)
        except RateLimiterUnavailable as error:
            if not isinstance(error.__cause__, copying.InDoubt):
                raise
            run(target, copying.log_beginning(number, error.__cause__))
    return _copy(source, target, wanted, report)


def _copy(
    source: "SyncRepository", target: "SyncRepository", wanted: Sequence[Namespace], report: Callable[[int], None]
) -> list[Namespace]:
    """Copy the namespaces under new ids, once."""
    new = [new_namespace(each.name, target._clock) for each in wanted]
    for old, each in zip(wanted, new, strict=True):
        run(target, copying.begin(old, each))
    ids = {old.namespace_id: each.namespace_id for old, each in zip(wanted, new, strict=True)}
    spread = target.namespace_state.settings.reads_spread and run(target, copying.has_suffixes())
    scan, count = (Scan(copying.ITEMS_PER_PAGE) if ids else None), 0
    while scan is not None:
        items, scan = run(source, copying.page(scan))
        count += run(target, copying.write(items, ids, spread=spread))
        report(count)
    for each in new:
        run(target, copying.finish(each))
    return new
