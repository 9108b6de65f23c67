"""`zae-limiter usage cost`."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from ...behind import note_behind
from ...data.tree import MOST_DEPTH, above_at
from ...errors import CommandError
from ...options import FiniteRange, OutputForm, connected, in_namespace, output_option
from ...paging import every_row, open_namespace, rows_option, say_more
from .options import month_option, snapshots_of

if TYPE_CHECKING:
    from zae_limiter import SyncRepository

    from ...connection import Connection
    from ...usage.cost import Load, TenantOf, Units
    from ...usage.month import Month
    from ...usage.spending import Spending

    By = Literal["root", "entity", "resource", "namespace"]

MOST_LOOKED_AT: Final = 33  # buckets, for how far usage is counted: those of one read


@click.command(short_help="Estimate what the limiter itself costs, by tenant.")
@connected
@in_namespace
@month_option
@click.option("--day", metavar="DAY", help="Day in UTC in place of a month: yesterday, 2026-11-28.")
@click.option(
    "--by",
    type=click.Choice(["root", "entity", "resource", "namespace"]),
    default="root",
    show_default=True,
    help="What a tenant is: an entity with all below it, an entity, a resource, or a namespace of the table.",
)
@click.option(
    "--depth",
    type=click.IntRange(min=0, max=MOST_DEPTH),
    help="With --by root: levels below the root that a tenant is on.  [default: 0, the root]",
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
    day: str | None,
    by: "By",
    depth: int | None,
    writes_per_acquire: float,
    processes: int,
    batch_window: int,
    price_file: Path | None,
    rows: int,
    output: OutputForm,
) -> None:
    """Estimate what the limiter itself costs in a month or a day, by tenant and in total, in US dollars; beside it,
    what tenants spent of limits of money. `usage cost --day yesterday` is yesterday's bill.

    Acquires are counted. Units are estimated from them, and prices are those of us-east-1 unless --prices names a file.
    An acquire that cascades is one acquire, of the entity that was asked, and costs at every level. One with draws
    counts at each bucket that it draws on, too, but a run's, and one that its overflow refused as well at both
    resources: usage does not say that they are one call. With --by root an acquire goes to the entity at the top of the
    tree, or --depth levels below that; by first parents, where there are several. It reads the daily usage of
    everybody, and with --by root all records.
    """
    from ...stack.facts import facts_of
    from ...usage.cost import Load, fixed_costs
    from ...usage.cost_showing import Bill
    from ...usage.month import Day, Month
    from ...usage.prices import KNOWN, Prices

    if depth is not None and by != "root":
        raise CommandError(f"--depth is for --by root, not for --by {by}")
    if month is not None and day is not None:
        raise CommandError("--month and --day contradict each other: pass one of them")
    if connection.file is not None:
        raise CommandError("a file costs nothing by the request: `usage cost` is for a stack, pass --name")
    prices = KNOWN if price_file is None else Prices.read(price_file)
    now, load = datetime.now(UTC), Load(writes_per_acquire, processes, batch_window)
    chosen = Month.of(month, now) if day is None else Day.of(day, now)
    with open_namespace(connection, namespace) as repository:
        tenants, spent = _tenants(repository, by, chosen, load, depth or 0)
    facts = facts_of(connection)
    fixed = fixed_costs(
        prices,
        chosen.elapsed,
        table_bytes=facts.table_bytes,
        backups=facts.backups,
        aggregator=facts.aggregator,
        alarms=facts.alarms,
    )
    bill = Bill(chosen, by, tenants, spent, fixed, facts.unknown, prices, load)
    bill.show(output, rows)
    if output == "table" and len(tenants) > rows:
        say_more("tenants")


def _tenants(
    repository: "SyncRepository", by: "By", month: "Month", load: "Load", depth: int
) -> tuple[dict[str, "Units"], "Spending"]:
    """Return the units of each tenant, and what they spent of limits of money, which a cascade counts once."""
    from ...usage.cost import Units
    from ...usage.own import with_own
    from ...usage.spending import Spending

    tenants: dict[str, Units] = {}
    spent, busiest = Spending(), Counter[tuple[str, str]]()
    for each in _namespaces(repository) if by == "namespace" else (repository,):
        tenant_of = _tenant_of(each, by, depth)
        for snapshot, own in with_own(each, every_row(snapshots_of(each, None, None, "daily", month))):
            tenant = tenant_of(snapshot)
            tenants.setdefault(tenant, Units()).add(snapshot, own, load)
            spent.add(tenant, each, own)
            if each is repository:
                busiest[snapshot.entity_id, snapshot.resource] += snapshot.total_events + snapshot.total_refused
    note_behind(repository, [place for place, _ in busiest.most_common(MOST_LOOKED_AT)], month.end)
    return tenants, spent


def _namespaces(repository: "SyncRepository") -> Iterator["SyncRepository"]:
    for each in repository.list_namespaces():
        yield repository.namespace(each.name)


def _tenant_of(repository: "SyncRepository", by: "By", depth: int) -> "TenantOf":
    from ...usage.runs import payer_of

    if by == "root":
        above = above_at(repository, depth)
        return lambda snapshot: above(payer_of(snapshot))
    if by == "entity":
        return payer_of
    return lambda snapshot: snapshot.resource if by == "resource" else repository.name
