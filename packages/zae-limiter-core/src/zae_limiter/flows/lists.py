"""Where limits are set: the lists of resources and entities that have some.

Lives here: reads of indexes, which may be behind the table by a moment. Never: limits themselves (limits).
"""

from ..operations.values import Page, Query
from ..schema import keys
from .load import patiently
from .pages import query_all
from .scope import Scope
from .steps import Flow


def resources_with_defaults(scope: Scope) -> Flow[list[str]]:
    """The resources that have limits of their own, by name."""
    ns = scope.namespace_id
    items = yield from query_all(Query(keys.gsi4_pk(ns), index="GSI4", begins_with=keys.pk_resource(ns, "")))
    return sorted(keys.parse_resource_pk(item["PK"]) for item in items)


def entities_with_limits(scope: Scope, resource: str) -> Flow[list[str]]:
    """The entities that have limits of their own on a resource, or with ``_default_`` on all, by id."""
    items = yield from query_all(Query(keys.gsi3_pk_entity_config(scope.namespace_id, resource), index="GSI3"))
    return [item["GSI3SK"] for item in items]


def resources_with_entity_limits(scope: Scope) -> Flow[list[str]]:
    """The resources that any entity has limits of its own on, by name: one query for each, one for the end."""
    resources: list[str] = []
    after: str | None = None
    while True:
        query = Query(
            keys.gsi4_pk(scope.namespace_id),
            index="GSI4",
            begins_with=keys.INDEX_CONFIG_PREFIX,
            after=after,
            limit=1,
        )
        page: Page = yield from patiently(query)
        if not page.items:
            return resources
        resources.append(keys.parse_entity_config_sk(page.items[0]["GSI4SK"]).resource)
        after = keys.gsi4_after_resource(resources[-1])
