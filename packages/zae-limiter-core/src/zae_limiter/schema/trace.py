"""The lines of a kept trace: what the writes to buckets did, as the table's stream has it.

A line is a JSON object of one bucket: ``entity_id``, ``resource``, ``limits`` (names), and ``writes``, each a list of
the mark, the time in epoch ms, the acquires admitted, those refused, how many of these an ancestor refused, 1 for the
first write of a new bucket, and for each of the limits the millitokens that were taken, below 0 if they came back.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

from ..values.limits import MILLI
from ..values.naming import check_identifier, check_resource
from .attributes import ACQUIRES, REFUSED
from .changes import Consumption

TRACE_PREFIX: Final = "trace/"
"""Before the keys of a trace's objects: ``{prefix}{namespace id}/{hour}/{name}.jsonl.gz``, hours like 2026-03-02T08."""

MOST_CALLS: Final = 1_000_000
"""The most calls of one write: no process counts so many before it writes."""

END_OF_TIME_MS: Final = 253_402_300_800_000
"""The year 10000."""


class TracedWrite(NamedTuple):
    """A write to a bucket; ``amounts`` are in millitokens, one for each limit of its line.

    ``mark`` identifies the write, and sorts in the order of a shard's writes. ``refused`` acquires were refused since
    the write before, ``refused_above`` of them by a limit of an ancestor. ``is_new``: there was no such bucket before.
    """

    mark: str
    at_ms: int
    admitted: int
    refused: int
    refused_above: int
    is_new: int
    amounts: Sequence[int]


class TracedBucket(NamedTuple):
    """Some writes to one bucket, in any order, perhaps some of them twice."""

    entity_id: str
    resource: str
    limits: tuple[str, ...]
    writes: list[TracedWrite]


def is_traced(entity_id: str, permille: int) -> bool:
    """Return whether an entity is among so many of a thousand: the same ones always, and with more of them no other."""
    return crc32(entity_id.encode()) % 1000 < permille


def traced_write(
    mark: str, at_ms: int, used: Consumption, limits: Sequence[str], *, is_new: bool = False
) -> TracedWrite:
    """Return what a write to a bucket did, of these limits."""
    refused = _calls(used.acquires.get(REFUSED, 0))
    return TracedWrite(
        mark,
        at_ms,
        _calls(used.acquires.get(ACQUIRES, 0)),
        refused,
        min(refused, _calls(sum(used.refused_by.values()))),
        int(is_new),
        [used.tokens.get(name, 0) * MILLI + used.rests.get(name, 0) for name in limits],
    )


def _calls(counted: int) -> int:
    """Return a number that ``read_trace`` admits: whoever may write a bucket may damage its counts."""
    return min(max(0, counted), MOST_CALLS)


def trace_lines(buckets: Iterable[TracedBucket]) -> str:
    """Return a line for each of the buckets."""
    return "".join(
        json.dumps(
            {**bucket._asdict(), "writes": [[*write[:-1], *write.amounts] for write in bucket.writes]},
            separators=(",", ":"),
        )
        + "\n"
        for bucket in buckets
    )


def read_trace(text: str) -> list[TracedBucket]:
    """Return the buckets of lines. Raises ``ValueError`` with the number of a line that is none of a trace."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if line and not line.isspace():
            try:
                found.append(_bucket(json.loads(line, parse_constant=_no_number)))
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
                raise ValueError(f"line {number} is no line of a trace: {why}") from error
    return found


def _bucket(line: Mapping[str, Any]) -> TracedBucket:
    if not isinstance(line, dict):
        raise TypeError("it is no object")
    limits = line["limits"]
    if not (isinstance(limits, list) and all(isinstance(name, str) for name in limits)):
        raise TypeError("limits is no list of names")
    return TracedBucket(
        check_identifier("entity_id", line["entity_id"]),
        check_resource("resource", line["resource"]),
        tuple(limits),
        [_write(each, len(limits)) for each in line["writes"]],
    )


def _write(values: Sequence[Any], limits: int) -> TracedWrite:
    mark, at_ms, admitted, refused, above, is_new, *amounts = values
    if not (0 <= at_ms < END_OF_TIME_MS and 0 <= above <= refused <= MOST_CALLS and 0 <= admitted <= MOST_CALLS):
        raise ValueError("a write has a time or a count that cannot be")
    if len(amounts) != limits or type(mark) is not str or set(map(type, values[1:])) != {int}:
        raise ValueError("a write has not one whole number for each of the limits")
    return TracedWrite(mark, at_ms, admitted, refused, above, is_new, amounts)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")
