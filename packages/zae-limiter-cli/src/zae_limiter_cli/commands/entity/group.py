"""The group `zae-limiter entity`."""

import click

from ...errors import debug_option
from ...lazy import CommandsOfModules
from ...options import connection_options, namespace_options


@click.group(cls=CommandsOfModules, modules=("records", "limits", "levels", "directory"))
@connection_options
@namespace_options
@debug_option
def entity() -> None:
    """Manage entities, their parents, and their own limits, which override those of resources and of the system."""
