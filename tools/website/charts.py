"""Draw the charts of the benchmarks from the tables of docs/benchmarks.md, which the same run has written."""

from collections.abc import Iterator, Mapping
from typing import Final

from .plot import BOTTOM, LEFT, RIGHT, Field, heading, legend, linear, logarithmic
from .redis import (
    CLIENTS,
    DECISIONS,
    DOLLARS_PER_MILLION_WRITE_UNITS,
    DOLLARS_PER_NODE_HOUR,
    FIGURES,
    HOURS_PER_MONTH,
    NODES,
    write_units,
)
from .svg import box, dot, line, picture, text
from .tables import measured, milliseconds, rows

CALLERS: Final = (1, 10, 100, 1000)
WHERE: Final = ("one bucket", "a bucket each")


def charts() -> dict[str, str]:
    """Return the text of each chart, by its file's name."""
    return {"latency.svg": latency(), "cpu.svg": cpu(), "writes.svg": writes(), "cost.svg": cost()}


def waits() -> dict[str, list[tuple[int, float, float]]]:
    """Return (callers, p50, p99) in milliseconds, by where the callers meet."""
    found = measured("latency")

    def of(callers: int, where: str, which: str) -> float:
        return milliseconds(found[f"{callers:,} caller{'s' * (callers > 1)}, {where}: {which}"])

    return {
        where: [(callers, of(callers, where, "p50"), of(callers, where, "p99")) for callers in CALLERS]
        for where in WHERE
    }


def latency() -> str:
    """Return the chart of how long callers wait for an acquire."""
    field, found = Field(logarithmic(0.8, 1300), logarithmic(1, 3000)), waits()

    def shapes() -> Iterator[str]:
        yield from heading("How long an acquire takes", "p50 to p99, against a server that takes 4 ms")
        yield from legend(["callers of one bucket", "callers with a bucket each"])
        yield from field.axes(
            {callers: f"{callers:,}" for callers in CALLERS}, {1: "1 ms", 10: "10 ms", 100: "100 ms", 1000: "1 s"}
        )
        for number, points in enumerate(found.values()):
            band = [field.at(callers, low) for callers, low, _ in points]
            band += [field.at(callers, high) for callers, _, high in reversed(points)]
            yield line([*band, band[0]], f"band s{number}")
            yield from field.curve([(callers, low) for callers, low, _ in points], number)
        yield text(240, BOTTOM + 36, "callers in one process", "small", anchor="middle")

    said = "; ".join(
        f"{where}: " + ", ".join(f"{callers:,} wait {low:g} to {high:g} ms" for callers, low, high in points)
        for where, points in found.items()
    )
    return picture("How long an acquire takes", 440, 300, shapes(), said)


def times() -> dict[str, dict[str, float]]:
    """Return the microseconds of CPU of a decision, by case and by client."""
    found = measured("peers_redis")
    return {
        name: {client: milliseconds(found[f"{case}: {row}"]) * 1000 for client, row in CLIENTS.items()}
        for name, case in FIGURES
    }


def cpu() -> str:
    """Return the chart of the client's CPU for a decision, beside clients of Redis."""
    found = times()
    widest = max(figure for each in found.values() for figure in each.values())

    def shapes() -> Iterator[str]:
        yield from heading("CPU of a decision on two limits", "microseconds of one core; async clients, uvloop, orjson")
        top = 68
        for name, figures in found.items():
            yield text(16, top, name)
            for number, (client, figure) in enumerate(figures.items()):
                y, width = top + 8 + number * 19, figure / widest * 150
                yield box(16, y, width, 14, f"bar s{number}")
                yield text(22 + width, y + 11, f"{figure:.3g}  {client}", "small")
            top += 104

    said = "; ".join(f"{name}: {_listed(figures, 'us')}" for name, figures in found.items())
    return picture("CPU of a decision, beside Redis", 440, 364, shapes(), said)


def _listed(figures: Mapping[str, float], unit: str) -> str:
    return ", ".join(f"{name} {figure:.3g} {unit}" for name, figure in figures.items())


LOADS: Final = (10, 30, 50, 80, 95, 200)


def admissions() -> dict[str, list[float]]:
    """Return the writes of each admission at each load, of one limit with a burst of a second, by processes."""
    return {row[2]: [float(cell) for cell in row[3:9]] for row in rows("model_writes") if row[:2] == ["1", "a second"]}


def writes() -> str:
    """Return the chart of the writes of each admission."""
    field, found = Field(linear(-0.4, 5.4), linear(0, 2.4)), admissions()

    def shapes() -> Iterator[str]:
        yield from heading("Writes of each admission", "one limit, a burst of a second; random arrivals")
        yield from legend([f"{processes} process{'es' * (processes != '1')}" for processes in found])
        yield from field.axes({place: f"{load}%" for place, load in enumerate(LOADS)}, {0: "0", 1: "1", 2: "2"})
        for number, figures in enumerate(found.values()):
            yield from field.curve([*enumerate(figures)], number)
        yield text(240, BOTTOM + 36, "offered load, of the limit's rate", "small", anchor="middle")

    said = "; ".join(
        f"processes: {processes}, writes "
        + ", ".join(f"{writes:g} at {load}%" for writes, load in zip(each, LOADS, strict=True))
        for processes, each in found.items()
    )
    return picture("Writes of each admission", 440, 300, shapes(), said)


SECONDS_PER_MONTH: Final = HOURS_PER_MONTH * 3600
SHORT: Final = ("one write", "reserve and settle", "with a project")


def dollars(name: str, per_second: float) -> float:
    """Return what a kind of decision costs in a month, at so many in each second."""
    return write_units(DECISIONS[name]) * DOLLARS_PER_MILLION_WRITE_UNITS * per_second * SECONDS_PER_MONTH / 1e6


def cost() -> str:
    """Return the chart of a month's price by decisions a second, beside that of Redis nodes."""
    field = Field(logarithmic(1, 300), logarithmic(1, 3000))
    nodes = {node: NODES * HOURS_PER_MONTH * hourly for node, hourly in DOLLARS_PER_NODE_HOUR.items()}
    each = {name: dollars(name, 1) for name in DECISIONS}

    def shapes() -> Iterator[str]:
        yield from heading("What a month costs", "dollars by decisions a second; dots are break-evens")
        yield from legend(SHORT)
        yield from field.axes({1: "1", 10: "10", 100: "100"}, {1: "$1", 10: "$10", 100: "$100", 1000: "$1,000"})
        labels = ((RIGHT, 15, "end"), (LEFT + 8, -6, "start"))  # where no line passes
        for (x, below, anchor), (node, price) in zip(labels, nodes.items(), strict=True):
            left, right = field.at(1, price), field.at(300, price)
            yield line([left, right], "limit")
            yield text(
                x, left[1] + below, f"{NODES} x {node.removeprefix('cache.')}: ${price:.0f}", "small", anchor=anchor
            )
        for number, one in enumerate(each.values()):
            yield line([field.at(1, one), field.at(300, one * 300)], f"line s{number}")
            yield from (dot(*field.at(price / one, price), f"dot s{number}") for price in nodes.values())
        yield text(240, BOTTOM + 36, "decisions a second, all day", "small", anchor="middle")

    said = "; ".join(
        f"{name}: as much as {NODES} x {node} at {price / one:.3g} decisions a second"
        for name, one in each.items()
        for node, price in nodes.items()
    )
    return picture("What a month costs, beside Redis", 440, 300, shapes(), said)
