"""The group `zae-limiter usage`, and the list of its commands."""

from collections.abc import Mapping
from typing import Final

import click

from ...errors import debug_option
from ...lazy import Entry, LazyCommands
from ...options import connection_options, namespace_options

ENTRIES: Final[Mapping[str, Entry]] = {
    "list": Entry("usage.windows:list_usage", "List the consumption of each window."),
    "summary": Entry("usage.windows:summary", "Sum up the consumption by limit."),
    "export": Entry("usage.export:export", "Write the usage of a month as CSV, JSON or Parquet."),
    "cost": Entry("usage.cost:cost", "Estimate what the limiter itself costs, by tenant."),
    "near": Entry("usage.near:near", "List who is close to a limit, and how long it lasts at this rate."),
    "top": Entry("usage.top:top", "List the entities with the most refusals or consumption."),
}


@click.group(cls=LazyCommands, entries=ENTRIES)
@connection_options
@namespace_options
@debug_option
def usage() -> None:
    """Show what entities consumed and how often they were refused, by hour and by day, as the aggregator counted."""
