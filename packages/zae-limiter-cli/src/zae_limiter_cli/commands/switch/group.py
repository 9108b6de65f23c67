"""The group `zae-limiter switch`."""

import click

from ...errors import debug_option
from ...lazy import CommandsOfModules
from ...options import connection_options, namespace_options


@click.group(cls=CommandsOfModules, modules=("switches",))
@connection_options
@namespace_options
@debug_option
def switch() -> None:
    """Disable entities and resources, let them bypass their limits, or choose whether acquires ask the parents."""
