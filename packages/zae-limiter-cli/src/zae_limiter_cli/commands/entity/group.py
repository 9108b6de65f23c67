"""The group `zae-limiter entity`, and the list of its commands."""

from collections.abc import Mapping
from typing import Final

import click

from ...errors import debug_option
from ...lazy import Entry, LazyCommands
from ...options import connection_options, namespace_options

ENTRIES: Final[Mapping[str, Entry]] = {
    "create": Entry("entity.records:create", "Create an entity."),
    "show": Entry("entity.records:show", "Show an entity's record."),
    "update": Entry("entity.records:update", "Change an entity's record."),
    "move": Entry("entity.records:move", "Move an entity under other parents."),
    "delete": Entry("entity.records:delete", "Delete an entity, its own limits and its buckets."),
    "children": Entry("entity.records:children", "List an entity's children."),
    "ancestors": Entry("entity.records:ancestors", "List all that are above an entity."),
    "set-limits": Entry("entity.limits:set_limits", "Replace an entity's own limits."),
    "get-limits": Entry("entity.limits:get_limits", "Show an entity's own limits."),
    "delete-limits": Entry("entity.limits:delete_limits", "Delete an entity's own limits."),
    "delete-override": Entry("entity.limits:delete_override", "End an override of an entity's limits at once."),
    "effective": Entry("entity.levels:effective", "Show all levels of limits, and the one that wins."),
    "list": Entry("entity.directory:list_entities", "List all entities."),
    "tree": Entry("entity.directory:tree", "Show the entities below their parents."),
    "list-resources": Entry("entity.levels:list_resources", "List the resources on which any entity has limits."),
}


@click.group(cls=LazyCommands, entries=ENTRIES)
@connection_options
@namespace_options
@debug_option
def entity() -> None:
    """Manage entities, their parents, and their own limits, which override those of resources and of the system."""
