"""The lines of a kept trace: what the writes to buckets did, as the table's stream has it.

A line is a JSON object of some writes, in any order: ``limits`` has names of limits, ``buckets`` pairs of an entity and
a resource, and ``writes`` a list for each write, with the time in epoch ms, the mark, the place of its bucket among
these, the acquires admitted, those refused, how many of these an ancestor refused, 1 for the first write of a new
bucket, and a list with the millitokens that were taken of each of the limits, below 0 if they came back.

A trace has millions of writes: a line is checked column by column, not write by write.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple
from zlib import crc32

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


class TracePage(NamedTuple):
    """A line of a trace: some writes, in any order, perhaps some of them twice. Each write is a ``TracedWrite``."""

    limits: tuple[str, ...]
    buckets: Sequence[BucketName]
    writes: list[Any]


def is_traced(entity_id: str, permille: int) -> bool:
    """Return whether an entity is among so many of a thousand: the same ones always, and with more of them no other."""
    return crc32(entity_id.encode()) % 1000 < permille


def traced_write(
    at_ms: int, mark: str, place: int, used: Consumption, limits: Sequence[str], *, is_new: bool = False
) -> TracedWrite:
    """Return what a write to a bucket did, of these limits."""
    refused = _calls(used.acquires.get(REFUSED, 0))
    return TracedWrite(
        at_ms,
        mark,
        place,
        _calls(used.acquires.get(ACQUIRES, 0)),
        refused,
        min(refused, _calls(sum(used.refused_by.values()))),
        int(is_new),
        [used.tokens.get(name, 0) * MILLI + used.rests.get(name, 0) for name in limits],
    )


def trace_line(page: TracePage) -> str:
    """Return a page as a line."""
    return json.dumps(page._asdict(), separators=(",", ":")) + "\n"


def read_trace(text: str) -> list[TracePage]:
    """Return the pages of lines. Raises ``ValueError`` with the number of a line that is none of a trace."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if line and not line.isspace():
            try:
                found.append(_page(json.loads(line, parse_constant=_no_number)))
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
                raise ValueError(f"line {number} is no line of a trace: {why}") from error
    return found


def _page(line: Mapping[str, Any]) -> TracePage:
    if not isinstance(line, dict):
        raise TypeError("it is no object")
    limits, writes = line["limits"], line["writes"]
    if not (isinstance(limits, list) and all(isinstance(name, str) for name in limits)):
        raise ValueError("limits is no list of names")
    buckets = [*map(tuple, line["buckets"])]
    if not (set(map(len, buckets)) <= {2} and set(map(type, chain.from_iterable(buckets))) <= {str}):
        raise ValueError("buckets is no list of pairs of an entity and a resource")
    if not isinstance(writes, list):
        raise ValueError("writes is no list")
    if writes:
        _check(list(zip(*writes, strict=True)), len(buckets), len(limits))
    return TracePage(tuple(limits), buckets, writes)


def _check(columns: Sequence[Sequence[Any]], buckets: int, limits: int) -> None:
    """Check all writes of a page. Raises ``ValueError``, ``TypeError``."""
    if len(columns) != len(TracedWrite._fields):
        raise ValueError("a write has not as many values as it should")
    marks, amounts = columns[1], columns[-1]
    numbers = (columns[0], *columns[2:-1])
    if set(map(type, marks)) != {str} or any(set(map(type, column)) != {int} for column in numbers):
        raise ValueError("a value of a write is of another type")
    for column, end in zip(numbers, (END_OF_TIME_MS, buckets, *[MOST_CALLS + 1] * 3, 2), strict=True):
        if not (min(column) >= 0 and max(column) < end):
            raise ValueError("a write has a place, a time or a count that cannot be")
    if set(map(len, amounts)) != {limits} or not set(map(type, chain.from_iterable(amounts))) <= {int}:
        raise ValueError("a write has not one whole number for each of the limits")


def _calls(counted: int) -> int:
    """Return a number that ``read_trace`` admits: whoever may write a bucket may damage its counts."""
    return min(max(0, counted), MOST_CALLS)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")
