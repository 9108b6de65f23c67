"""The group `zae-limiter plan`, and the list of its commands."""

from collections.abc import Mapping
from typing import Final

import click

from ...errors import debug_option
from ...lazy import Entry, LazyCommands
from ...options import connection_options, namespace_options

ENTRIES: Final[Mapping[str, Entry]] = {
    "set-limits": Entry("plan.plans:set_limits", "Replace the limits of a plan; make the plan if it is new."),
    "show": Entry("plan.plans:show", "Show the limits of a plan, and how many entities have it."),
    "delete-limits": Entry("plan.plans:delete_limits", "Delete the limits of a plan on a resource, or on all."),
    "list": Entry("plan.plans:list_plans", "List the plans, and how many entities have each."),
}


@click.group(cls=LazyCommands, entries=ENTRIES)
@connection_options
@namespace_options
@debug_option
def plan() -> None:
    """Manage plans: limits that many entities have. `limits plan` shows what an apply would change."""
