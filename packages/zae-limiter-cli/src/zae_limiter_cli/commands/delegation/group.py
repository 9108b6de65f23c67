"""The group `zae-limiter delegation`."""

import click

from ...errors import debug_option
from ...lazy import CommandsOfModules
from ...options import connection_options


@click.group(cls=CommandsOfModules, modules=("delegations",))
@connection_options
@debug_option
def delegation() -> None:
    """Let teams plan and apply one namespace each, with a policy that names no other.

    A delegation is an alias of the planner and of the provisioner, which serves its namespace alone.
    """
