"""The group `zae-limiter system`, and the list of its commands."""

from collections.abc import Mapping
from typing import Final

import click

from ...errors import debug_option
from ...lazy import Entry, LazyCommands
from ...options import connection_options, namespace_options

ENTRIES: Final[Mapping[str, Entry]] = {
    "set-defaults": Entry("system.defaults:set_defaults", "Set the system's limits, its on_unavailable, or both."),
    "get-defaults": Entry("system.defaults:get_defaults", "Show both."),
    "delete-defaults": Entry("system.defaults:delete_defaults", "Delete both."),
}


@click.group(cls=LazyCommands, entries=ENTRIES)
@connection_options
@namespace_options
@debug_option
def system() -> None:
    """The limits that hold in a namespace where neither an entity nor a resource has any, and its on_unavailable."""
