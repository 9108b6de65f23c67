"""List resources, entities and buckets, by indexes that may be a moment behind the table.

An entity is known by its record, by limits of its own, or by a bucket, and no index has all three in one order. So a
page of entities merges ranges that are each sorted by id: that of the records, that of the buckets, and for each
resource that of its entity configs. Each range gives its first ids behind the page before; the first of them all are
the page. So a page costs some queries, however many entities there are, and memory holds one page.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from ...exceptions import ValidationError
from ...operations.values import Item, Key, Page, Query
from ...runtime.dataclass import replace
from ...schema import keys
from ...schema.attributes import GSI3SK, GSI4SK, PK, RESOURCE
from ...schema.configs import Row, read_own_place
from ...schema.entities import read_entity
from ...schema.items import BucketId, BucketState
from ...schema.keys import EntityConfigAddress
from ...schema.patterns import pattern_items
from ...schema.record import reads
from ...values.buckets import BucketPage
from ...values.entities import EntityPage, KnownEntity
from ...values.naming import DEFAULT_RESOURCE, check_identifier, check_resource
from ...values.resolution import Said
from ..bucket.reading import bucket_of_row, checked_state
from ..bucket.reading import in_force as buckets_in_force
from ..index_rows import IndexRows, query_rows, report
from ..partitions import SortedRows, of_namespace, of_resource
from ..process.namespace_state import NamespaceState, bucket_key
from ..retry import key_of, read, read_all, with_retries
from ..steps import Flow
from ..validation import validate_page_size
from .lineage import meta_key

BEHIND: Final = "$"  # follows "#", and no name in a key has either
Reader = Callable[[Item], str]

ENTRIES_OF_FIRST_PAGE = 1100  # one query reads a thousand entities of a resource, for some 18 read units
ENTRIES_PER_PAGE = 25  # for half a read unit; behind each page the query skips to the next resource


def resources_with_defaults(namespace_state: NamespaceState) -> Flow[list[str]]:
    """Return the resources and the patterns that have limits of their own, sorted by name."""
    rows = IndexRows(namespace_state.namespace_id)
    resources = yield from resource_rows(rows)
    yield from report(rows)
    patterns = yield from read_patterns(namespace_state)
    return sorted([*resources, *(name for name, said in patterns.items() if said)])


def read_patterns(namespace_state: NamespaceState) -> Flow[dict[str, Said]]:
    """Return what each pattern of resources says of limits; nothing, for one that has switches alone."""
    ns = namespace_state.namespace_id
    system = yield from read(Key(keys.pk_system(ns), keys.sk_config()))
    return reads(lambda item: {each[RESOURCE]: Row(each).said() for each in pattern_items(item)})(system)


def resource_rows(rows: IndexRows, *, with_switches: bool = False, with_extending: bool = True) -> Flow[list[str]]:
    """Return the resources whose limits the index shows; ``with_switches``: also those that have switches alone;
    ``with_extending``: also those whose limits add to the system's.
    """
    ns = rows.namespace_id
    query = Query(keys.gsi4_pk(ns), index="GSI4", begins_with=keys.pk_resource(ns, ""))
    found = yield from query_rows(query, rows, _resource)
    hidden = {name for name, wanted in (("0", with_switches), ("+", with_extending)) if not wanted}
    return [resource for resource, mark in found if mark not in hidden]


def entity_config_rows(rows: IndexRows) -> Flow[list[EntityConfigAddress]]:
    """Return the addresses of the entity configs that the index shows."""
    query = Query(keys.gsi4_pk(rows.namespace_id), "GSI4", begins_with=keys.INDEX_CONFIG_PREFIX)
    return (yield from query_rows(query, rows, lambda item: _address(rows, item)))


def check_no_page(behind: object, begins_with: object) -> None:
    """Raise ``ValidationError`` for what chooses a page, where no page is asked for."""
    if behind is not None or begins_with != "":
        field, value = ("next", behind) if behind is not None else ("begins_with", begins_with)
        raise ValidationError(field, value, "is of a page: pass limit, too")


def entities_with_limits(namespace_state: NamespaceState, resource: str) -> Flow[list[str]]:
    """Return the entities that have limits of their own on a resource, or on all (``_default_``), sorted by id."""
    resource = check_resource("resource", resource, allow_default=True)
    rows = IndexRows(namespace_state.namespace_id)
    found = yield from entity_config_rows_on(rows, resource)
    yield from report(rows)
    return sorted(address.entity_id for address in in_force(found, namespace_state))


def entity_config_rows_on(rows: IndexRows, resource: str) -> Flow[list[EntityConfigAddress]]:
    """Return the addresses of the entity configs on a resource, or on all (``_default_``), that the index shows."""
    query = Query(keys.gsi3_pk_entity_config(rows.namespace_id, resource), index="GSI3")
    return (yield from query_rows(query, rows, config_row_reader(rows, resource)))


def config_row_reader(rows: IndexRows, resource: str) -> Callable[[Item], EntityConfigAddress]:
    """Return the reader of the entity configs on a resource. It raises ``ValueError`` for any other row."""
    return lambda item: _checked(rows, keys.parse_entity_sk(keys.encode(resource), item[GSI3SK]), item)


def resources_with_entity_limits(namespace_state: NamespaceState) -> Flow[list[str]]:
    """Return the resources on which any entity has limits of its own, sorted by name.

    One query reads all of up to a thousand such limits. For more, each resource takes about one query.
    """
    rows = IndexRows(namespace_state.namespace_id)
    resources: list[str] = []
    query = Query(
        keys.gsi4_pk(namespace_state.namespace_id),
        "GSI4",
        begins_with=keys.INDEX_CONFIG_PREFIX,
        limit=ENTRIES_OF_FIRST_PAGE,
    )
    while True:
        page: Page = yield from with_retries(query)
        addresses = rows.read(page.items, lambda item: _address(rows, item))
        found = [address.resource for address in in_force(addresses, namespace_state)]
        resources += dict.fromkeys(found)
        if page.next is None:
            yield from report(rows)
            return sorted(resources)
        if found:  # skip to the next resource
            behind = keys.gsi4_after_resource(found[-1])
            query = replace(query, after=behind, start=None, limit=ENTRIES_PER_PAGE)
        else:  # no row of the page could be used
            query = replace(query, start=page.next, limit=ENTRIES_OF_FIRST_PAGE)


def own_resources(namespace_state: NamespaceState, entity_id: str) -> Flow[list[str]]:
    """Return the resources on which an entity has a config of its own, limits or switches alone, sorted by name; last
    ``_default_``. It is read from the table itself, so that no change is missing.
    """
    rows = IndexRows(namespace_state.namespace_id)
    pk = keys.pk_entity(namespace_state.namespace_id, check_identifier("entity_id", entity_id))
    found = yield from query_rows(Query(pk, begins_with=keys.CONFIG_PREFIX), rows, lambda item: read_own_place(item)[1])
    yield from report(rows)
    return sorted(found, key=lambda resource: (resource == DEFAULT_RESOURCE, resource))


def in_force(addresses: Iterable[EntityConfigAddress], namespace_state: NamespaceState) -> list[EntityConfigAddress]:
    """Return the addresses without those that have nothing but an override that has ended."""
    now_ms = namespace_state.now()
    return [each for each in addresses if each.until_ms is None or now_ms < each.until_ms]


def _resource(item: Item) -> tuple[str, str]:
    """Return the resource in a row of its config, and the mark of the row: ``0`` without limits, ``+`` for limits that
    add to the system's. Raises ``ValueError`` for any other row.
    """
    pk, row = item[PK], item[GSI4SK]
    resource = check_resource("resource", keys.parse_resource_pk(pk))
    marks = {pk: "", keys.gsi4_sk_without_limits(pk): "0", keys.gsi4_sk_extending(pk): "+"}
    if key_of(item).sk != keys.sk_config() or row not in marks:
        raise ValueError("not as the config of a resource")
    return resource, marks[row]


def _address(rows: IndexRows, item: Item) -> EntityConfigAddress:
    return _checked(rows, keys.parse_entity_config_sk(item[GSI4SK]), item)


def _checked(rows: IndexRows, address: EntityConfigAddress, item: Item) -> EntityConfigAddress:
    """Return the address in an index, if the row has the key of that config. Raises ``ValueError`` for any other
    row.
    """
    check_identifier("entity_id", address.entity_id)
    check_resource("resource", address.resource, allow_default=True)
    if key_of(item) != Key(keys.pk_entity(rows.namespace_id, address.entity_id), keys.sk_config(address.resource)):
        raise ValueError("not as the config of an entity")
    return address


def list_entities(
    namespace_state: NamespaceState, *, limit: int, behind: str | None, begins_with: str
) -> Flow[EntityPage]:
    """Return up to ``limit`` entities whose id begins so, behind an id, in the order of their keys."""
    validate_page_size(limit)
    after, prefix = _bounds(behind, begins_with)
    rows = IndexRows(namespace_state.namespace_id)
    begin = keys.pk_entity(rows.namespace_id, "")
    behind_record = None if after is None else begin + after
    query = Query(keys.gsi4_pk(rows.namespace_id), "GSI4", begins_with=begin + prefix, after=behind_record)
    records = yield from _first([query], rows, lambda item: entity_of_row(rows, item), limit + 1)
    begin = keys.pk_buckets_of_namespace(namespace_state.namespace_id)
    last = None if after is None else f"{begin}{after}{BEHIND}"
    queries = of_namespace(namespace_state, Query("", "GSI4", begins_with=begin + prefix, after=last))
    buckets = yield from _first(queries, rows, lambda item: bucket_of_row(item).entity_id, limit + 1)
    limits: set[str] = set()
    for resource in (yield from resources_with_entity_limits(namespace_state)):
        limits |= yield from _with_limits(namespace_state, rows, resource, prefix, after, limit + 1)
    known = sorted(records | buckets | limits, key=keys.encode)
    shown = known[:limit]
    items = yield from read_all([meta_key(namespace_state, each) for each in shown if each in records])
    found = {entity.entity_id: entity for entity in rows.read(items.values(), read_entity)}
    yield from report(rows)
    entities = (KnownEntity(each, found.get(each), each in limits, each in buckets) for each in shown)
    readable = tuple(each for each in entities if each.record or each.has_limits or each.has_buckets)
    return EntityPage(readable, shown[-1] if len(known) > limit else None)


def page_of_entities_with_limits(
    namespace_state: NamespaceState, resource: str, *, limit: int, behind: str | None, begins_with: str
) -> Flow[list[str]]:
    """Return up to ``limit`` entities with limits of their own on a resource, or on all (``_default_``), behind an id,
    in the order of their keys.
    """
    resource = check_resource("resource", resource, allow_default=True)
    validate_page_size(limit)
    after, prefix = _bounds(behind, begins_with)
    rows = IndexRows(namespace_state.namespace_id)
    found = yield from _with_limits(namespace_state, rows, resource, prefix, after, limit)
    yield from report(rows)
    return sorted(found, key=keys.encode)


def list_buckets(
    namespace_state: NamespaceState, resource: str | None, *, limit: int, behind: str | None
) -> Flow[BucketPage]:
    """Return up to ``limit`` buckets of the namespace or of a resource, behind the ``next`` of the page before."""
    validate_page_size(limit)
    resource = None if resource is None else check_resource("resource", resource)
    rows = IndexRows(namespace_state.namespace_id)
    entity = on = None
    if behind is not None:
        try:
            entity, on = behind.split("#")
            check_identifier("next", keys.decode(entity))
            check_resource("next", keys.decode(on))
        except (AttributeError, ValueError):  # a ValidationError is one, too
            raise ValidationError("next", behind, "must be the next of a page before") from None
    if resource is None:
        begin = keys.pk_buckets_of_namespace(namespace_state.namespace_id)
        after = None if entity is None else f"{begin}{entity}#{on}{BEHIND}"
        queries = of_namespace(namespace_state, Query("", "GSI4", begins_with=begin, after=after, limit=limit + 1))
    else:
        begin = keys.INDEX_BUCKET_PREFIX
        after = None if entity is None else f"{begin}{entity}{BEHIND}"
        query = Query("", "GSI2", begins_with=begin, after=after, limit=limit + 1)
        queries = of_resource(namespace_state, resource, query)
    keyed = SortedRows(queries)
    places: dict[tuple[str, str], list[BucketId]] = {}
    while not keyed.ended and len(places) <= limit:  # the first of the next bucket ends the shards of the last
        for bucket in rows.read((yield from keyed.page()), bucket_of_row):
            places.setdefault((bucket.entity_id, bucket.resource), []).append(bucket)
    shown = dict(islice(places.items(), limit))
    found = yield from read_all([bucket_key(each) for shards in shown.values() for each in shards])
    now_ms, states = namespace_state.now(), dict[tuple[str, str], list[BucketState]]()
    for state in rows.read(found.values(), lambda item: checked_state(item, now_ms)):
        states.setdefault((state.id.entity_id, state.id.resource), []).append(state)
    buckets = yield from buckets_in_force(namespace_state, [states[place] for place in shown if place in states], rows)
    yield from report(rows)
    more = "#".join(map(keys.encode, list(shown)[-1])) if len(places) > limit else None
    return BucketPage(tuple(buckets), more)


def _bounds(behind: str | None, begins_with: str) -> tuple[str | None, str]:
    """Return both as keys have them. Raises ``ValidationError``."""
    after = None if behind is None else keys.encode(check_identifier("next", behind))
    return after, keys.encode(check_identifier("begins_with", begins_with)) if begins_with else ""


def _with_limits(
    namespace_state: NamespaceState, rows: IndexRows, resource: str, prefix: str, after: str | None, most: int
) -> Flow[set[str]]:
    """Return the first entities with limits in force on a resource, or on all (``_default_``)."""
    address = config_row_reader(rows, resource)

    def entity(item: Item) -> str | None:
        return next((each.entity_id for each in in_force([address(item)], namespace_state)), None)

    pk = keys.gsi3_pk_entity_config(rows.namespace_id, resource)
    behind = None if after is None else f"{after}{BEHIND}"
    query = Query(pk, "GSI3", begins_with=prefix or None, after=behind)
    return (yield from _first([query], rows, entity, most))


def _first(
    queries: Iterable[Query], rows: IndexRows, reader: Callable[[Item], str | None], most: int
) -> Flow[set[str]]:
    """Return the first ``most`` different ids in the rows of queries, in the order of their sort keys."""
    found: dict[str, None] = {}
    keyed = SortedRows([replace(each, limit=most) for each in queries])
    while not keyed.ended and len(found) < most:
        found |= dict.fromkeys(each for each in rows.read((yield from keyed.page()), reader) if each is not None)
    return set(islice(found, most))


def entity_of_row(rows: IndexRows, item: Item) -> str | None:
    """Return the entity in a row of its record, and ``None`` for a link to a further parent: the record is there, too.
    Raises ``ValueError`` for any other row.
    """
    namespace_id, entity_id = keys.parse_entity_pk(item[PK])
    if keys.is_sk_parent(key_of(item).sk):
        return None
    if namespace_id != rows.namespace_id or key_of(item).sk != keys.sk_meta() or item[GSI4SK] != item[PK]:
        raise ValueError("not as the record of an entity")
    return check_identifier("entity_id", entity_id)
