"""The group `zae-limiter namespace`, and the list of its commands."""

from collections.abc import Mapping
from typing import Final

import click

from ...errors import debug_option
from ...lazy import Entry, LazyCommands
from ...options import connection_options

ENTRIES: Final[Mapping[str, Entry]] = {
    "register": Entry("namespace.lifecycle:register", "Register one."),
    "list": Entry("namespace.lifecycle:list_namespaces", "List those in use."),
    "show": Entry("namespace.lifecycle:show", "Show one."),
    "delete": Entry("namespace.lifecycle:delete", "Delete one; it can be recovered."),
    "recover": Entry("namespace.lifecycle:recover", "Bring a deleted one back."),
    "orphans": Entry("namespace.lifecycle:orphans", "List those that can be recovered or purged."),
    "purge": Entry("namespace.lifecycle:purge", "Remove a deleted one for good."),
}


@click.group(cls=LazyCommands, entries=ENTRIES)
@connection_options
@debug_option
def namespace() -> None:
    """The namespaces of a table: register, delete, recover, purge.

    A deleted namespace is found by nobody, and all that is in it stays until it is purged.
    """
