"""Entries into their lanes, and what they took back again.

Lives here: who waits for whom, and one give-back for many. Never: what a lane does with them (commit).
"""

from collections.abc import Iterable, Sequence

from ..steps import Flow, Parallel, Queued
from .bucket_queue import Entry, Lane, Ticket


def queue(tickets: Sequence[Ticket]) -> Flow[None]:
    """Have the tickets settled, all at once."""
    if len(tickets) == 1:
        yield Queued(tickets[0])
    elif tickets:
        yield Parallel(tuple(Queued(ticket) for ticket in tickets))


def take_back(entries: Iterable[Entry], *, uncounted: bool) -> Flow[None]:
    """Give back what the entries took, in one write a shard; an entry of which nothing stands is passed over.

    What is ``uncounted`` was no acquire at all: it leaves the count of those that were admitted.
    """
    given: dict[tuple[Lane, int], Entry] = {}
    for entry in entries:
        if entry.admitted and any(entry.checked.values()):
            back = entry.give_back(events=-entry.events if uncounted else 0)
            place = back.lane, back.shards
            given[place] = given[place].merged(back) if place in given else back
    yield from queue(list(given.values()))
