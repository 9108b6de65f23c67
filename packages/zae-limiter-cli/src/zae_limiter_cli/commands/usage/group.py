"""The group `zae-limiter usage`, and the list of its commands."""

from collections.abc import Mapping
from typing import Final

import click

from ...errors import debug_option
from ...lazy import Entry, LazyCommands
from ...options import connection_options, namespace_options

ENTRIES: Final[Mapping[str, Entry]] = {
    "list": Entry("usage.windows:list_usage", "What was consumed in each window."),
    "summary": Entry("usage.windows:summary", "What was consumed, summed by limit."),
}


@click.group(cls=LazyCommands, entries=ENTRIES)
@connection_options
@namespace_options
@debug_option
def usage() -> None:
    """What entities consumed of resources, by the hour and by the day, as the aggregator counted it."""
