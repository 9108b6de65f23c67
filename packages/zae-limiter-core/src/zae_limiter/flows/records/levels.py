"""Read and change what is stored at a level, whichever level it is and whichever part of it.

A level is a row, named by a subject and a resource (``ConfigPlace``):

| level                  | subject        | resource            | invalidated at once             |
|------------------------|----------------|---------------------|---------------------------------|
| system                 | none           | none                | nothing                         |
| resource               | none           | name, or a pattern  | nothing                         |
| tier, on a resource    | ``$TIER:gold`` | name or ``_default_`` | nothing                       |
| entity, on a resource  | its id         | name or ``_default_`` | the entity's live buckets     |

Its columns are limits, an override (entities alone), switches (all but tiers), ``on_refused``, and ``on_unavailable``
(the system alone). A ``Change`` names those that change; one write and one audit event follow for any of them.
``values.resolution`` says which level wins, ``many_levels`` changes many at once, ``listing`` lists them.

A tier exists as long as it has a config. A change of it writes that config alone, however many entities have the tier;
an entity that is given another tier has its live buckets invalidated, as if its own limits were changed. If an entity
gets a tier at the moment at which the last config of the tier is deleted, it names a tier without limits, and those of
the resource hold.

A resource may have a million live buckets, so a change of its limits invalidates none: every process reads them within
the life of its cache, at no cost. ``invalidate_level`` is for a caller who cannot wait for that. It counts first, so
that the cost is known; then it invalidates at a bounded rate, page by page. An interrupted call may be made again: a
bucket with a ``cv`` newer than the last change of the stored limits was invalidated already, and costs a read. A ``cv``
may be ``CLOCKS_MS`` in the future, in a process whose clock is fast by as much again; so buckets invalidated in the
first seconds behind a change are invalidated twice.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from ...exceptions import ValidationError
from ...operations.errors import StoreError
from ...operations.sizes import item_size
from ...operations.values import NOTHING, Conditions, Delete, Item, Key, Put, Query
from ...runtime.dataclass import replace
from ...runtime.named_tuple import NamedTuple
from ...schema import keys
from ...schema.attributes import (
    CONFIG_VERSION,
    ENTITY_ID,
    EVENT_ID,
    FINGERPRINT,
    GSI3PK,
    GSI3SK,
    GSI4SK,
    MODE,
    ON_REFUSED,
    ON_UNAVAILABLE,
    PATTERNS,
    PK,
    RESOURCE,
    SK,
)
from ...schema.configs import Columns, Row, config_attributes, override_attributes, read_columns, switch_attributes
from ...schema.entities import read_tier
from ...schema.items import BucketId
from ...schema.keys import audit_tier, pk_tier, tier_of_subject
from ...schema.patterns import fixed_attributes, pattern_items, with_pattern, with_system, without_patterns
from ...schema.record import item_keys, reads
from ...values.audit import AuditAction, Cause
from ...values.buckets import InvalidatedBuckets, LiveBuckets
from ...values.entities import UNCHANGED, Unchanged
from ...values.limits import ConfigSource, Limit, Policy, check_on_unavailable
from ...values.naming import DEFAULT_RESOURCE, check_identifier, check_resource, check_tier
from ...values.on_refused import OnRefused
from ...values.overrides import Override, new_override
from ...values.patterns import is_pattern, matches
from ...values.provisioner import ConfigPlace
from ...values.resolution import EXTENDS, LEVELS, SAYS_NOTHING, Level, Said, check_said, compose, no_room
from ...values.switches import Switches
from ..bucket.reading import bucket_of_row
from ..bucket.telling import CLOCKS_MS, tell, tell_own
from ..index_rows import IndexRows, query_rows, report
from ..optimistic import Write, as_read, optimistic
from ..partitions import next_rows, of_namespace
from ..partitions import of_resource as queries_of_resource
from ..process.config_cache import ConfigRecords, Record, config_keys
from ..process.namespace_state import NamespaceState
from ..public_errors import public_error
from ..retry import KEYS_PER_READ, key_of, parts, read, read_all, with_retries
from ..steps import Flow
from ..validation import OwnPlace, validate_flag, validate_own_place, validate_system
from . import audit
from .listing import entity_config_rows, entity_config_rows_on, read_patterns, resource_rows

Progress = Callable[[int], None]
Concerns = Callable[[BucketId], bool]
_AT: Final = len("2024-01-31T14:00:00.000Z")  # an event id begins with the instant of its change

SYSTEM: Final[ConfigPlace] = (None, None)
LARGEST_SHARED: Final = 256 * 1024  # bytes of the system's config with all patterns; DynamoDB has 400 KB for an item
POLICIES: Final = frozenset((ON_UNAVAILABLE, ON_REFUSED))  # which a config may have without limits

T = TypeVar("T")


def of_resource(resource: object) -> ConfigPlace:
    """Return the level of a resource, or of a pattern of resources. Raises ``ValidationError``."""
    return None, check_resource("resource", resource, allow_pattern=True)


def of_tier(tier: str, resource: object) -> ConfigPlace:
    """Return the level of a tier on a resource, or on all (``_default_``). Raises ``ValidationError``."""
    return audit_tier(check_tier("tier", tier)), check_resource("resource", resource, allow_default=True)


def of_entity(entity_id: object, resource: object) -> ConfigPlace:
    """Return the level of an entity on a resource, or on all (``_default_``). Raises ``ValidationError``."""
    return validate_own_place(entity_id, resource)


def of_either(entity_id: str | None, resource: str | None) -> ConfigPlace:
    """Return the level of an entity, else that of a resource, else the system. Raises ``ValidationError``."""
    if entity_id is not None:
        return of_entity(entity_id, DEFAULT_RESOURCE if resource is None else resource)
    return SYSTEM if resource is None else of_resource(resource)


class Place(NamedTuple):
    """The place of a level in the table: the key of its item, its fixed attributes, the subject of its audit events."""

    key: Key
    fixed: Mapping[str, str]
    audited_as: str
    resource: str | None

    @property
    def own_key(self) -> Key:
        """The key of its item, or that which the config of a pattern would have as an item of its own."""
        return Key(self.fixed[PK], self.fixed[SK])

    @property
    def is_shared(self) -> bool:
        """Whether other levels are in the same item: that of the system has the patterns, too."""
        return RESOURCE not in self.fixed or self.own_key != self.key

    def config_in(self, item: Item | None) -> Item | None:
        """Return the config of the level in the item of its key."""
        if not self.is_shared:
            return item
        if self.resource is None:
            return without_patterns(item)
        return next((each for each in pattern_items(item) if each[RESOURCE] == self.resource), None)

    def item_with(self, ns: str, before: Item | None, config: Item | None) -> Item | None:
        """Return the item of the key with another config of the level."""
        if not self.is_shared:
            return config
        if self.resource is None:
            item = with_system(ns, before, config)
        else:
            item = with_pattern(ns, before, self.resource, config)
        if item is not None and PATTERNS in item and item_size(item) > LARGEST_SHARED:
            problem = (
                f"are more than {LARGEST_SHARED // 1024} KB with the system's limits: have fewer patterns, or limits"
            )
            raise ValidationError("patterns", [*item[PATTERNS]], problem)
        return item

    @property
    def own(self) -> OwnPlace | None:
        """The entity and the resource, if the level is an entity's: its live buckets are invalidated by a change."""
        return (self.fixed[ENTITY_ID], self.fixed[RESOURCE]) if ENTITY_ID in self.fixed else None


def place_of(namespace_state: NamespaceState, level: ConfigPlace) -> Place:
    """Return the place of a level, whose names are checked."""
    ns, (subject, resource) = namespace_state.namespace_id, level
    if resource is None:
        fixed, subject = item_keys(ns, keys.pk_system(ns), keys.sk_config()), keys.audit_system()
        return Place(key_of(fixed), fixed, subject, None)
    if subject is None:
        fixed, subject = fixed_attributes(ns, resource), keys.audit_resource(resource)
        if is_pattern(resource):
            return Place(Key(keys.pk_system(ns), keys.sk_config()), fixed, subject, resource)
    elif (tier := tier_of_subject(subject)) is not None:
        fixed = item_keys(ns, pk_tier(ns, tier), keys.sk_config(resource))
    else:
        row = keys.gsi4_sk_entity_config(resource, subject)
        fixed = {
            **item_keys(ns, keys.pk_entity(ns, subject), keys.sk_config(resource), row),
            GSI3PK: keys.gsi3_pk_entity_config(ns, resource),
            GSI3SK: keys.gsi3_sk_entity(subject),
            ENTITY_ID: subject,
        }
    return Place(key_of(fixed), {**fixed, RESOURCE: resource}, subject, resource)


class Change(NamedTuple):
    """The columns of a level that change: its limits (``None`` for none), its override (``None`` to end it), fields of
    its switches, and ``extra`` attributes; the others stay.

    With the limits go the attributes that ``kept`` does not name, without limits all of them. The fingerprint is one
    that stays: the provisioner's last write set it, so stored limits that differ from it show a drift. An item with
    neither limits nor a policy, an override or switches is deleted.
    """

    place: Place
    limits: Said | Unchanged | None = UNCHANGED
    extra: Mapping[str, Any] = NOTHING
    kept: tuple[str, ...] = (*POLICIES, FINGERPRINT)
    override: Override | Unchanged | None = UNCHANGED
    switches: Mapping[str, Any] = NOTHING


def get(namespace_state: NamespaceState, level: ConfigPlace, column: Callable[[Row], T]) -> Flow[T]:
    """Return a column of a level, such as ``Row.limits``."""
    place = place_of(namespace_state, level)
    item = yield from read(place.key)
    return reads(lambda stored: column(Row(place.config_in(stored), namespace_state.now())))(item)


def set_limits(
    namespace_state: NamespaceState,
    level: ConfigPlace,
    limits: Sequence[Limit | str] | None,
    cause: Cause,
    *,
    on_refused: OnRefused | None = None,
    on_unavailable: Policy | None = None,
    extends: bool = False,
) -> Flow[int]:
    """Replace the limits of a level; policies stay as they are if they are ``None``, and so do the system's limits.

    Returns, like each change, the number of live buckets that were invalidated.
    """
    refused: dict[str, str] = {}
    if on_refused is not None:
        refused = {ON_REFUSED: str(OnRefused.check("on_refused", on_refused, level[1]))}
    if level == SYSTEM:
        checked = validate_system(limits, on_unavailable, has_policy=bool(refused))
    else:
        checked = check_said(limits, extends=extends)  # type: ignore[arg-type]  # refuses None
        if checked.mode == EXTENDS:
            yield from _check_room(namespace_state, level, checked)
    extra = refused if on_unavailable is None else {**refused, ON_UNAVAILABLE: on_unavailable}
    wanted = Change(place_of(namespace_state, level), UNCHANGED if checked is None else checked, extra)
    return (yield from change(namespace_state, wanted, cause))


def _check_room(namespace_state: NamespaceState, level: ConfigPlace, said: Said) -> Flow[None]:
    """Raise ``ValidationError`` for limits that are too many for a bucket with those of the levels that they extend.

    What is added to a lower level later is refused by the acquires for which it is too much.
    """
    subject, resource, now_ms = level[0], str(level[1]), namespace_state.now()
    tier = None if subject is None else tier_of_subject(subject)
    own = place_of(namespace_state, level)
    if own.own is not None:
        meta = Key(keys.pk_entity(namespace_state.namespace_id, own.own[0]), keys.sk_meta())
        tier = read_tier((yield from read_all([meta])).get(meta))
    of = config_keys(namespace_state.namespace_id, "" if own.own is None else own.own[0], resource, lambda _: tier)
    above = {"resource"} if subject is None else set[str]()
    if own.own is None:
        above |= {"entity", "entity_default"}
    named: dict[str, Key | None] = {name: getattr(of, name) for name in LEVELS if name != "pattern"}
    below = {name: None if name in above or key == own.own_key else key for name, key in named.items()}
    items = yield from read_all([key for key in below.values() if key is not None])
    records = {name: Record(None if key is None else items.get(key), now_ms) for name, key in below.items()}
    levels = ConfigRecords(on=resource, meta=Record(None, now_ms), **records).levels(now_ms)
    source: ConfigSource = "resource" if subject is None else "entity" if own.own is not None else "tier"
    if is_pattern(resource):
        source = "pattern"
        levels = [each for each in levels if each.pattern is None or len(each.pattern) < len(resource)]
    composed = compose([Level(source, said.limits, mode=EXTENDS), *levels])
    named_by = tier if source == "tier" else subject
    problem = no_room(resource if subject is None else f"{named_by}/{resource}", composed.limits, composed.sources)
    if problem is not None:
        raise problem


def delete_limits(namespace_state: NamespaceState, level: ConfigPlace, cause: Cause) -> Flow[int]:
    """Remove the limits of a level and its policies, if there are any; an override and switches stay."""
    return (yield from change(namespace_state, Change(place_of(namespace_state, level), None), cause))


def set_override(
    namespace_state: NamespaceState,
    level: ConfigPlace,
    limits: Sequence[Limit | str],
    until: datetime,
    cause: Cause,
    *,
    extends: bool = False,
) -> Flow[int]:
    """Replace an entity's limits at a level until an instant; its own stay stored."""
    override = new_override(limits, until, namespace_state.now(), extends=extends)
    wanted = Change(place_of(namespace_state, level), override=override)
    return (yield from change(namespace_state, wanted, cause))


def delete_override(namespace_state: NamespaceState, level: ConfigPlace, cause: Cause) -> Flow[int]:
    """End the override at a level, if one is in force."""
    wanted = Change(place_of(namespace_state, level), override=None)
    return (yield from change(namespace_state, wanted, cause))


def set_switches(
    namespace_state: NamespaceState, level: ConfigPlace, fields: Mapping[str, Any], reason: str | None, cause: Cause
) -> Flow[int]:
    """Change switches of a level; those of ``fields`` that are ``UNCHANGED`` stay."""
    given = {name: value for name, value in fields.items() if value is not UNCHANGED}
    if not given:
        raise ValidationError("switches", given, "name at least one of disabled, bypass and cascade")
    given["reason"] = reason
    Switches(**given)  # before anything is read
    wanted = Change(place_of(namespace_state, level), switches=given)
    return (yield from change(namespace_state, wanted, cause))


def change(namespace_state: NamespaceState, wanted: Change, cause: Cause) -> Flow[int]:
    """Change or delete a whole config item, with its audit event; lose no other write in between.

    Then invalidate the live buckets of an entity, and return their number. Raises ``StoreError`` if one of them was
    not; the config is changed then, and the same call may be made again.
    """

    def attempt(cause: Cause) -> Flow[tuple[Sequence[Write], None]]:
        before = yield from read(wanted.place.key)
        return writes_of(namespace_state, wanted, before, cause), None

    yield from optimistic(cause, attempt)
    namespace_state.configs.mark_changed(wanted.place.key)
    return 0 if wanted.place.own is None else (yield from tell_buckets(namespace_state, wanted.place.own))


def tell_buckets(namespace_state: NamespaceState, place: OwnPlace) -> Flow[int]:
    """Invalidate the live buckets of an entity at a place whose limits have changed; return their number, or raise."""
    told = yield from tell_own(namespace_state, [place])
    for error in told.failed.values():
        raise error
    return told.buckets


def writes_of(
    namespace_state: NamespaceState, wanted: Change, before: Item | None, cause: Cause, *, number: int = 0
) -> tuple[Write, ...]:
    """Return the write of a change, and that of its audit event; none if there is nothing to delete."""
    after, event = item_after(namespace_state, wanted, before, cause, number=number)
    if event is None:
        return ()
    return write_of(wanted.place.key, before, after, event), event


def write_of(key: Key, before: Item | None, after: Item | None, event: Put) -> Put | Delete:
    """Return the write that replaces an item as it was read, in the transaction of an audit event."""
    when = Conditions(absent=(PK,)) if before is None else as_read(before, CONFIG_VERSION)
    return Delete(key, when) if after is None else Put({**after, EVENT_ID: event.item[EVENT_ID]}, when)


def item_after(
    namespace_state: NamespaceState, wanted: Change, before: Item | None, cause: Cause, *, number: int = 0
) -> tuple[Item | None, Put | None]:
    """Return the item of a level after a change, and the audit event; no event if there is nothing to delete."""
    place, now_ms = wanted.place, namespace_state.now()
    config = place.config_in(before)
    columns = read_columns(config, now_ms)
    after, new_columns = _changed(columns, config, wanted)
    was, will_be = columns.plain(), new_columns.plain()
    keeps_limits = wanted.limits is UNCHANGED
    adds = wanted.limits not in (None, UNCHANGED) or wanted.override not in (None, UNCHANGED) or wanted.extra
    if not adds and {**(was or {}), CONFIG_VERSION: 0} == {**(will_be or {}), CONFIG_VERSION: 0}:
        return before, None  # what it removes is not there
    action: AuditAction = "limits_set" if wanted.limits is not None else "limits_deleted"
    if keeps_limits and wanted.switches:
        action = "switches_set"
    elif keeps_limits and wanted.override is not UNCHANGED:
        action = "override_set" if wanted.override else "override_deleted"
    subject, resource = place.audited_as, place.resource
    audit_put = audit.event(
        namespace_state, cause, action, subject, before=was, after=will_be, resource=resource, number=number
    )
    if after is not None:
        after = {**after, EVENT_ID: audit_put.item[EVENT_ID]}
    return place.item_with(namespace_state.namespace_id, before, after), audit_put


def _changed(was: Columns, before: Item | None, wanted: Change) -> tuple[Item | None, Columns]:
    """Return the new item of a config, ``None`` for none, and its columns."""
    said = Said(was.limits, was.mode) if isinstance(wanted.limits, Unchanged) else wanted.limits or SAYS_NOTHING
    override = was.override if isinstance(wanted.override, Unchanged) else wanted.override
    kept = () if wanted.limits is None else wanted.kept
    extra = {**{name: value for name, value in (before or {}).items() if name in kept}, **wanted.extra}
    switches = replace(was.switches, **wanted.switches)
    if not said and override is None and not switches and not POLICIES & extra.keys():
        return None, Columns()
    beside = {} if override is None else override_attributes(override, alone=not said and not switches)
    attributes = {**extra, **config_attributes(said.limits), **beside, **switch_attributes(switches)}
    if said.mode is not None:
        attributes[MODE] = said.mode
    policy = None if ON_UNAVAILABLE not in extra else check_on_unavailable(extra[ON_UNAVAILABLE])
    refused, version = extra.get(ON_REFUSED), was.version + 1
    columns = Columns(said.limits, override, switches, policy, refused, version, is_over=False, mode=said.mode)
    return {**_rows(wanted.place, said, override), **attributes, CONFIG_VERSION: version}, columns


def _rows(place: Place, said: Said, override: Override | None) -> dict[str, str]:
    """Return the fixed attributes of a level, with rows that show lists what it has: limits, limits that add to those
    of the next level, nothing but an override, whose end the index has, or none of them (0).
    """
    fixed, extends = dict(place.fixed), said.mode == EXTENDS
    if said and not extends:
        return fixed
    if place.own is not None:
        entity_id, resource = place.own
        until_ms = None if said else 0 if override is None else override.until_ms
        fixed[GSI3SK] = keys.gsi3_sk_entity(entity_id, until_ms, extends=extends)
        fixed[GSI4SK] = keys.gsi4_sk_entity_config(resource, entity_id, until_ms, extends=extends)
    elif RESOURCE in fixed:  # the system is in no list
        row = fixed[GSI4SK]
        fixed[GSI4SK] = keys.gsi4_sk_extending(row) if extends else keys.gsi4_sk_without_limits(row)
    return fixed


def delete_tier(namespace_state: NamespaceState, tier: str, resource: str, cause: Cause) -> Flow[None]:
    """Remove a tier's limits at a place, if there are any. Raises ``ValidationError`` for the last ones of a tier that
    entities have; those that got it a moment ago may be missed.
    """
    level = of_tier(tier, resource)
    if (yield from _configs_of(namespace_state, tier)) == [place_of(namespace_state, level).key]:
        count = yield from count_entities(namespace_state, tier)
        if count:
            entities = "1 entity has it" if count == 1 else f"{count:,} entities have it"
            problem = f"{entities}: give them another tier, or none, before its last limits go"
            raise ValidationError("tier", tier, problem)
    yield from delete_limits(namespace_state, level, cause)


def check_tier_exists(namespace_state: NamespaceState, tier: str | None) -> Flow[None]:
    """Raise ``ValidationError`` for a tier without limits; ``None`` stands for no tier."""
    if tier is None or (yield from _configs_of(namespace_state, tier)):
        return
    known = list((yield from list_tiers(namespace_state)))
    close = get_close_matches(tier, known, n=1)
    meant = f", did you mean {close[0]!r}?" if close else ": set its limits first"
    raise ValidationError("tier", tier, f"there is no tier of this name{meant}")


def list_tiers(namespace_state: NamespaceState) -> Flow[dict[str, list[str]]]:
    """Return the resources (or ``_default_``) on which each tier has limits, by the tier's name."""
    rows = IndexRows(namespace_state.namespace_id)
    found = yield from tier_rows(rows)
    yield from report(rows)
    tiers: dict[str, list[str]] = {}
    for tier, resource in sorted(found):
        tiers.setdefault(tier, []).append(resource)
    return tiers


def tier_rows(rows: IndexRows) -> Flow[list[tuple[str, str]]]:
    """Return the tier and the resource of each config of a tier that the index shows."""
    ns = rows.namespace_id
    query = Query(keys.gsi4_pk(ns), "GSI4", begins_with=keys.pk_tier(ns, ""))
    return (yield from query_rows(query, rows, lambda item: keys.parse_tier_key(ns, item[PK], item[SK])))


def entities_of_tier(namespace_state: NamespaceState, tier: str) -> Flow[list[str]]:
    """Return the entities that have a tier, by id; a very recent change may be missing."""
    ns, rows = namespace_state.namespace_id, IndexRows(namespace_state.namespace_id)
    query = Query(keys.gsi3_pk_tier(ns, check_tier("tier", tier)), "GSI3")
    found = yield from query_rows(query, rows, lambda item: _entity(rows, item))
    yield from report(rows)
    return sorted(found)


def count_entities(namespace_state: NamespaceState, tier: str) -> Flow[int]:
    """Return the number of entities that have a tier; a very recent change may be missing."""
    return len((yield from entities_of_tier(namespace_state, tier)))


def _entity(rows: IndexRows, item: Item) -> str:
    """Return the entity in a row of the entities of a tier. Raises ``ValueError`` for any other row."""
    namespace_id, entity_id = keys.parse_entity_pk(item[PK])
    expected = (rows.namespace_id, keys.sk_meta(), keys.gsi3_sk_entity(entity_id))
    if (namespace_id, item[SK], item[GSI3SK]) != expected:
        raise ValueError("not as the record of an entity")
    return check_identifier("entity_id", entity_id)


def _configs_of(namespace_state: NamespaceState, tier: str) -> Flow[list[Key]]:
    """Return the keys of a tier's first two configs."""
    pk = keys.pk_tier(namespace_state.namespace_id, tier)
    page = yield from with_retries(Query(pk, begins_with=keys.CONFIG_PREFIX, limit=2))
    return [key_of(item) for item in page.items]


def count_live_buckets(
    namespace_state: NamespaceState, resource: str | None, *, for_switches: bool
) -> Flow[LiveBuckets]:
    """Count the buckets that ``invalidate_level`` would invalidate, by their rows in an index."""
    rows = IndexRows(namespace_state.namespace_id)
    queries, concerns = yield from _begin(namespace_state, rows, resource, for_switches=for_switches)
    buckets = shards = others = 0
    while queries:
        queries, found = yield from _page(queries, rows)
        for bucket in found:
            if concerns(bucket):
                buckets += bucket.shard == 0
                shards += 1
            else:
                others += bucket.shard == 0
    yield from report(rows)
    return LiveBuckets(buckets, shards, others)


def invalidate_level(
    namespace_state: NamespaceState,
    resource: str | None,
    *,
    writes_per_second: float,
    on_progress: Progress | None,
    for_switches: bool,
) -> Flow[InvalidatedBuckets]:
    """Invalidate the live buckets of a resource, or with ``None`` those that the system's limits hold for."""
    number = isinstance(writes_per_second, int | float) and not isinstance(writes_per_second, bool)
    if not number or not 1 <= writes_per_second < math.inf:
        raise ValidationError("writes_per_second", writes_per_second, "must be a number of at least 1")
    rows = IndexRows(namespace_state.namespace_id)
    queries, concerns = yield from _begin(namespace_state, rows, resource, for_switches=for_switches)
    # from then on a ``cv`` shows that a bucket was invalidated; never, if the limits do not say when they were changed
    place = place_of(namespace_state, (None, resource))
    stored = place.config_in((yield from read(place.key)))
    try:
        changed = datetime.fromisoformat(str((stored or {}).get(EVENT_ID, ""))[:_AT])
        newer_than_ms = changed.timestamp() * 1000 + 2 * CLOCKS_MS
    except ValueError:
        newer_than_ms = math.inf
    told = before = 0
    failed: dict[BucketId, StoreError] = {}
    while queries:
        queries, found = yield from _page(queries, rows)
        for part in parts([each for each in found if each.shard == 0 and concerns(each)], KEYS_PER_READ):
            answer = yield from tell(
                namespace_state, part, writes_per_second=writes_per_second, newer_than_ms=newer_than_ms
            )
            told, before, failed = told + answer.buckets, before + answer.before, failed | dict(answer.failed)
            if on_progress is not None:
                on_progress(told + before)
    yield from report(rows)
    problems = {bucket: public_error(namespace_state.stack, why) for bucket, why in failed.items()}
    return InvalidatedBuckets(told, before, {(each.entity_id, each.resource): why for each, why in problems.items()})


def _begin(
    namespace_state: NamespaceState, rows: IndexRows, resource: str | None, *, for_switches: bool
) -> Flow[tuple[list[Query], Concerns]]:
    """Return the queries of the buckets, and what says whether the level's limits, or its switches, hold for one."""
    validate_flag("for_switches", for_switches)
    if resource is not None:
        resource = check_resource("resource", resource, allow_pattern=True)
    of_many = resource is None or is_pattern(resource)
    if resource is None or of_many:
        begin = keys.pk_buckets_of_namespace(rows.namespace_id)
        queries = of_namespace(namespace_state, Query("", "GSI4", begins_with=begin))
    else:
        queries = queries_of_resource(
            namespace_state, resource, Query("", "GSI2", begins_with=keys.INDEX_BUCKET_PREFIX)
        )
    if for_switches:  # they hold for entities with limits of their own, too
        return queries, lambda bucket: resource is None or not of_many or matches(resource, bucket.resource)
    # Leave out entities with limits of their own, and for the system resources with limits. Entities with nothing but
    # an override are invalidated, too, for it ends; and so are those whose limits add to the level's.
    resources, patterns = set[str](), set[str]()
    if resource is None or of_many:
        resources |= set((yield from resource_rows(rows, with_extending=False)))
        configs = yield from read_patterns(namespace_state)
        patterns = {name for name, said in configs.items() if said and said.mode != EXTENDS}
        addresses = yield from entity_config_rows(rows)
    else:
        addresses = yield from entity_config_rows_on(rows, resource)
        addresses += yield from entity_config_rows_on(rows, DEFAULT_RESOURCE)
    own = {(each.entity_id, each.resource) for each in addresses if each.until_ms is None and not each.extends}

    def concerns(bucket: BucketId) -> bool:
        on, on_all = (bucket.entity_id, bucket.resource), (bucket.entity_id, DEFAULT_RESOURCE)
        if bucket.resource in resources or not own.isdisjoint((on, on_all)):
            return False
        if resource is None or not of_many:
            return not any(matches(each, bucket.resource) for each in patterns)
        longer = (each for each in patterns if len(each) > len(resource))
        return matches(resource, bucket.resource) and not any(matches(each, bucket.resource) for each in longer)

    return queries, concerns


def _page(queries: Sequence[Query], rows: IndexRows) -> Flow[tuple[list[Query], list[BucketId]]]:
    def bucket(row: Item) -> BucketId:
        if row[SK] != keys.sk_state():
            raise ValueError("not as a bucket")
        return bucket_of_row(row)

    items, left = yield from next_rows(queries)
    return left, rows.read(items, bucket)
