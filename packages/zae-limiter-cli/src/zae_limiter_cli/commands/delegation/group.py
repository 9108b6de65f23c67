"""The group `zae-limiter delegation`, and the list of its commands."""

from collections.abc import Mapping
from typing import Final

import click

from ...errors import debug_option
from ...lazy import Entry, LazyCommands
from ...options import connection_options

ENTRIES: Final[Mapping[str, Entry]] = {
    "add": Entry("delegation.delegations:add", "Let a namespace be planned and applied by itself."),
    "list": Entry("delegation.delegations:list_delegations", "List the delegated namespaces."),
    "policy": Entry("delegation.delegations:policy", "Print the IAM policy of a delegated namespace."),
    "remove": Entry("delegation.delegations:remove", "Take a delegation back."),
}


@click.group(cls=LazyCommands, entries=ENTRIES)
@connection_options
@debug_option
def delegation() -> None:
    """Let teams plan and apply one namespace each, with a policy that names no other.

    A delegation is an alias of the planner and of the provisioner, which serves its namespace alone.
    """
