"""Show what the limiter costs, and what of it is counted and what estimated."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from shutil import get_terminal_size
from typing import Any, Final

import click

from ..columns import say_columns, say_json, say_wrapped
from ..options import OutputForm
from ..rates import amount
from .cost import Load, Units, sum_of
from .month import Month
from .prices import Prices
from .spending import Spending

HEAD: Final = ("ADMITTED", "REFUSED", "WRITES", "READS", "USD")
COUNTED: Final = (
    "counted: admitted and refused acquires, each once however many levels it takes from; one that draws on further"
    " buckets, not a run's, once more at each, and one that its overflow refused, too, twice; as far as the aggregator"
    " has counted"
)
LEAST_WIDTH: Final = 40


@dataclass(frozen=True, slots=True)
class Bill:
    """A month's or a day's units and spending by tenant, and the dollars that belong to no tenant."""

    month: Month
    by: str
    tenants: Mapping[str, Units]
    spent: Spending
    fixed: Mapping[str, float]
    unknown: tuple[str, ...]
    prices: Prices
    load: Load

    def show(self, output: OutputForm, rows: int) -> None:
        """Print the dearest tenants, the total of all, and how it was found."""
        if output == "json":
            say_json(self._plain())
            return
        spent, nothing = self.spent, Counter[str]()
        cells = [
            (name, *self._cells(units), *self._money(spent.tenants.get(name, nothing)))
            for name, units in self._dearest()[:rows]
        ]
        total = ("total", *self._cells(sum_of(self.tenants.values())), *self._money(spent.total))
        say_columns([(self.by.upper(), *HEAD, *(f"SPENT {name}" for name in sorted(spent.units))), *cells, total])
        click.echo()
        for line in self._notes():
            say_wrapped([("-", line)], width=max(LEAST_WIDTH, get_terminal_size().columns))

    def _money(self, spent: Counter[str]) -> tuple[str, ...]:
        return tuple(amount(spent[name], unit) for name, unit in sorted(self.spent.units.items()))

    def _dearest(self) -> list[tuple[str, Units]]:
        return sorted(self.tenants.items(), key=lambda each: (-each[1].dollars(self.prices), each[0]))

    def _cells(self, units: Units) -> tuple[str, ...]:
        writes = units.decision_writes + units.usage_writes
        counts = (units.admitted, units.refused, writes, units.limit_reads)
        return *(f"{count:,.0f}" for count in counts), f"{units.dollars(self.prices):,.4f}"

    def _notes(self) -> list[str]:
        fixed = ", ".join(f"{name} {dollars:,.2f}" for name, dollars in self.fixed.items())
        whole = sum(self.fixed.values()) + sum_of(self.tenants.values()).dollars(self.prices)
        so_far = "so far in the month" if self.month.day is None else "of the day"
        notes = [
            f"{COUNTED}, in {self.month}.",
            f"estimated: {self._assumed()}.",
            f"prices of {self.prices.of}, as of {self.prices.as_of}; --prices FILE takes others.",
        ]
        if fixed:
            notes.append(f"beside that, of no tenant, {so_far}: {fixed}. All together: ${whole:,.2f}.")
        return [*notes, *(f"not known: {why}" for why in self.unknown)]

    def _assumed(self) -> str:
        load = self.load
        processes = f"{load.processes} process{'' if load.processes == 1 else 'es'}"
        return (
            f"write units for an admitted acquire {load.writes_per_acquire:g}, for a refused one 0; at most those of"
            f" the aggregator, once in {max(1, load.batch_window)} s for each bucket in use; reads of limits, once a"
            f" minute and bucket for each of {processes}"
        )

    def _plain(self) -> dict[str, Any]:
        total = sum_of(self.tenants.values())
        of_all = total.dollars(self.prices)
        return {
            "month": f"{self.month.start:%Y-%m}",
            **({} if self.month.day is None else {"day": self.month.day}),
            "by": self.by,
            "tenants": [
                {"tenant": name, **self._figures(units), **self._spent(self.spent.tenants.get(name, Counter[str]()))}
                for name, units in self._dearest()
            ],
            "total": {**self._figures(total), **self._spent(self.spent.total)},
            "fixed_usd": {name: round(dollars, 6) for name, dollars in self.fixed.items()},
            "all_usd": round(of_all + sum(self.fixed.values()), 6),
            "unknown": list(self.unknown),
            "counted": ["admitted", "refused"],
            "estimated": ["decision_writes", "usage_writes", "limit_reads", "usd"],
            "assumed": asdict(self.load),
            "prices": asdict(self.prices),
        }

    def _spent(self, spent: Counter[str]) -> dict[str, Any]:
        """Return what was spent in millionths and for people; nothing where no limit is of money."""
        units = self.spent.units
        if not units:
            return {}
        money = {name: amount(spent[name], unit) for name, unit in units.items()}
        return {"spent": {name: spent[name] for name in units}, "money": money}

    def _figures(self, units: Units) -> dict[str, Any]:
        return {**asdict(units), "usd": round(units.dollars(self.prices), 6)}
