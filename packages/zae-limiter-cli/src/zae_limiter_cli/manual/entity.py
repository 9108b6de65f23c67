"""What lives here: the group `zae-limiter entity` and the list of its commands.
What never does: an import that `--help` does not need.
"""

from collections.abc import Mapping
from typing import Final

import click

from ..errors import debug_option
from ..lazy import Entry, LazyCommands
from ..options import connection_options, namespace_options

ENTRIES: Final[Mapping[str, Entry]] = {
    "create": Entry("manual.entity_records:create", "Make an entity."),
    "show": Entry("manual.entity_records:show", "Show its record."),
    "update": Entry("manual.entity_records:update", "Change its record."),
    "delete": Entry("manual.entity_records:delete", "Delete its record, its own limits and its buckets."),
    "children": Entry("manual.entity_records:children", "List its children."),
    "set-limits": Entry("manual.entity_limits:set_limits", "Set its own limits, in place of those before."),
    "get-limits": Entry("manual.entity_limits:get_limits", "Show its own limits."),
    "delete-limits": Entry("manual.entity_limits:delete_limits", "Delete its own limits."),
    "effective": Entry("manual.entity_levels:effective", "Show all four levels, and which one wins."),
    "list": Entry("manual.entity_levels:list_entities", "List the entities that have limits of their own."),
    "list-resources": Entry("manual.entity_levels:list_resources", "List the resources that any entity has limits on."),
}


@click.group(cls=LazyCommands, entries=ENTRIES)
@connection_options
@namespace_options
@debug_option
def entity() -> None:
    """Entities, their parents, and their own limits, which hold before those of resources and of the system."""
