"""Write usage to a stream, row by row: a page of snapshots at a time is in memory.

In CSV and Parquet each count is a row of its own, because limits differ between resources and are known only at the
end. What calls of entities below took has kinds of its own, because it counts at the entity that was asked, too. So a
sum over rows of one kind that is not ``…_below`` counts nothing twice.
"""

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, NamedTuple, TypeAlias

from ..columns import envelope
from ..errors import CommandError
from ..skipped import document
from ..spreadsheet import write_rows
from ..times import iso
from .showing import plain_snapshot
from .units import NO_UNITS

if TYPE_CHECKING:
    from zae_limiter import UsageSnapshot

Parted: TypeAlias = "tuple[UsageSnapshot, UsageSnapshot]"  # all that was used, and the entity's own part of it
UnitsOf: TypeAlias = "Callable[[UsageSnapshot], Mapping[str, str]]"  # the currencies of what a snapshot used
ExportForm = Literal["csv", "json", "parquet"]

DECIMALS: Final = 6  # of money: millionths
DIGITS: Final = 25  # those of an int64, and decimals
ROWS_OF_A_GROUP: Final = 50_000  # of Parquet, some megabytes


class Row(NamedTuple):
    """One count of a snapshot: acquires ``admitted``, ``refused``, ``shadowed``, ``uncounted``, or ``refused_by`` a
    limit of an ancestor (``name``), or tokens ``consumed`` of a limit (``name``). With ``_below`` at its end, the kind
    is of calls of entities below. Of a limit of money the ``amount`` is in millionths, and ``money`` in its ``unit``.
    """

    namespace: str
    window: str
    window_start: str
    entity_id: str
    resource: str
    kind: str
    name: str
    amount: int
    unit: str = ""
    money: Decimal | None = None


def write(form: ExportForm, namespace: str, snapshots: Iterable[Parted], units_of: UnitsOf, to: BinaryIO) -> int:
    """Write snapshots, each with its own part, in a form, and return their number."""
    counted = _Counted(snapshots)
    WRITERS[form](namespace, counted, units_of, to)
    return counted.number


def rows_of(
    namespace: str, snapshot: "UsageSnapshot", own: "UsageSnapshot", units: Mapping[str, str] = NO_UNITS
) -> Iterator[Row]:
    """Yield each count of a snapshot; the first three of the acquires also if there were none."""
    place = namespace, snapshot.window, iso(snapshot.window_start), snapshot.entity_id, snapshot.resource
    yield Row(*place, "admitted", "", own.total_events)
    yield Row(*place, "refused", "", own.total_refused)
    yield Row(*place, "shadowed", "", own.total_shadowed)
    for kind, name in (("admitted", "total_events"), ("refused", "total_refused"), ("shadowed", "total_shadowed")):
        if below := getattr(snapshot, name) - getattr(own, name):
            yield Row(*place, f"{kind}_below", "", below)
    if own.total_uncounted:
        yield Row(*place, "uncounted", "", own.total_uncounted)
    for refuser, count in snapshot.refused_by.items():
        yield Row(*place, "refused_by", str(refuser), count)
    for limit, amount in snapshot.consumed.items():
        mine = own.consumed.get(limit, 0)
        if mine or mine == amount:
            yield Row(*place, "consumed", limit, mine, *_money(mine, units.get(limit, "")))
        if amount != mine:
            yield Row(*place, "consumed_below", limit, amount - mine, *_money(amount - mine, units.get(limit, "")))


def _money(amount: int, unit: str) -> tuple[str, Decimal | None]:
    """Return the unit of an amount, and the amount in it."""
    return (unit, Decimal(amount).scaleb(-DECIMALS)) if unit else ("", None)


def check_parquet() -> None:
    """Raise ``CommandError`` if the library that writes Parquet is missing."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise CommandError(
            "-o parquet needs pyarrow, which is missing: install the extra `export` of zae-limiter-cli, or pass -o csv"
        ) from None


class _Counted:
    """Counts what is taken from an iterable."""

    def __init__(self, snapshots: Iterable[Parted]) -> None:
        self._snapshots = snapshots
        self.number = 0

    def __iter__(self) -> Iterator[Parted]:
        for snapshot in self._snapshots:
            self.number += 1
            yield snapshot


def _rows(namespace: str, snapshots: Iterable[Parted], units_of: UnitsOf) -> Iterator[Row]:
    for snapshot, own in snapshots:
        yield from rows_of(namespace, snapshot, own, units_of(snapshot))


def _csv(namespace: str, snapshots: Iterable[Parted], units_of: UnitsOf, to: BinaryIO) -> None:
    text = io.TextIOWrapper(to, encoding="utf-8", newline="", write_through=True)
    try:
        write_rows(text, Row._fields, _rows(namespace, snapshots, units_of))
    finally:
        text.detach()  # who opened the stream closes it


def _json(namespace: str, snapshots: Iterable[Parted], units_of: UnitsOf, to: BinaryIO) -> None:
    """Write one document, with a line for each of its items."""
    head = json.dumps({**envelope(), "items": []}).removesuffix("]}").encode()
    before = head + b"\n"
    for snapshot, own in snapshots:
        consumed = {"consumed_below": _differences(snapshot.consumed, own.consumed)}
        below = max(snapshot.total_below, snapshot.total_events - own.total_events)  # the calls of a run, too
        plain = plain_snapshot(replace(snapshot, total_below=below), units_of(snapshot))
        to.write(before + json.dumps({"namespace": namespace, **plain, **consumed}).encode())
        before = b",\n"
    end = json.dumps({"": [], **document()}).removeprefix('{"": []').encode() + b"\n"  # known when all was read
    to.write((head + b"]" if before != b",\n" else b"\n]") + end)


def _differences(whole: Mapping[str, int], own: Mapping[str, int]) -> dict[str, int]:
    return {name: amount - own.get(name, 0) for name, amount in whole.items() if amount != own.get(name, 0)}


def _parquet(namespace: str, snapshots: Iterable[Parted], units_of: UnitsOf, to: BinaryIO) -> None:
    import pyarrow as arrow
    from pyarrow.parquet import ParquetWriter

    types = {"amount": arrow.int64(), "money": arrow.decimal128(DIGITS, DECIMALS)}
    schema = arrow.schema([(name, types.get(name, arrow.string())) for name in Row._fields])
    rows = _rows(namespace, snapshots, units_of)
    with ParquetWriter(to, schema) as writer:
        while group := list(islice(rows, ROWS_OF_A_GROUP)):
            columns = [list(column) for column in zip(*group, strict=True)]
            writer.write_table(arrow.table(columns, schema=schema))


WRITERS: Final[Mapping[ExportForm, Callable[[str, Iterable[Any], UnitsOf, BinaryIO], None]]] = {
    "csv": _csv,
    "json": _json,
    "parquet": _parquet,
}
