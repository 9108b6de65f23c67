"""A lease: more consumption, corrections, and the way back.

Lives here: what happens to a grant in its block and behind it. Never: the first acquire (acquire).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from ...exceptions import LeaseExpiredError, RateLimitExceeded, ValidationError
from ...limits import MILLI, check_amounts
from ...operations.errors import BudgetSpent, StoreError
from ...resolution import Config
from ..process.bucket_queue import Entry, Lane
from ..process.namespace_state import Scope
from ..process.queueing import queue, take_back
from ..steps import Flow
from .acquire import first_error, how_they_stood, let_through, refuse_by_copies
from .claims import Grant, Side
from .shard_selection import spread


class _Place(NamedTuple):
    """A shard, and among how many it was one."""

    lane: Lane
    shards: int


def check_open(grant: Grant) -> None:
    """Raises ``LeaseExpiredError`` behind the block."""
    if not grant.open:
        raise LeaseExpiredError(grant.request.entity_id, grant.request.resource)


def checked(grant: Grant, field: str, amounts: Mapping[str, int], *, signed: bool = False) -> dict[str, int]:
    """The amounts in millitokens. Raises ``ValidationError`` for a bad amount, or a limit that the lease has not."""
    check_open(grant)
    milli = check_amounts(field, amounts, signed=signed)
    known = sorted({name for side in grant.sides for name in side.config.by_name})
    for name in milli:
        if grant.sides and name not in known:
            raise ValidationError(field, name, f"no such limit in this lease: there are {', '.join(known)}")
    return milli


def adjust(grant: Grant, field: str, amounts: Mapping[str, int]) -> None:
    """Remember corrections for the end of the block. Raises ``ValidationError`` where less than 0 would be left."""
    milli = checked(grant, field, amounts, signed=True)
    with grant.lock:
        check_open(grant)
        for name, amount in milli.items():
            held = grant.consumed.get(name, 0)
            if held + amount < 0:
                problem = f"the lease holds {held // MILLI}: no more can go back"
                raise ValidationError(field, f"{name}={amount // MILLI}", problem)
        grant.consumed = _sum(grant.consumed, milli)
        grant.corrections = _sum(grant.corrections, milli)


def release(grant: Grant, amounts: Mapping[str, int]) -> None:
    """Remember what is given back at the end of the block."""
    checked(grant, "release", amounts)
    adjust(grant, "release", {name: -amount for name, amount in amounts.items()})


def consume(scope: Scope, grant: Grant, amounts: Mapping[str, int]) -> Flow[None]:
    """Take more, at once, from the same buckets: from all of them or none. Raises as ``acquire`` does.

    What is taken behind the end of the block goes back, and ``LeaseExpiredError`` is raised.
    """
    error: StoreError | None
    try:
        error = yield from _take_more(scope, grant, amounts)
    except BudgetSpent as late:
        error = late
    if error is not None:
        yield from _go_uncounted(scope, grant, amounts, error)


def _take_more(scope: Scope, grant: Grant, amounts: Mapping[str, int]) -> Flow[StoreError | None]:
    """Why the store could not be asked, if it could not. Raises ``RateLimitExceeded`` where the tokens are short."""
    mine = [side for side in grant.sides if amounts.keys() & side.config.by_name.keys()]
    more = [_for_amounts(side, amounts) for side in mine]
    refuse_by_copies(scope, more)
    yield from queue([side.enter() for side in more])
    yield from spread(scope, more)
    entries = [entry for side in more for entry in side.last]
    if all(side.admitted for side in more) and _joins(grant, mine, more, amounts):
        return None
    yield from take_back(entries, uncounted=True)
    check_open(grant)
    if any(entry.outcome is not None and entry.outcome.verdict == "outdated" for entry in entries):
        raise ValidationError("consume", [*amounts], "no longer limits of this bucket: acquire again")
    error = first_error(more)
    if error is None:
        raise RateLimitExceeded((yield from how_they_stood(scope, more)))
    return error


def _go_uncounted(scope: Scope, grant: Grant, amounts: Mapping[str, int], error: StoreError) -> Flow[None]:
    """What could not be taken goes uncounted, where that is wanted. Raises as ``let_through``."""
    yield from let_through(scope, grant.request, error)
    with grant.lock:
        check_open(grant)
        grant.unavailable = error
        grant.consumed = _sum(grant.consumed, amounts)
        grant.uncounted = _sum(grant.uncounted, amounts)


def _joins(grant: Grant, mine: Sequence[Side], more: Sequence[Side], amounts: Mapping[str, int]) -> bool:
    """Whether what was taken belongs to the lease from now on: its block has not ended meanwhile."""
    with grant.lock:
        if grant.open:
            for side, part in zip(mine, more, strict=True):
                side.entries += part.last
            grant.consumed = _sum(grant.consumed, amounts)
        return grant.open


def correct(scope: Scope, grant: Grant) -> Flow[None]:
    """Write what was adjusted and released, one write a shard. Without the store it does as ``acquire`` does."""
    corrections = {name: _written(grant, name, amount) for name, amount in grant.corrections.items()}
    made = [(side, entry) for side in grant.sides for entry in _corrections(side, corrections)]
    error: StoreError | None
    try:
        yield from queue([entry for _, entry in made])
        made += [(side, _at_home(side, entry)) for side, entry in made if entry.unchecked and _is_homeless(entry)]
        yield from queue([entry for _, entry in made if entry.outcome is None])
        error = _first_error(entry for _, entry in made)
    except BudgetSpent as late:  # they stay in their queues, and are written when the store answers
        error = late
    if error is not None:
        yield from let_through(scope, grant.request, error)
        grant.unavailable = error


def roll_back(grant: Grant) -> Flow[None]:
    """Give back all that the lease took; corrections are dropped. What takes too long is left to its queue."""
    with suppress(BudgetSpent):
        yield from take_back([entry for side in grant.sides for entry in side.entries], uncounted=False)


def _written(grant: Grant, name: str, amount: int) -> int:
    """What a correction changes in the store: what was let through uncounted is not there to be given back."""
    return amount if amount > 0 else min(0, amount + grant.uncounted.get(name, 0))


def _for_amounts(side: Side, amounts: Mapping[str, int]) -> Side:
    known = {name: amount for name, amount in amounts.items() if name in side.config.by_name}
    return replace(side, amounts=known, stale=False, seen=(), entries=[], last=())


def _corrections(side: Side, corrections: Mapping[str, int]) -> list[Entry]:
    """One for each shard that is corrected: it gets back no more than was taken from it, while others were, too."""
    parts: dict[_Place, dict[str, int]] = {}
    for name, amount in corrections.items():
        if name in side.config.by_name:
            for place, part in _divided(name, amount, _taken(side)):
                parts.setdefault(place, {})[name] = part
    return [_correction(place, amounts, side.config) for place, amounts in parts.items()]


def _correction(place: _Place, amounts: Mapping[str, int], config: Config) -> Entry:
    unchecked = {name: amount for name, amount in amounts.items() if amount > 0}
    given = {name: -amount for name, amount in amounts.items() if amount < 0}
    return Entry(place.lane, unchecked=unchecked, given=given, config=config, shards=place.shards)


def _is_homeless(entry: Entry) -> bool:
    """Whether the bucket no longer has the shard: it began anew with fewer."""
    return entry.outcome is not None and entry.outcome.verdict == "outdated"


def _at_home(side: Side, entry: Entry) -> Entry:
    """What was to be taken from a shard that is gone."""
    return Entry(side.shadow.lane, unchecked=entry.unchecked, config=entry.config)


def _divided(name: str, amount: int, taken: Mapping[_Place, Mapping[str, int]]) -> Iterator[tuple[_Place, int]]:
    """More is taken from the shard that was consumed first; what comes back goes to where it was taken."""
    first, *others = taken
    for place in others if amount < 0 else ():
        part = min(-amount, taken[place].get(name, 0))
        amount += part
        if part:
            yield place, -part
    if amount:
        yield first, amount


def _taken(side: Side) -> dict[_Place, dict[str, int]]:
    """What stands of each shard, the one that was consumed first in front; the target where none was."""
    taken: dict[_Place, dict[str, int]] = {}
    for entry in side.entries:
        if entry.admitted:
            place = _Place(entry.lane, entry.taken_among)
            before = taken.get(place, {})
            taken[place] = {**before, **{name: before.get(name, 0) + n for name, n in entry.checked.items()}}
    return taken or {_Place(side.target.lane, 0): {}}


def _first_error(entries: Iterable[Entry]) -> StoreError | None:
    outcomes = (entry.outcome for entry in entries)
    return next((outcome.error for outcome in outcomes if outcome is not None and outcome.error is not None), None)


def _sum(totals: Mapping[str, int], amounts: Mapping[str, int]) -> Mapping[str, int]:
    return {name: totals.get(name, 0) + amounts.get(name, 0) for name in {**totals, **amounts}}
