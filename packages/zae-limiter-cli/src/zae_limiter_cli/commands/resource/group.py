"""The group `zae-limiter resource`."""

import click

from ...errors import debug_option
from ...lazy import CommandsOfModules
from ...options import connection_options, namespace_options


@click.group(cls=CommandsOfModules, modules=("defaults",))
@connection_options
@namespace_options
@debug_option
def resource() -> None:
    """Manage the limits of a resource, which apply to every entity without limits of its own."""
