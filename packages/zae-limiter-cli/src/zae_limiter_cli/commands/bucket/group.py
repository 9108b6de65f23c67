"""The group `zae-limiter bucket`, and the list of its commands."""

from collections.abc import Mapping
from typing import Final

import click

from ...errors import debug_option
from ...lazy import Entry, LazyCommands
from ...options import connection_options, namespace_options

ENTRIES: Final[Mapping[str, Entry]] = {
    "list": Entry("bucket.listing:list_buckets", "List the buckets of all entities, and what is left in each."),
    "show": Entry("bucket.tokens:show", "Show the tokens that an entity has left."),
    "reset": Entry("bucket.tokens:reset", "Fill a bucket."),
    "credit": Entry("bucket.tokens:credit", "Add tokens to a bucket."),
    "tell": Entry("bucket.telling:tell", "Tell live buckets of changed limits."),
}


@click.group(cls=LazyCommands, entries=ENTRIES)
@connection_options
@namespace_options
@debug_option
def bucket() -> None:
    """Show the tokens that entities have left, and add tokens by hand to unblock one at once."""
