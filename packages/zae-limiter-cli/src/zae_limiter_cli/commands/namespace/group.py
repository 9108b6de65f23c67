"""The group `zae-limiter namespace`, and the list of its commands."""

from collections.abc import Mapping
from typing import Final

import click

from ...errors import debug_option
from ...lazy import Entry, LazyCommands
from ...options import connection_options

ENTRIES: Final[Mapping[str, Entry]] = {
    "register": Entry("namespace.lifecycle:register", "Register a namespace."),
    "list": Entry("namespace.lifecycle:list_namespaces", "List the namespaces in use."),
    "show": Entry("namespace.lifecycle:show", "Show a namespace."),
    "trace": Entry("namespace.trace:trace", "Show or set of which share of the entities a trace is kept."),
    "delete": Entry("namespace.lifecycle:delete", "Delete a namespace; it can be recovered."),
    "recover": Entry("namespace.lifecycle:recover", "Recover a deleted namespace."),
    "orphans": Entry("namespace.lifecycle:orphans", "List the namespaces that can be recovered or purged."),
    "purge": Entry("namespace.lifecycle:purge", "Remove a deleted namespace for good."),
}


@click.group(cls=LazyCommands, entries=ENTRIES)
@connection_options
@debug_option
def namespace() -> None:
    """Manage the namespaces of a table: register, trace, delete, recover, purge.

    Nobody can open a deleted namespace, but its data stays until it is purged.
    """
