"""The group `zae-limiter bucket`, and the list of its commands."""

from collections.abc import Mapping
from typing import Final

import click

from ...errors import debug_option
from ...lazy import Entry, LazyCommands
from ...options import connection_options, namespace_options

ENTRIES: Final[Mapping[str, Entry]] = {
    "show": Entry("bucket.tokens:show", "Show what an entity has left."),
    "reset": Entry("bucket.tokens:reset", "Make a bucket full now."),
    "credit": Entry("bucket.tokens:credit", "Give a bucket some tokens now."),
}


@click.group(cls=LazyCommands, entries=ENTRIES)
@connection_options
@namespace_options
@debug_option
def bucket() -> None:
    """What entities have left, now; and tokens given by hand, to unblock one at once."""
