"""List the resources and entities that have limits, by indexes that may be a moment behind the table."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from ...exceptions import ValidationError
from ...operations.values import Item, Key, Page, Query
from ...schema import keys
from ...schema.attributes import GSI3SK, GSI4SK, PK
from ...schema.keys import EntityConfigAddress
from ...values.naming import check_identifier, check_resource
from ..index_rows import IndexRows, query_rows, report
from ..process.namespace_state import NamespaceState
from ..retry import key_of, with_retries
from ..steps import Flow

ENTRIES_OF_FIRST_PAGE = 1100  # one query reads a thousand entities of a resource, for some 18 read units
ENTRIES_PER_PAGE = 25  # for half a read unit; behind each page the query skips to the next resource


def resources_with_defaults(namespace_state: NamespaceState) -> Flow[list[str]]:
    """Return the resources that have limits of their own, sorted by name."""
    rows = IndexRows(namespace_state.namespace_id)
    resources = yield from resource_rows(rows)
    yield from report(rows)
    return sorted(resources)


def resource_rows(rows: IndexRows, *, with_switches: bool = False) -> Flow[list[str]]:
    """Return the resources whose limits the index shows; ``with_switches``: also those that have switches alone."""
    ns = rows.namespace_id
    query = Query(keys.gsi4_pk(ns), index="GSI4", begins_with=keys.pk_resource(ns, ""))
    found = yield from query_rows(query, rows, _resource)
    return [resource for resource, has_limits in found if has_limits or with_switches]


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
        query = _behind(query, page, found)


def _behind(query: Query, page: Page, found: list[str]) -> Query:
    """Return the query that follows a page: of the next resource, or, if no row of the page could be used, of the next
    row.
    """
    if not found:
        return replace(query, start=page.next, limit=ENTRIES_OF_FIRST_PAGE)
    return replace(query, after=keys.gsi4_after_resource(found[-1]), start=None, limit=ENTRIES_PER_PAGE)


def in_force(addresses: Iterable[EntityConfigAddress], namespace_state: NamespaceState) -> list[EntityConfigAddress]:
    """Return the addresses without those that have nothing but an override that has ended."""
    now_ms = namespace_state.now()
    return [each for each in addresses if each.until_ms is None or now_ms < each.until_ms]


def _resource(item: Item) -> tuple[str, bool]:
    """Return the resource in a row of its config, and whether it has limits. Raises ``ValueError`` for any other
    row.
    """
    resource = check_resource("resource", keys.parse_resource_pk(item[PK]))
    has_limits = item[GSI4SK] == item[PK]
    if key_of(item).sk != keys.sk_config() or not (has_limits or item[GSI4SK] == keys.gsi4_sk_without_limits(item[PK])):
        raise ValueError("not as the config of a resource")
    return resource, has_limits


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
