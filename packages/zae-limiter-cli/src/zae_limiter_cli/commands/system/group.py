"""The group `zae-limiter system`, and the list of its commands."""

from collections.abc import Mapping
from typing import Final

import click

from ...errors import debug_option
from ...lazy import Entry, LazyCommands
from ...options import connection_options, namespace_options

ENTRIES: Final[Mapping[str, Entry]] = {
    "set-defaults": Entry("system.defaults:set_defaults", "Set the system's limits, its on_unavailable, or both."),
    "get-defaults": Entry("system.defaults:get_defaults", "Show the system's limits and its on_unavailable."),
    "delete-defaults": Entry("system.defaults:delete_defaults", "Delete the system's limits and its on_unavailable."),
}


@click.group(cls=LazyCommands, entries=ENTRIES)
@connection_options
@namespace_options
@debug_option
def system() -> None:
    """Manage the default limits of a namespace, for entities and resources without limits, and its on_unavailable."""
