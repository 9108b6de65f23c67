"""`zae-limiter usage cost`."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from ...data.tree import every_record
from ...errors import CommandError
from ...options import FiniteRange, OutputForm, connected, in_namespace, output_option
from ...paging import every_row, open_namespace, rows_option, say_more
from .options import month_option, snapshots_of

if TYPE_CHECKING:
    from zae_limiter import SyncRepository

    from ...connection import Connection
    from ...usage.cost import Load, TenantOf, Units
    from ...usage.month import Month

    By = Literal["parent", "entity", "resource", "namespace"]


@click.command(short_help="Estimate what the limiter itself costs, by tenant.")
@connected
@in_namespace
@month_option
@click.option(
    "--by",
    type=click.Choice(["parent", "entity", "resource", "namespace"]),
    default="parent",
    show_default=True,
    help="What a tenant is: an entity with its children, an entity, a resource, or a namespace of the table.",
)
@click.option(
    "--writes-per-acquire",
    type=FiniteRange(min=0, max=100),
    default=1.0,
    show_default=True,
    help="Writes of an acquire: 2 if calls settle, less than 1 if calls share writes.",
)
@click.option("--processes", type=click.IntRange(min=1), default=1, show_default=True, help="Processes that acquire.")
@click.option(
    "--batch-window", type=click.IntRange(min=0, max=300), default=2, show_default=True, help="That of the aggregator."
)
@click.option("--prices", "price_file", type=click.Path(path_type=Path, dir_okay=False), help="JSON file with prices.")
@rows_option
@output_option
def cost(
    *,
    connection: "Connection",
    namespace: str,
    month: str | None,
    by: "By",
    writes_per_acquire: float,
    processes: int,
    batch_window: int,
    price_file: Path | None,
    rows: int,
    output: OutputForm,
) -> None:
    """Estimate what the limiter itself costs in a month, by tenant and in total, in US dollars.

    Acquires are counted. Units are estimated from them, and prices are those of us-east-1 unless --prices names a file.
    It reads the daily usage of everybody, and with --by parent all records.
    """
    from ...stack.facts import facts_of
    from ...usage.cost import Load, fixed_costs
    from ...usage.cost_showing import Bill
    from ...usage.month import Month
    from ...usage.prices import KNOWN, Prices

    if connection.file is not None:
        raise CommandError("a file costs nothing by the request: `usage cost` is for a stack, pass --name")
    prices = KNOWN if price_file is None else Prices.read(price_file)
    chosen, load = Month.of(month, datetime.now(UTC)), Load(writes_per_acquire, processes, batch_window)
    with open_namespace(connection, namespace) as repository:
        tenants = _tenants(repository, by, chosen, load)
    facts = facts_of(connection)
    fixed = fixed_costs(
        prices,
        chosen.elapsed,
        table_bytes=facts.table_bytes,
        backups=facts.backups,
        aggregator=facts.aggregator,
        alarms=facts.alarms,
    )
    bill = Bill(str(chosen), by, tenants, fixed, facts.unknown, prices, load)
    bill.show(output, rows)
    if output == "table" and len(tenants) > rows:
        say_more("tenants")


def _tenants(repository: "SyncRepository", by: "By", month: "Month", load: "Load") -> dict[str, "Units"]:
    from ...usage.cost import add_snapshots

    tenants: dict[str, Units] = {}
    for each in _namespaces(repository) if by == "namespace" else (repository,):
        snapshots = every_row(snapshots_of(each, None, None, "daily", month))
        add_snapshots(tenants, snapshots, _tenant_of(each, by), load)
    return tenants


def _namespaces(repository: "SyncRepository") -> Iterator["SyncRepository"]:
    for each in repository.list_namespaces():
        yield repository.namespace(each.name)


def _tenant_of(repository: "SyncRepository", by: "By") -> "TenantOf":
    if by == "parent":
        parents = {each.entity_id: each.parent_id for each in every_record(repository)}
        return lambda snapshot: parents.get(snapshot.entity_id) or snapshot.entity_id
    if by == "entity":
        return lambda snapshot: snapshot.entity_id
    return lambda snapshot: snapshot.resource if by == "resource" else repository.name
