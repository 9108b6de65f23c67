"""The group `zae-limiter audit`, and the list of its commands."""

from collections.abc import Mapping
from typing import Final

import click

from ...errors import debug_option
from ...lazy import Entry, LazyCommands
from ...options import connection_options, namespace_options

ENTRIES: Final[Mapping[str, Entry]] = {
    "list": Entry("audit.events:list_events", "List changes, newest first."),
}


@click.group(cls=LazyCommands, entries=ENTRIES)
@connection_options
@namespace_options
@debug_option
def audit() -> None:
    """Show who changed limits, entities and buckets."""
