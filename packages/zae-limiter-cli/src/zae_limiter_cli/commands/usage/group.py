"""The group `zae-limiter usage`."""

import click

from ...errors import debug_option
from ...lazy import CommandsOfModules
from ...options import connection_options, namespace_options


@click.group(cls=CommandsOfModules, modules=("windows", "export", "cost", "near", "top"))
@connection_options
@namespace_options
@debug_option
def usage() -> None:
    """Show what entities consumed and how often they were refused, by hour and by day, as the aggregator counted."""
