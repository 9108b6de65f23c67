"""The lines of a kept trace: what the writes to buckets did, as the table's stream has it.

A line is a JSON object of some writes, in any order: ``limits`` has names of limits, and ``buckets`` pairs of an entity
and a resource. Each further name has a list, with a value for each write: ``at_ms`` the time in epoch ms, ``mark``,
``place`` that of its bucket among ``buckets``, ``admitted`` and ``refused`` the acquires, ``refused_above`` how many
of the latter an ancestor refused, ``is_new`` 1 for the first write of a new bucket. ``amounts`` has such a list for
each of the limits: the millitokens that were taken, below 0 if they came back.

A trace has millions of writes: in columns they are smaller, and are checked faster.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Final
from zlib import crc32

from ..runtime.named_tuple import NamedTuple
from ..values.limits import MILLI
from .attributes import ACQUIRES, REFUSED
from .changes import Consumption

TRACE_PREFIX: Final = "trace/"
"""Before the keys of a trace's objects: ``{prefix}{namespace id}/{hour}/{name}.jsonl.gz``, hours like 2026-03-02T08."""

MOST_CALLS: Final = 1_000_000
"""The most calls of one write: no process counts so many before it writes."""

END_OF_TIME_MS: Final = 253_402_300_800_000
"""The year 10000."""

BucketName = tuple[str, str]
"""An entity, and a resource."""


class TracedWrite(NamedTuple):
    """A write to the bucket at ``place`` of a page; ``amounts`` are in millitokens, one for each limit of the page.

    ``mark`` identifies the write, and sorts in the order of a shard's writes. ``refused`` acquires were refused since
    the write before, ``refused_above`` of them by a limit of an ancestor. ``is_new``: there was no such bucket before.
    """

    at_ms: int
    mark: str
    place: int
    admitted: int
    refused: int
    refused_above: int
    is_new: int
    amounts: Sequence[int]


COLUMNS: Final = TracedWrite._fields[:-1]


class TracePage(NamedTuple):
    """A line of a trace: some writes, in any order, perhaps some of them twice.

    Each write has the values of a ``TracedWrite``. For speed, one that was read is a plain tuple, the limits behind it.
    """

    limits: tuple[str, ...]
    buckets: Sequence[BucketName]
    writes: Sequence[tuple[Any, ...]]


def is_traced(entity_id: str, permille: int) -> bool:
    """Return whether an entity is among so many of a thousand: the same ones always, and with more of them no other."""
    return crc32(entity_id.encode()) % 1000 < permille


def traced_write(
    at_ms: int,
    mark: str,
    place: int,
    used: Consumption,
    limits: Sequence[str],
    *,
    entity_id: str = "",
    is_new: bool = False,
) -> TracedWrite:
    """Return what a write to a bucket of an entity did, of these limits."""
    refused = _calls(used.acquires.get(REFUSED, 0))
    return TracedWrite(
        at_ms,
        mark,
        place,
        _calls(used.acquires.get(ACQUIRES, 0)),
        refused,
        min(refused, _calls(sum(number for by, number in used.refused_by.items() if by.entity_id != entity_id))),
        int(is_new),
        [used.tokens.get(name, 0) * MILLI + used.rests.get(name, 0) for name in limits],
    )


def trace_line(page: TracePage) -> str:
    """Return a page, which has a write, as a line."""
    *columns, amounts = zip(*page.writes, strict=True)
    line = {"limits": page.limits, "buckets": page.buckets, **dict(zip(COLUMNS, columns, strict=True))}
    return json.dumps(line | {"amounts": [*zip(*amounts, strict=True)]}, separators=(",", ":")) + "\n"


def read_trace(text: str) -> list[TracePage]:
    """Return the pages of lines. Raises ``ValueError`` with the number of a line that is none of a trace."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if line and not line.isspace():
            try:
                found.append(_page(json.loads(line, parse_constant=_no_number)))
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
                raise ValueError(f"line {number} is not a line of a trace: {why}") from error
    return found


def _page(line: Mapping[str, Any]) -> TracePage:
    if not isinstance(line, dict):
        raise TypeError("it is not an object")
    limits, buckets = line["limits"], [*map(tuple, line["buckets"])]
    if not (isinstance(limits, list) and all(isinstance(name, str) for name in limits)):
        raise ValueError("limits is not a list of names")
    if not (set(map(len, buckets)) <= {2} and set(map(type, chain.from_iterable(buckets))) <= {str}):
        raise ValueError("buckets is not a list of pairs of an entity and a resource")
    columns = [line[name] for name in COLUMNS]
    number = len(columns[0])
    _check(columns, len(buckets))
    amounts = line["amounts"]
    if not (isinstance(amounts, list) and len(amounts) == len(limits)):
        raise ValueError("amounts has not a list for each of the limits")
    if any(len(column) != number for column in (*columns, *amounts)):
        raise ValueError("its lists are not of one length")
    if any(set(map(type, column)) - {int} for column in amounts):
        raise ValueError("an amount is not a whole number")
    each = zip(*amounts, strict=True) if amounts else repeat((), number)
    names = tuple(limits)
    return TracePage(names, buckets, [*zip(*columns, each, repeat(names, number), strict=True)])


def _check(columns: Sequence[Sequence[Any]], buckets: int) -> None:
    """Check the values of all writes of a page. Raises ``ValueError``, ``TypeError``."""
    at_ms, marks, *others = columns
    if set(map(type, marks)) - {str}:
        raise ValueError("a mark is not text")
    for column, end in zip((at_ms, *others), (END_OF_TIME_MS, buckets, *[MOST_CALLS + 1] * 3, 2), strict=True):
        if set(map(type, column)) - {int}:
            raise ValueError("a time, a place or a count is not a whole number")
        if column and not (min(column) >= 0 and max(column) < end):
            raise ValueError("a write has a time, a place or a count that cannot be")


def _calls(counted: int) -> int:
    """Return a number that ``read_trace`` admits: a principal that may write a bucket may damage its counts."""
    return min(max(0, counted), MOST_CALLS)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a number")
