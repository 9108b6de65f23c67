"""The group `zae-limiter audit`."""

import click

from ...errors import debug_option
from ...lazy import CommandsOfModules
from ...options import connection_options, namespace_options


@click.group(cls=CommandsOfModules, modules=("events",))
@connection_options
@namespace_options
@debug_option
def audit() -> None:
    """Show who changed limits, entities and buckets."""
