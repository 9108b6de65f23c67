"""Lists of the resources and entities that have limits, by indexes that may be behind the table by a moment."""

from dataclasses import replace

from ...naming import check_resource
from ...operations.values import Page, Query
from ...schema import keys
from ...schema.attributes import GSI3SK, GSI4SK, PK
from ..pages import query_all
from ..process.namespace_state import NamespaceState
from ..retry import with_retries
from ..steps import Flow

ENTRIES_OF_FIRST_PAGE = 1100  # one query reads a thousand entities of a resource, for some 18 read units
ENTRIES_PER_PAGE = 25  # for half a read unit; behind each page the query skips to the next resource


def resources_with_defaults(namespace_state: NamespaceState) -> Flow[list[str]]:
    """The resources that have limits of their own, sorted by name."""
    ns = namespace_state.namespace_id
    items = yield from query_all(Query(keys.gsi4_pk(ns), index="GSI4", begins_with=keys.pk_resource(ns, "")))
    return sorted(keys.parse_resource_pk(item[PK]) for item in items)


def entities_with_limits(namespace_state: NamespaceState, resource: str) -> Flow[list[str]]:
    """The entities that have limits of their own on a resource, or on all (``_default_``), sorted by id."""
    check_resource("resource", resource, allow_default=True)
    pk = keys.gsi3_pk_entity_config(namespace_state.namespace_id, resource)
    items = yield from query_all(Query(pk, index="GSI3"))
    return [item[GSI3SK] for item in items]


def resources_with_entity_limits(namespace_state: NamespaceState) -> Flow[list[str]]:
    """The resources on which any entity has limits of its own, sorted by name.

    One query reads all of up to a thousand such limits. For more, each resource takes about one query.
    """
    resources: list[str] = []
    query = Query(
        keys.gsi4_pk(namespace_state.namespace_id),
        "GSI4",
        begins_with=keys.INDEX_CONFIG_PREFIX,
        limit=ENTRIES_OF_FIRST_PAGE,
    )
    while True:
        page: Page = yield from with_retries(query)
        found = [keys.parse_entity_config_sk(item[GSI4SK]).resource for item in page.items]
        resources += dict.fromkeys(found)
        if page.next is None or not found:
            return resources
        query = replace(query, after=keys.gsi4_after_resource(found[-1]), limit=ENTRIES_PER_PAGE)
