"""The door of core for the programs that maintain a table: the aggregator, the provisioner, the command line.

They are versioned apart from core, so that they import no room of core but this module and the public
``values``. Everything named here keeps its meaning within a minor version of core; what is behind it may move.

- **A table**: ``open_upkeep`` gives the means to run flows on it, which raise ``StoreError``; ``is_invalid`` says
  whether no repeat can succeed. ``open_store`` gives the store of a program that opens many namespaces,
  ``open_registered`` a namespace that is new, ``open_table`` a repository for what belongs to no namespace.
- **A repository**: ``Maintenance``, or ``SyncMaintenance``, has the methods for it that applications do not need: the
  provisioner's state, stored configs and entities by the hundred, live buckets, deleted namespaces, the version.
- **Its stream**: ``bucket_of``, ``is_audit_event``, ``audit_event_of`` and ``namespace_of`` say which item a record is
  of; ``check_bucket`` and ``BucketImages`` refuse what core cannot have written; ``consumption``, ``writes``,
  ``anchor_of`` and ``shard_count_of`` read the images of a bucket.
- **Its upkeep**, each a ``Flow`` to run: ``count_usage``, ``reanchor``, ``split_shard``, ``merge_shards`` of a bucket
  that ``is_quiet``, ``look_up``, which returns what is ``Known`` of namespaces; ``stream_state`` says how far it has
  counted (``StreamState``).
- **Its alerts**: ``watch`` finds the limits with thresholds in changes of buckets (``BucketUse``), ``find_crossings``
  what was crossed (``Crossing``), and ``remember_told`` that it was reported (``Told``); the last two are flows.
- **Its usage**: ``usage_pages`` reads all snapshots of a namespace, each row of the index once, ``usage_spans`` its
  acquires by five minutes (``Span``); ``usage_state`` says how far that of some buckets is counted.
- **Its migrations**: ``MIGRATIONS``, ``pending``, ``forecast`` and ``migrate``; ``change_version_record`` and
  ``unrecorded_schema``. ``run`` runs such a flow on a table of ``open_table``, and raises public errors.
- **Its applies**, flows as well: ``begin_apply``, ``end_apply``, ``list_applies`` and ``read_apply`` keep their
  history; ``note_progress``, ``peek_state`` and ``request_stop`` are of the one under way.
- **A delegation's bounds**, flows as well: ``bounds_of`` and ``set_bounds`` keep their text.
- **A trace**: ``set_trace`` says which share of a namespace's entities it keeps, ``trace_of`` reads that, ``is_traced``
  says whose; ``traced_write`` is what a write did, ``trace_line`` and ``read_trace`` its form.
- **A replay**: ``BucketReplay`` decides the writes of a trace by the limits of ``BucketLimits``, which may be
  ``DISABLED``; ``judged`` bounds what a limit would have refused in each ``Hour``, ``summed`` adds the ``Bounds``,
  ``looks_back_ms`` says from when on use matters.
- **Its audit events**: ``is_plain_limit`` finds a limit in one, ``plain_limit`` reads it, ``plain_text`` is its text.
- **Its lists**: ``Skipped`` collects the records that they skip because they cannot be read.
- **Rates**: ``given_in`` says what a limit gives in a time, in millitokens, ``period_seconds`` how long its period is,
  ``lasts_seconds`` how long tokens last at a rate of use, ``window_at`` which window holds an instant; ``in_bucket``
  is a limit as its buckets have it.
- **Copies**: ``forecast_copy`` and ``copy``, from a table of ``open_table`` to another.
- **A file**: ``check_place`` refuses one that SQLite may not open, or whose lock or log its programs cannot share,
  ``check_tables`` one whose tables are not this project's, after ``restrict`` bounds its statements; ``risks_of`` is
  what others may do to it.
- **Its caller**: ``caller_arn`` asks STS who that is.
- **Its errors**: ``without_passwords`` hides those of proxies in a text.
- **Its shape**: keys, indexes and the request that creates it, for templates and policies.

It is imported by Lambdas, cold: no AWS library is imported before the first request.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..aio.maintenance import Maintenance as Maintenance
    from ..clock.system import SystemClock as SystemClock
    from ..engines.dynamodb.aws.proxy_password import without_passwords as without_passwords
    from ..engines.dynamodb.images import BucketImages as BucketImages
    from ..engines.dynamodb.images import check_bucket as check_bucket
    from ..engines.dynamodb.marshal import read_item as read_item
    from ..engines.dynamodb.marshal import read_row as read_row
    from ..engines.engine import Capabilities as Capabilities
    from ..engines.sqlite.connection import check_tables as check_tables
    from ..engines.sqlite.connection import restrict as restrict
    from ..engines.sqlite.owners import risks_of as risks_of
    from ..engines.sqlite.place import check_place as check_place
    from ..flows.bucket.anchors import reanchor as reanchor
    from ..flows.bucket.merging import is_quiet as is_quiet
    from ..flows.records.alerting import BucketUse as BucketUse
    from ..flows.records.alerting import Crossing as Crossing
    from ..flows.records.alerting import find_crossings as find_crossings
    from ..flows.records.alerting import remember_told as remember_told
    from ..flows.records.alerting import watch as watch
    from ..flows.records.bounds import bounds_of as bounds_of
    from ..flows.records.bounds import set_bounds as set_bounds
    from ..flows.records.copying import CopyForecast as CopyForecast
    from ..flows.records.counted import StreamState as StreamState
    from ..flows.records.counted import stream_state as stream_state
    from ..flows.records.migrating import MIGRATIONS as MIGRATIONS
    from ..flows.records.migrating import Change as Change
    from ..flows.records.migrating import Forecast as Forecast
    from ..flows.records.migrating import Migration as Migration
    from ..flows.records.migrating import forecast as forecast
    from ..flows.records.migrating import migrate as migrate
    from ..flows.records.migrating import pending as pending
    from ..flows.records.migrating import unrecorded_schema as unrecorded_schema
    from ..flows.records.provisioner_state import APPLIES_KEPT as APPLIES_KEPT
    from ..flows.records.provisioner_state import begin_apply as begin_apply
    from ..flows.records.provisioner_state import end_apply as end_apply
    from ..flows.records.provisioner_state import list_applies as list_applies
    from ..flows.records.provisioner_state import note_progress as note_progress
    from ..flows.records.provisioner_state import peek_state as peek_state
    from ..flows.records.provisioner_state import read_apply as read_apply
    from ..flows.records.provisioner_state import request_stop as request_stop
    from ..flows.records.registry import Known as Known
    from ..flows.records.registry import change_version_record as change_version_record
    from ..flows.records.registry import look_up as look_up
    from ..flows.records.registry import set_trace as set_trace
    from ..flows.records.registry import trace_of as trace_of
    from ..flows.records.usage import Span as Span
    from ..flows.records.usage import Use as Use
    from ..flows.records.usage import count_usage as count_usage
    from ..flows.skipped import Skipped as Skipped
    from ..flows.steps import Flow as Flow
    from ..observers.emf import embedded_metrics as embedded_metrics
    from ..operations.errors import StoreError as StoreError
    from ..operations.errors import is_invalid as is_invalid
    from ..operations.values import Key as Key
    from ..replay.hourly import Bounds as Bounds
    from ..replay.hourly import Hour as Hour
    from ..replay.hourly import judged as judged
    from ..replay.hourly import looks_back_ms as looks_back_ms
    from ..replay.hourly import summed as summed
    from ..replay.writes import DISABLED as DISABLED
    from ..replay.writes import BucketLimits as BucketLimits
    from ..replay.writes import BucketReplay as BucketReplay
    from ..replay.writes import Judged as Judged
    from ..rules.registry import lasts_seconds as lasts_seconds
    from ..rules.windows import given_in as given_in
    from ..rules.windows import period_seconds as period_seconds
    from ..rules.windows import window_at as window_at
    from ..runtime.json_logs import log_as_json as log_as_json
    from ..schema.alerts import Told as Told
    from ..schema.attributes import ACQUIRES as ACQUIRES
    from ..schema.attributes import REFUSED as REFUSED
    from ..schema.attributes import TTL as TTL
    from ..schema.attributes import UNCOUNTED as UNCOUNTED
    from ..schema.changes import Consumption as Consumption
    from ..schema.changes import anchor_of as anchor_of
    from ..schema.changes import audit_event_of as audit_event_of
    from ..schema.changes import bucket_of as bucket_of
    from ..schema.changes import consumption as consumption
    from ..schema.changes import is_audit_event as is_audit_event
    from ..schema.changes import namespace_of as namespace_of
    from ..schema.changes import shard_count_of as shard_count_of
    from ..schema.changes import writes as writes
    from ..schema.items import BucketId as BucketId
    from ..schema.keys import AUDIT_PREFIX as AUDIT_PREFIX
    from ..schema.keys import REGISTRY as REGISTRY
    from ..schema.keys import AuditAddress as AuditAddress
    from ..schema.keys import audit_resource as audit_resource
    from ..schema.keys import audit_system as audit_system
    from ..schema.keys import audit_tier as audit_tier
    from ..schema.keys import pk_audit as pk_audit
    from ..schema.keys import pk_bucket as pk_bucket
    from ..schema.keys import pk_call as pk_call
    from ..schema.keys import pk_entity as pk_entity
    from ..schema.keys import pk_system as pk_system
    from ..schema.keys import sk_state as sk_state
    from ..schema.keys import tier_of_subject as tier_of_subject
    from ..schema.limit_fields import is_plain_limit as is_plain_limit
    from ..schema.limit_fields import plain_limit as plain_limit
    from ..schema.limit_fields import plain_text as plain_text
    from ..schema.table import INDEXES as INDEXES
    from ..schema.table import create_table_request as create_table_request
    from ..schema.trace import TRACE_PREFIX as TRACE_PREFIX
    from ..schema.trace import TracedWrite as TracedWrite
    from ..schema.trace import TracePage as TracePage
    from ..schema.trace import is_traced as is_traced
    from ..schema.trace import read_trace as read_trace
    from ..schema.trace import trace_line as trace_line
    from ..schema.trace import traced_write as traced_write
    from ..schema.usage import SPAN_MINUTES as SPAN_MINUTES
    from ..schema.usage import SnapshotId as SnapshotId
    from ..schema.usage import stream_mark as stream_mark
    from ..sync.maintenance import SyncMaintenance as SyncMaintenance
    from ..values.buckets import InvalidatedBuckets as InvalidatedBuckets
    from ..values.buckets import LiveBuckets as LiveBuckets
    from ..values.provisioner import ApplyProgress as ApplyProgress
    from ..values.provisioner import ApplyRecord as ApplyRecord
    from ..values.provisioner import ConfigPlace as ConfigPlace
    from ..values.provisioner import HandledEvent as HandledEvent
    from ..values.provisioner import ProvisionerLock as ProvisionerLock
    from ..values.provisioner import ProvisionerState as ProvisionerState
    from ..values.provisioner import StoredConfig as StoredConfig
    from ..values.provisioner import StoredEntity as StoredEntity
    from ..values.versions import VersionRecord as VersionRecord
    from .tables import METRICS_NAMESPACE as METRICS_NAMESPACE
    from .tables import RunFlow as RunFlow
    from .tables import Upkeep as Upkeep
    from .tables import caller_arn as caller_arn
    from .tables import copy as copy
    from .tables import forecast_copy as forecast_copy
    from .tables import in_bucket as in_bucket
    from .tables import merge_shards as merge_shards
    from .tables import open_registered as open_registered
    from .tables import open_store as open_store
    from .tables import open_table as open_table
    from .tables import open_upkeep as open_upkeep
    from .tables import over_table as over_table
    from .tables import run as run
    from .tables import split_shard as split_shard
    from .tables import usage_pages as usage_pages
    from .tables import usage_spans as usage_spans
    from .tables import usage_state as usage_state

_NAMES = {
    "aio.maintenance": "Maintenance",
    "clock.system": "SystemClock",
    "engines.dynamodb.aws.proxy_password": "without_passwords",
    "engines.dynamodb.images": "BucketImages check_bucket",
    "engines.dynamodb.marshal": "read_item read_row",
    "engines.engine": "Capabilities",
    "engines.sqlite.connection": "check_tables restrict",
    "engines.sqlite.owners": "risks_of",
    "engines.sqlite.place": "check_place",
    "flows.bucket.anchors": "reanchor",
    "flows.bucket.merging": "is_quiet",
    "flows.records.alerting": "BucketUse Crossing find_crossings remember_told watch",
    "flows.records.bounds": "bounds_of set_bounds",
    "flows.records.copying": "CopyForecast",
    "flows.records.counted": "StreamState stream_state",
    "flows.records.migrating": "Change Forecast MIGRATIONS Migration forecast migrate pending unrecorded_schema",
    "flows.records.provisioner_state": (
        "APPLIES_KEPT begin_apply end_apply list_applies note_progress peek_state read_apply request_stop"
    ),
    "flows.records.registry": "Known change_version_record look_up set_trace trace_of",
    "flows.records.usage": "Span Use count_usage",
    "flows.skipped": "Skipped",
    "flows.steps": "Flow",
    "maintenance.tables": (
        "METRICS_NAMESPACE RunFlow Upkeep caller_arn copy forecast_copy in_bucket merge_shards open_registered "
        "open_store open_table open_upkeep over_table run split_shard usage_pages usage_spans usage_state"
    ),
    "observers.emf": "embedded_metrics",
    "operations.errors": "StoreError is_invalid",
    "operations.values": "Key",
    "replay.hourly": "Bounds Hour judged looks_back_ms summed",
    "replay.writes": "BucketLimits BucketReplay DISABLED Judged",
    "rules.registry": "lasts_seconds",
    "rules.windows": "given_in period_seconds window_at",
    "runtime.json_logs": "log_as_json",
    "schema.alerts": "Told",
    "schema.attributes": "ACQUIRES REFUSED TTL UNCOUNTED",
    "schema.changes": (
        "Consumption anchor_of audit_event_of bucket_of consumption is_audit_event namespace_of shard_count_of writes"
    ),
    "schema.items": "BucketId",
    "schema.keys": (
        "AUDIT_PREFIX AuditAddress REGISTRY audit_resource audit_system audit_tier pk_audit pk_bucket pk_call "
        "pk_entity pk_system sk_state tier_of_subject"
    ),
    "schema.limit_fields": "is_plain_limit plain_limit plain_text",
    "schema.table": "INDEXES create_table_request",
    "schema.trace": "TRACE_PREFIX TracePage TracedWrite is_traced read_trace trace_line traced_write",
    "schema.usage": "SPAN_MINUTES SnapshotId stream_mark",
    "sync.maintenance": "SyncMaintenance",
    "values.buckets": "InvalidatedBuckets LiveBuckets",
    "values.provisioner": (
        "ApplyProgress ApplyRecord ConfigPlace HandledEvent ProvisionerLock ProvisionerState StoredConfig StoredEntity"
    ),
    "values.versions": "VersionRecord",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the names are those of _HOMES, and of the imports above

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"..{_HOMES[name]}", __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
