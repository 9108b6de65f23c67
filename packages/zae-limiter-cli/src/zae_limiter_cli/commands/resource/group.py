"""The group `zae-limiter resource`, and the list of its commands."""

from collections.abc import Mapping
from typing import Final

import click

from ...errors import debug_option
from ...lazy import Entry, LazyCommands
from ...options import connection_options, namespace_options

ENTRIES: Final[Mapping[str, Entry]] = {
    "set-defaults": Entry("resource.defaults:set_defaults", "Replace the limits of a resource."),
    "get-defaults": Entry("resource.defaults:get_defaults", "Show the limits of a resource."),
    "delete-defaults": Entry("resource.defaults:delete_defaults", "Delete the limits of a resource."),
    "list": Entry("resource.defaults:list_resources", "List the resources that have limits."),
}


@click.group(cls=LazyCommands, entries=ENTRIES)
@connection_options
@namespace_options
@debug_option
def resource() -> None:
    """Manage the limits of a resource, which apply to every entity without limits of its own."""
