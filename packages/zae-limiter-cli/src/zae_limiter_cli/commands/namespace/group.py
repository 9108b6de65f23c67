"""The group `zae-limiter namespace`."""

import click

from ...errors import debug_option
from ...lazy import CommandsOfModules
from ...options import connection_options


@click.group(cls=CommandsOfModules, modules=("lifecycle", "trace"))
@connection_options
@debug_option
def namespace() -> None:
    """Manage the namespaces of a table: register, trace, delete, recover, purge.

    Nobody can open a deleted namespace, but its data stays until it is purged.
    """
