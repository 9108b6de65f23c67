"""What lives here: what plans and applies ask of the table, counted in memory, as a table of the docs.
What never does: a time.
"""

from collections.abc import Iterator

from zae_limiter.engines.meter import Meter
from zae_limiter.testing import ManualClock
from zae_limiter_manifest import LimitsManifest, Request
from zae_limiter_provisioner.actions import perform
from zae_limiter_provisioner.table import Table

from .declared import many
from .spread_memory import SyncSpreadMemoryStore, spread_table

HEAD = "| what | requests | read units | write units | on indexes |\n|---|---|---:|---:|---:|"


def table() -> str:
    """The rows, as Markdown."""
    return "\n".join([HEAD, *(_row(what, meter) for what, meter in _cases())])


def _cases() -> Iterator[tuple[str, Meter]]:
    meter, clock = Meter(), ManualClock()  # which stands still: an apply has one checkpoint
    store = SyncSpreadMemoryStore(spread_table(meter))
    for count in (10, 1_000):
        steps = {
            "plan, all to create": ("plan", many(count)),
            "apply, all to create": ("apply", many(count)),
            "plan, nothing to do": ("plan", many(count)),
            "apply, nothing to do": ("apply", many(count)),
            "diff, nothing to do": ("diff", many(count)),
            "apply, 1 limit changed": ("apply", _one_changed(count)),
            "apply, 1 deleted": ("apply", many(count - 1)),
            "apply, the rest deleted": ("apply", LimitsManifest("tenant-alpha")),
        }
        for what, (action, wanted) in steps.items():
            meter.reset()
            assert not perform(Table(store, "costs", clock=clock), Request.of(action, wanted)).errors  # type: ignore[arg-type]
            yield f"{count:,} entities: {what}", meter.snapshot()


def _one_changed(count: int) -> LimitsManifest:
    """The same but for the last entity's: the one that is deleted next."""
    plain = many(count).to_dict()
    limits = plain["entities"][max(plain["entities"])]["resources"]["gpt-4"]["limits"]
    limits["rpm"] = {"capacity": 11}
    return LimitsManifest.from_dict(plain)


def _row(what: str, meter: Meter) -> str:
    requests = ", ".join(f"{number} {name}" for name, number in sorted(meter.requests.items()))
    units = (meter.read_units, meter.write_units, meter.index_units)
    return f"| {what} | {requests} | {' | '.join(f'{each:,.6g}' for each in units)} |"
