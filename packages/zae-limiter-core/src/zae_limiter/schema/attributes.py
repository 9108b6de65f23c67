"""Names of the table's attributes that code names: those of every record, and those of one limit.

``record`` has attributes that only a table of fields names, by their fields.

The stored names of a bucket are short, because each write pays for their bytes; their Python names say what they hold.
Only this package spells an attribute name, which a test checks.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal

from ..runtime.named_tuple import NamedTuple
from ..values.usage import Refuser

# Keys of the table and of its indexes.
PK: Final = "PK"
SK: Final = "SK"
GSI1PK: Final = "GSI1PK"
GSI1SK: Final = "GSI1SK"
GSI2PK: Final = "GSI2PK"
GSI2SK: Final = "GSI2SK"
GSI3PK: Final = "GSI3PK"
GSI3SK: Final = "GSI3SK"
GSI4PK: Final = "GSI4PK"
GSI4SK: Final = "GSI4SK"

# Of several kinds of record.
ENTITY_ID: Final = "entity_id"
RESOURCE: Final = "resource"
TTL: Final = "ttl"  # epoch seconds: some time later DynamoDB removes the item
NAME: Final = "name"

# Of a bucket shard.
ANCHOR: Final = "rf"  # epoch ms: the instant that the balances are expressed for
CONFIG_AS_OF: Final = "cv"  # epoch ms: limits that were known before it are to be read again
ACQUIRES: Final = "ev"  # the number of admitted acquires
REFUSED: Final = "rj"  # the number of refused acquires
SHADOWED: Final = "sj"  # the number of admitted acquires that a shadow limit would have refused
BELOW: Final = "eb"  # the number of admitted acquires that entities below asked for, which cascaded
REFUSED_BELOW: Final = "rb"  # the number of refused ones of these
REFUSED_ASK: Final = "rq"  # what the refused acquire asked for that was counted last: "rpm:1 tpm:8000", in tokens
UNCOUNTED: Final = "uc"  # the number of acquires that an outage let through, of which nothing else is counted
WRITE_TOKENS: Final = tuple(f"w{cell}" for cell in range(8))  # the last write of up to eight processes
RUN_UNTIL: Final = "ru"  # of the bucket of a run: epoch ms at which its budget expires
RUN_ENDED: Final = "re"  # of the bucket of a run: epoch ms at which its budget was ended before
SHARD_COUNT: Final = "shard_count"
WRITES_THEN: Final = "wa"  # of shard 0 of several: the writes that it had counted when its anchor was set
CASCADE: Final = "cascade"  # also of an entity
PARENT_ID: Final = "parent_id"  # also of an entity, the first one, and of a parent link

COUNTERS: Final = (
    ACQUIRES,
    REFUSED,
    SHADOWED,
    UNCOUNTED,
    BELOW,
    REFUSED_BELOW,
)  # counts of acquires; a new bucket has the first, 0

_LATE: Final = (REFUSED, REFUSED_BELOW, UNCOUNTED)
_LONGEST_ASK: Final = 200  # characters

# Of an entity.
METADATA: Final = "metadata"
TIER: Final = "tier"  # of an entity: the tier whose limits it has where it has none of its own
VERSION: Final = "version"
CHILDREN: Final = "child_count"  # the number of entities whose parent it is
PARENT_IDS: Final = "parent_ids"  # all parents, of an entity that has several
ANCESTOR_IDS: Final = "ancestor_ids"  # who was above the parents when the entity got them

# Of a config.
CONFIG_VERSION: Final = "config_version"
ON_UNAVAILABLE: Final = "on_unavailable"
ON_REFUSED: Final = "on_refused"
FINGERPRINT: Final = "fingerprint"  # of the provisioner's last write of the config
OVERRIDE_UNTIL: Final = "override_until"  # epoch ms: the end of the override beside the limits of an entity config
OVERRIDE_EXTENDS: Final = "override_extends"  # the override adds to what the level has
PATTERNS: Final = "patterns"  # of the system config: the configs of the patterns of resources, by pattern
MODE: Final = "level_mode"  # of a level: "extends" or "unlimited"
DISABLED: Final = "disabled"
BYPASS: Final = "bypass"
CASCADING: Final = "cascading"  # "on" or "off"
REASON: Final = "reason"  # of the switches
SWITCHES: Final[Mapping[str, str]] = {"disabled": DISABLED, "bypass": BYPASS, "cascade": CASCADING, "reason": REASON}
"""The attributes of the switches, by field of ``Switches``."""

# Of a usage snapshot.
WINDOW: Final = "window"
WINDOW_START: Final = "window_start"
TOTAL_EVENTS: Final = "total_events"
TOTAL_REFUSED: Final = "total_refused"
TOTAL_SHADOWED: Final = "total_shadowed"
TOTAL_UNCOUNTED: Final = "total_uncounted"
TOTAL_BELOW: Final = "total_below"
TOTAL_REFUSED_BELOW: Final = "total_refused_below"
TOTALS: Final[Mapping[str, str]] = {
    ACQUIRES: TOTAL_EVENTS,
    REFUSED: TOTAL_REFUSED,
    SHADOWED: TOTAL_SHADOWED,
    UNCOUNTED: TOTAL_UNCOUNTED,
    BELOW: TOTAL_BELOW,
    REFUSED_BELOW: TOTAL_REFUSED_BELOW,
}
"""The attribute that adds up a counter of buckets, by that counter; values of usage have a field of the same name."""

# Of an audit event.
EVENT_ID: Final = "event_id"
ACTION: Final = "action"
AT: Final = "at"
PRINCIPAL: Final = "principal"
BEFORE: Final = "before"
AFTER: Final = "after"

# Of an idempotency key.
TOKENS: Final = "tokens"  # what a credit gave, by limit

# Of a call with an idempotency key.
FIRST: Final = "first"  # the try whose tokens stay
AMOUNTS: Final = "amounts"  # what it asks for, in millitokens by limit
DRAWS: Final = "draws"  # the same, by draw
OVERFLOW: Final = "overflow"  # the resource that served it, if it overflowed
REPEATS: Final = "repeats"  # further tries that were admitted: with one, the tokens stay whatever the first does
SETTLED: Final = "settled"  # the try that has settled it

# Of a namespace.
NAMESPACE_ID: Final = "namespace_id"
DELETED: Final = "deleted_at"  # on both records of a namespace, from its soft deletion on
PURGING: Final = "purging_at"  # on the record by id, from the beginning of a purge on
PURGED: Final = "purged_at"  # on the record by id, from the end of a purge on
TRACE: Final = "trace"  # on the record by id: of how many of a thousand entities a trace is kept

# The id of the source's namespace, in a namespace that was copied; no limit has such a name, as below.
COPYING: Final = "_copying_from"  # on both records, until all is there
COPIED: Final = "_copied_from"  # on the record by id, from then on

# Of the version record.
SCHEMA_VERSION: Final = "schema_version"
MIN_CLIENT_VERSION: Final = "min_client_version"

# Of the progress of a migration; no limit has such a name, because a limit's begins with a letter.
ITEMS_READ: Final = "_items_read"
ITEMS_CHANGED: Final = "_items_changed"
BEHIND_PK: Final = "_behind_pk"  # the key of the last item that was read
BEHIND_SK: Final = "_behind_sk"

# Of the provisioner's state.
SERIAL: Final = "serial"
TAG: Final = "tag"
PARTS: Final = "parts"
LOCK: Final = "lock"
PROGRESS: Final = "progress"
STOP: Final = "stop"
SOURCE: Final = "source"
TARGETS: Final = "targets"
ENDED: Final = "ended"
CONTENT: Final = "content"
OWNER: Final = "owner"
SHARE: Final = "share"
LAST_APPLIED: Final = "last_applied"
MANAGED_SYSTEM: Final = "managed_system"
MANAGED_RESOURCES: Final = "managed_resources"
MANAGED_ENTITIES: Final = "managed_entities"
INTENDED_SYSTEM: Final = "intended_system"

LIMIT: Final = "limit"
TOLD: Final = "told"
TOLD_WINDOW: Final = "window_number"

WCU: Final = "wcu"  # the reserved limit that counts the writes to a bucket

ConfigPrefix = Literal["l", "o"]  # of an entity's or a level's own limits; of an override

# The fields of one limit, in a bucket, in a config or in both, by their attributes' suffixes.
_SUFFIXES: Final = {
    "tokens": "tk",
    "consumed": "tc",
    "minted": "mt",
    "epoch": "ep",
    "epoch_began": "eb",
    "held_even": "he",
    "held_odd": "ho",
    "begun": "bg",
    "fraction": "fr",
    "excess": "xs",
    "excess_until": "xu",
    "schedule_id": "si",
    "capacity": "cp",
    "burst": "bx",
    "refill_amount": "ra",
    "refill_period": "rp",
    "shadow": "sh",
    "kind": "kd",
    "prefetch": "pf",
    "window": "wn",
    "timezone": "tz",
    "starts_on": "so",
    "weights": "wt",
    "expires": "ex",
    "schedule": "sc",
    "alert": "al",
    "unit": "un",
}
ALERT_SUFFIX: Final = f"_{_SUFFIXES['alert']}"
CAPACITY_SUFFIX: Final = f"_{_SUFFIXES['capacity']}"  # which every limit of a config has
_FIELDS: Final = {suffix: field for field, suffix in _SUFFIXES.items()}
_OF_SLOTS: Final = ("epoch", "epoch_began", "held_even", "held_odd")
_OF_STATE: Final = frozenset(
    ("tokens", "consumed", "minted", *_OF_SLOTS, "begun", "fraction", "excess", "excess_until", "schedule_id")
)  # the fields of a bucket beside the rule
OF_TEXT: Final = frozenset(("schedule_id", "kind", "window", "timezone", "alert", "unit"))
_OF_CONFIG: Final = frozenset(
    ("shadow", "prefetch", "weights", "schedule")
)  # the fields of a config that no bucket has


class BucketAttributes(NamedTuple):
    """The attributes of one limit in a bucket item: amounts in millitokens, the period in milliseconds.

    ``minted`` is what the whole limit had minted up to the anchor, by the time zones of the process that set it.
    Concurrent slots have the number of their ``epoch``, the instant at which it began, and the slots that are held in
    even and in odd epochs.
    ``begun`` is the instant, in epoch ms, at which its window began, of a limit whose windows begin with the first use.
    ``fraction`` is the part of a millitoken that does not count of a slow limit, in ``1 / (period * shards)``.
    ``excess`` is what was used beside what the balance shows, ``excess_until`` the end of that window in epoch ms.
    ``schedule_id`` names the schedule that the rule is a piece of, if any.
    """

    tokens: str
    consumed: str
    minted: str
    epoch: str
    epoch_began: str
    held_even: str
    held_odd: str
    begun: str
    fraction: str
    excess: str
    excess_until: str
    schedule_id: str
    capacity: str
    burst: str
    refill_amount: str
    refill_period: str
    kind: str
    window: str
    timezone: str
    starts_on: str
    expires: str
    alert: str
    unit: str

    @property
    def slots(self) -> Sequence[str]:
        """The attributes of concurrent slots beside their tokens."""
        return self[3:7]

    @property
    def rule(self) -> Sequence[str]:
        """The attributes of the rule: what a reshape may change."""
        return self[12:]


class LimitAttributes(NamedTuple):
    """The attributes of one limit in a config item: amounts in tokens, the period in seconds, ``prefetch`` in
    milliseconds, ``weights`` and ``schedule`` as text.
    """

    capacity: str
    burst: str
    refill_amount: str
    refill_period: str
    shadow: str
    kind: str
    prefetch: str
    window: str
    timezone: str
    starts_on: str
    weights: str
    expires: str
    schedule: str
    alert: str
    unit: str


class LimitAttribute(NamedTuple):
    """The limit and the field that an attribute of a bucket or of a config holds."""

    limit: str
    field: str


@lru_cache(maxsize=4096)
def bucket_attributes(limit: str) -> BucketAttributes:
    """Return the attributes of a limit in a bucket item."""
    return BucketAttributes(*(f"b_{limit}_{suffix}" for field, suffix in _SUFFIXES.items() if field not in _OF_CONFIG))


@lru_cache(maxsize=4096)
def limit_attributes(limit: str, prefix: ConfigPrefix = "l") -> LimitAttributes:
    """Return the attributes of a limit in a config item; those of an override have the prefix ``o``."""
    suffixes = (suffix for field, suffix in _SUFFIXES.items() if field not in _OF_STATE)
    return LimitAttributes(*(f"{prefix}_{limit}_{suffix}" for suffix in suffixes))


@lru_cache(maxsize=8_192)
def parse_bucket_attribute(name: str) -> LimitAttribute | None:
    """Return the limit and the field of a bucket's attribute, ``None`` for any other attribute."""
    if not name.startswith("b_"):
        return None
    # A limit's name may have underscores, a suffix has none: the last one separates them.
    limit, _, suffix = name[2:].rpartition("_")
    field = _FIELDS.get(suffix)
    return None if not limit or field is None or field in _OF_CONFIG else LimitAttribute(limit, field)


def refused_by(refuser: Refuser) -> str:
    """Return the attribute of a bucket with the number of its entity's acquires that a limit of an ancestor refused."""
    return f"rj_{refuser}"


def parse_refused_by(name: str) -> Refuser | None:
    """Return the limit whose refusals an attribute of a bucket counts, ``None`` for any other attribute."""
    return parse_refuser(name[3:]) if name.startswith("rj_") else None


def parse_refuser(text: str) -> Refuser:
    """Return the entity and its limit. An id may have slashes, the name of a limit has none: the last one separates
    them.
    """
    entity_id, _, limit = text.rpartition("/")
    return Refuser(entity_id, limit)


def write_ask(amounts: Mapping[str, int]) -> str:
    """Return what a refused call asked for, in whole tokens by limit, as text; empty if it is too long for an item."""
    text = " ".join(f"{name}:{amount}" for name, amount in sorted(amounts.items()))
    return text if len(text) <= _LONGEST_ASK else ""


def read_ask(item: Mapping[str, Any]) -> dict[str, int]:
    """Return what the refused call asked for that a bucket has, without what is damaged: no acquire depends on it."""
    text = item.get(REFUSED_ASK, "")
    pairs = [word.rpartition(":") for word in text.split()] if isinstance(text, str) else []
    return {name: int(amount) for name, _, amount in pairs if name and amount.isascii() and amount.isdigit()}


def late_counts_of(item: Mapping[str, Any]) -> dict[str, int]:
    """Return the counts of what came before a write, among its attributes: refusals, and acquires of an outage."""
    return {name: item[name] for name in item if name in _LATE or parse_refused_by(name) is not None}
