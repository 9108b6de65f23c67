"""The options of a repository, with their defaults and their checks."""

import os
from collections.abc import Mapping
from typing import Any, Self, TypedDict, Unpack

from .clock.system import Clock
from .engines.connection import Connection
from .engines.dynamodb.options import Handed, Transport
from .engines.engine import Capabilities
from .exceptions import ValidationError
from .flows.process.namespace_state import Settings
from .flows.records.opening import FIRST_NAMESPACE
from .runtime.dataclass import dataclass, replace
from .values.limits import Policy, check_on_unavailable
from .values.naming import check_namespace
from .values.usage import KEPT_DAYS, Window
from .values.whole import check_flag, check_number, check_whole

# Out of step with whole seconds. A process that only sees refusals asks the store at this interval. Dates of answers
# have whole seconds: if all answers came at the same part of one, they would prove little about the clock.
STALENESS_MS = 870
SPLIT_ABOVE = 500

AUDIT_RETENTION = "ZAEL_AUDIT_RETENTION_DAYS"
AUDIT_RETENTION_DAYS = 90
DAYS_DIGITS = 5

DEFAULT_NAMESPACE = FIRST_NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Connection):
    """The options of a repository: those of its connection, and its policy. Times are in seconds.

    ``namespace``: if ``None``, ``ZAEL_NAMESPACE`` of the environment, else ``default``.
    ``bucket_ttl_multiplier``: the life of an idle bucket, in multiples of the time in which it fills; 0 keeps it for
    ever.
    ``rejection_staleness``: the age up to which the last seen state of a bucket is good enough to refuse by.
    ``split_above``: the writes a second to a shard of a bucket above which it is split. If ``None``, 500 where one item
    takes only so many writes a second, as in DynamoDB, else never.
    ``audit_retention_days``: the life of audit events; 0 keeps them for ever. If ``None``,
    ``ZAEL_AUDIT_RETENTION_DAYS`` of the environment, else 90.
    ``usage_hourly_days``, ``usage_daily_days``: the life of usage in a file, after its hour or its day; 0 keeps it for
    ever. If ``None``, ``ZAEL_USAGE_HOURLY_DAYS`` and ``ZAEL_USAGE_DAILY_DAYS`` of the environment, else 90 and 730.
    ``acquire_timeout``: the most that an acquire, a ``lease.consume`` or the end of a block takes; then the store
    counts as unavailable. ``None`` sets no bound. A single request takes at most ``connect_timeout`` and
    ``read_timeout`` together.
    ``clock``: the source of the time, which nothing corrects; by default the store's, which its answers correct.
    ``check_version``: whether to refuse a stack that does not fit this client; an upgrade does not check.
    """

    namespace: str | None = None
    config_cache_ttl: float = 60
    """Seconds for which limits are cached; 0 reads them with every acquire."""
    bucket_ttl_multiplier: int = 7
    on_unavailable: Policy = "block"
    """What an acquire does without the store: ``"block"``, ``"allow"``, or ``"share"``, by this process's share."""
    acquire_timeout: float | None = 5.0
    rejection_staleness: float = 1.0
    buckets_remembered: int = 10_000
    """The most buckets whose last seen state is kept."""
    split_above: int | None = None
    audit_retention_days: int | None = None
    usage_hourly_days: int | None = None
    usage_daily_days: int | None = None
    register: bool = True
    """Whether to register a missing namespace."""
    create_table: bool = False
    """Whether to create a missing table; for local stores."""
    check_version: bool = True
    clock: Clock | None = None

    def __post_init__(self) -> None:
        Connection.__post_init__(self)
        for field in ("config_cache_ttl", "rejection_staleness"):
            check_number(field, getattr(self, field), at_least=0)
        if self.acquire_timeout is not None:
            check_number("acquire_timeout", self.acquire_timeout, at_least=0.001)
        check_whole("bucket_ttl_multiplier", self.bucket_ttl_multiplier, at_least=0)
        check_whole("buckets_remembered", self.buckets_remembered, at_least=1)
        check_whole("split_above", 1 if self.split_above is None else self.split_above, at_least=1)
        for field in ("register", "create_table", "check_version"):
            check_flag(field, getattr(self, field))
        check_on_unavailable(self.on_unavailable)
        check_whole("audit_retention_days", self.audit_days, at_least=0)
        for window, days in self.usage_days.items():
            check_whole(f"usage_{window}_days", days, at_least=0)
        check_namespace("namespace", self.namespace_name)

    @property
    def namespace_name(self) -> str:
        """The name of the namespace."""
        if self.namespace is not None:
            return self.namespace
        return os.environ.get("ZAEL_NAMESPACE") or DEFAULT_NAMESPACE

    @property
    def audit_days(self) -> int:
        """The life of audit events in days; 0 keeps them for ever. Raises ``ValidationError`` for a bad
        ``ZAEL_AUDIT_RETENTION_DAYS``.
        """
        return _days(self.audit_retention_days, AUDIT_RETENTION, AUDIT_RETENTION_DAYS)

    @property
    def usage_days(self) -> Mapping[Window, int]:
        """The days for which a file keeps the usage of an hour and of a day; 0 keeps it for ever. Raises
        ``ValidationError`` for a bad ``ZAEL_USAGE_HOURLY_DAYS`` or ``ZAEL_USAGE_DAILY_DAYS``.
        """
        return {
            "hourly": _days(self.usage_hourly_days, "ZAEL_USAGE_HOURLY_DAYS", KEPT_DAYS["hourly"]),
            "daily": _days(self.usage_daily_days, "ZAEL_USAGE_DAILY_DAYS", KEPT_DAYS["daily"]),
        }

    def file_options(self) -> dict[str, Any]:
        """Return the options of a store in a file."""
        return Connection.file_options(self) | {"usage_days": self.usage_days}

    def over(self, engine: Capabilities) -> Self:
        """Return the options with the defaults that depend on the engine."""
        return replace(self, split_above=SPLIT_ABOVE) if engine.hot_items and self.split_above is None else self

    def settings(self) -> Settings:
        """Return the part of the options that flows need."""
        return Settings(
            staleness_ms=round(self.rejection_staleness * STALENESS_MS),
            config_ttl_ms=round(self.config_cache_ttl * 1000),
            ttl_multiplier=self.bucket_ttl_multiplier,
            on_unavailable=self.on_unavailable,
            acquire_timeout=self.acquire_timeout,
            buckets_remembered=self.buckets_remembered,
            split_above=self.split_above,
        )


def _days(given: int | None, variable: str, default: int) -> int:
    if given is not None:
        return given
    told = os.environ.get(variable)
    if not told:
        return default
    if not (told.isascii() and told.isdigit() and len(told) <= DAYS_DIGITS):
        raise ValidationError(variable, told, f"must be a whole number of days, 0 to {'9' * DAYS_DIGITS}")
    return int(told)


class PolicyOptions(TypedDict, total=False):
    """The fields of ``Options`` that ``open``, ``in_memory`` and ``sqlite`` take by keyword only."""

    bucket_ttl_multiplier: int
    on_unavailable: Policy
    acquire_timeout: float | None
    rejection_staleness: float
    buckets_remembered: int
    audit_retention_days: int | None
    usage_hourly_days: int | None
    usage_daily_days: int | None
    connect_timeout: float
    read_timeout: float
    check_version: bool
    count_units: bool


class SharedOptions(PolicyOptions, total=False):
    """The fields of ``Options`` that both ``open`` and ``in_memory`` take by keyword only."""

    profile: str | None
    credentials: Handed | None
    split_above: int | None
    max_connections: int
    transport: Transport | None
    create_table: bool


class OpenOptions(SharedOptions, total=False):
    """The fields of ``Options`` that ``Repository.open`` takes as ``**options``."""

    store: str | None
    clock: Clock | None


class InMemoryOptions(SharedOptions, total=False):
    """The fields of ``Options`` that ``Repository.in_memory`` takes as ``**options``."""

    stack: str | None
    region: str | None
    endpoint_url: str | None
    config_cache_ttl: float
    register: bool


class SQLiteOptions(PolicyOptions, total=False):
    """The fields of ``Options`` that ``Repository.sqlite`` takes as ``**options``."""

    stack: str | None
    config_cache_ttl: float
    register: bool


class AnyOptions(OpenOptions, InMemoryOptions, total=False):
    """All fields of ``Options``."""

    namespace: str | None


class BuilderBase:
    """Options set one by one; each variant adds ``build``."""

    def __init__(self) -> None:
        self._options = Options()

    def _with(self, **changes: Unpack[AnyOptions]) -> Self:
        self._options = replace(self._options, **changes)
        return self

    def stack(self, name: str) -> Self:
        """Set the name of the stack and of its table."""
        return self._with(stack=name)

    def store(self, url: str) -> Self:
        """Set the URL of a file to use in place of DynamoDB, like ``sqlite:///limits.db``."""
        return self._with(store=url)

    def region(self, name: str) -> Self:
        """Set the AWS region; by default the SDK finds one."""
        return self._with(region=name)

    def endpoint_url(self, url: str) -> Self:
        """Set the URL of DynamoDB, for local stores."""
        return self._with(endpoint_url=url)

    def namespace(self, name: str) -> Self:
        """Set the namespace to open; a missing one is registered."""
        return self._with(namespace=name)

    def config_cache_ttl(self, seconds: float) -> Self:
        """Set the life of cached limits in seconds; 0 reads them with every acquire."""
        return self._with(config_cache_ttl=seconds)

    def bucket_ttl_multiplier(self, times: int) -> Self:
        """Set the life of an idle bucket, in multiples of the time in which it fills; 0 keeps it for ever."""
        return self._with(bucket_ttl_multiplier=times)

    def on_unavailable(self, policy: Policy) -> Self:
        """Set the policy for an unavailable store, if neither the call nor the system config has one."""
        return self._with(on_unavailable=policy)

    def acquire_timeout(self, seconds: float | None) -> Self:
        """Set the most seconds that an acquire takes; ``None`` sets no bound."""
        return self._with(acquire_timeout=seconds)

    def split_above(self, writes_per_second: int) -> Self:
        """Set the writes a second to a shard of a bucket above which it is split."""
        return self._with(split_above=writes_per_second)

    def audit_retention_days(self, days: int) -> Self:
        """Set the life of audit events in days; 0 keeps them for ever."""
        return self._with(audit_retention_days=days)

    def usage_hourly_days(self, days: int) -> Self:
        """Set the days for which a file keeps the usage of an hour; 0 keeps it for ever."""
        return self._with(usage_hourly_days=days)

    def usage_daily_days(self, days: int) -> Self:
        """Set the days for which a file keeps the usage of a day; 0 keeps it for ever."""
        return self._with(usage_daily_days=days)

    def transport(self, name: Transport) -> Self:
        """Set the way to DynamoDB: ``http``, or ``sdk`` for aioboto3 and boto3."""
        return self._with(transport=name)

    def create_table(self) -> Self:
        """Create the table if it is missing; for local stores and tests."""
        return self._with(create_table=True)

    def clock(self, clock: Clock) -> Self:
        """Set the source of the time, for tests."""
        return self._with(clock=clock)
