"""The group `zae-limiter system`."""

import click

from ...errors import debug_option
from ...lazy import CommandsOfModules
from ...options import connection_options, namespace_options


@click.group(cls=CommandsOfModules, modules=("defaults",))
@connection_options
@namespace_options
@debug_option
def system() -> None:
    """Manage the default limits of a namespace, for entities and resources without limits, and its on_unavailable."""
