"""The group `zae-limiter plan`."""

import click

from ...errors import debug_option
from ...lazy import CommandsOfModules
from ...options import connection_options, namespace_options


@click.group(cls=CommandsOfModules, modules=("plans",))
@connection_options
@namespace_options
@debug_option
def plan() -> None:
    """Manage plans: limits that many entities have. `limits plan` shows what an apply would change."""
