"""The group `zae-limiter switch`, and the list of its commands."""

from collections.abc import Mapping
from typing import Final

import click

from ...errors import debug_option
from ...lazy import Entry, LazyCommands
from ...options import connection_options, namespace_options

ENTRIES: Final[Mapping[str, Entry]] = {
    "set": Entry("switch.switches:set_switches", "Disable, let bypass, or choose whether parents are asked."),
    "show": Entry("switch.switches:show", "Show the switches of all four levels, and those that hold."),
}


@click.group(cls=LazyCommands, entries=ENTRIES)
@connection_options
@namespace_options
@debug_option
def switch() -> None:
    """Disable entities and resources, let them bypass their limits, or choose whether acquires ask the parents."""
