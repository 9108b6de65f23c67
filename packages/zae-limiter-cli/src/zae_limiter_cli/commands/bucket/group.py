"""The group `zae-limiter bucket`."""

import click

from ...errors import debug_option
from ...lazy import CommandsOfModules
from ...options import connection_options, namespace_options


@click.group(cls=CommandsOfModules, modules=("listing", "tokens", "telling"))
@connection_options
@namespace_options
@debug_option
def bucket() -> None:
    """Show the tokens that entities have left, and add tokens by hand to unblock one at once."""
