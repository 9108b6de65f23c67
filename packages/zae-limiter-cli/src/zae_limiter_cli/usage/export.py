"""Write usage to a stream, row by row: a page of snapshots at a time is in memory.

In CSV and Parquet each count is a row of its own, because limits differ between resources and are known only at the
end. So a sum over rows of one kind counts nothing twice.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, NamedTuple

from ..errors import CommandError
from ..times import iso
from .showing import plain_snapshot

if TYPE_CHECKING:
    from zae_limiter import UsageSnapshot

ExportForm = Literal["csv", "json", "parquet"]

ROWS_OF_A_GROUP: Final = 50_000  # of Parquet, some megabytes


class Row(NamedTuple):
    """One count of a snapshot: acquires ``admitted``, ``refused``, ``shadowed``, ``uncounted``, or ``refused_by`` a
    limit of an ancestor (``name``), or tokens ``consumed`` of a limit (``name``).
    """

    namespace: str
    window: str
    window_start: str
    entity_id: str
    resource: str
    kind: str
    name: str
    amount: int


def write(form: ExportForm, namespace: str, snapshots: Iterable["UsageSnapshot"], to: BinaryIO) -> int:
    """Write snapshots in a form, and return their number."""
    counted = _Counted(snapshots)
    WRITERS[form](namespace, counted, to)
    return counted.number


def rows_of(namespace: str, snapshot: "UsageSnapshot") -> Iterator[Row]:
    """Yield each count of a snapshot; the first three of the acquires also if there were none."""
    place = namespace, snapshot.window, iso(snapshot.window_start), snapshot.entity_id, snapshot.resource
    yield Row(*place, "admitted", "", snapshot.total_events)
    yield Row(*place, "refused", "", snapshot.total_refused)
    yield Row(*place, "shadowed", "", snapshot.total_shadowed)
    if snapshot.total_uncounted:
        yield Row(*place, "uncounted", "", snapshot.total_uncounted)
    for refuser, count in snapshot.refused_by.items():
        yield Row(*place, "refused_by", str(refuser), count)
    for limit, amount in snapshot.consumed.items():
        yield Row(*place, "consumed", limit, amount)


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

    def __init__(self, snapshots: Iterable["UsageSnapshot"]) -> None:
        self._snapshots = snapshots
        self.number = 0

    def __iter__(self) -> Iterator["UsageSnapshot"]:
        for snapshot in self._snapshots:
            self.number += 1
            yield snapshot


def _csv(namespace: str, snapshots: Iterable["UsageSnapshot"], to: BinaryIO) -> None:
    text = io.TextIOWrapper(to, encoding="utf-8", newline="", write_through=True)
    try:
        writer = csv.writer(text)
        writer.writerow(Row._fields)
        for snapshot in snapshots:
            writer.writerows(rows_of(namespace, snapshot))
    finally:
        text.detach()  # who opened the stream closes it


def _json(namespace: str, snapshots: Iterable["UsageSnapshot"], to: BinaryIO) -> None:
    """Write one array, a line for each snapshot."""
    before = b"[\n"
    for snapshot in snapshots:
        to.write(before + json.dumps({"namespace": namespace, **plain_snapshot(snapshot)}).encode())
        before = b",\n"
    to.write(b"[]\n" if before == b"[\n" else b"\n]\n")


def _parquet(namespace: str, snapshots: Iterable["UsageSnapshot"], to: BinaryIO) -> None:
    import pyarrow as arrow
    from pyarrow.parquet import ParquetWriter

    schema = arrow.schema([(name, arrow.int64() if name == "amount" else arrow.string()) for name in Row._fields])
    rows = (row for snapshot in snapshots for row in rows_of(namespace, snapshot))
    with ParquetWriter(to, schema) as writer:
        while group := list(islice(rows, ROWS_OF_A_GROUP)):
            columns = [list(column) for column in zip(*group, strict=True)]
            writer.write_table(arrow.table(columns, schema=schema))


WRITERS: Final[Mapping[ExportForm, Callable[[str, Iterable[Any], BinaryIO], None]]] = {
    "csv": _csv,
    "json": _json,
    "parquet": _parquet,
}
