"""A lease: more consumption, corrections, and the way back.

Lives here: what happens to a grant in its block and behind it. Never: the first acquire (acquire).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..exceptions import LeaseExpiredError, RateLimitExceeded, ValidationError
from ..limits import MILLI, check_amounts
from ..operations.errors import StoreError
from .acquire import policy, queue, rules_out, take_back, unavailable
from .lane import Entry
from .scope import Scope
from .sides import Grant, Request, Side
from .statuses import statuses_before
from .steps import Flow


class Holding:
    """What a lease holds while its block runs: the grant, and corrections that wait for the end, in millitokens."""

    def __init__(self, grant: Grant, request: Request, *, rollback: bool) -> None:
        self.grant = grant
        self.request = request
        self.rollback = rollback
        self.open = True
        self.consumed: dict[str, int] = dict(request.amounts)
        self.corrections: dict[str, int] = {}

    def check_open(self) -> None:
        """Raises ``LeaseExpiredError`` behind the block."""
        if not self.open:
            raise LeaseExpiredError(self.request.entity_id, self.request.resource)

    def check(self, field: str, amounts: Mapping[str, int], *, signed: bool = False) -> dict[str, int]:
        """The amounts in millitokens. Raises ``ValidationError`` for a bad amount, or a limit that the lease has not."""
        self.check_open()
        milli = check_amounts(field, amounts, signed=signed)
        known = sorted({name for side in self.grant.sides for name in side.config.by_name})
        for name in milli:
            if self.grant.sides and name not in known:
                raise ValidationError(field, name, f"no such limit in this lease: there are {', '.join(known)}")
        return milli

    def note(self, milli: Mapping[str, int]) -> None:
        """More was consumed."""
        for name, amount in milli.items():
            self.consumed[name] = self.consumed.get(name, 0) + amount

    def adjust(self, field: str, amounts: Mapping[str, int]) -> None:
        """Remember corrections for the end of the block. Raises ``ValidationError`` where less than nothing would be left."""
        milli = self.check(field, amounts, signed=True)
        for name, amount in milli.items():
            if self.consumed.get(name, 0) + amount < 0:
                held = self.consumed.get(name, 0) // MILLI
                raise ValidationError(field, f"{name}={amount // MILLI}", f"the lease holds {held}: no more can go back")
        self.note(milli)
        for name, amount in milli.items():
            self.corrections[name] = self.corrections.get(name, 0) + amount

    def release(self, amounts: Mapping[str, int]) -> None:
        """Remember what is given back at the end of the block."""
        self.check("release", amounts)
        self.adjust("release", {name: -amount for name, amount in amounts.items()})


def consume(scope: Scope, holding: Holding, amounts: Mapping[str, int]) -> Flow[None]:
    """Take more, at once, from the same buckets: from all of them or none. Raises as ``acquire`` does."""
    grant = holding.grant
    mine = [side for side in grant.sides if amounts.keys() & side.config.by_name.keys()]
    more = [_for_amounts(side, amounts) for side in mine]
    if any(rules_out(scope, side) for side in more):
        raise RateLimitExceeded(statuses_before(more, scope.now()))
    entries = [side.enter() for side in more]
    yield from queue(entries)
    if all(entry.admitted for entry in entries):
        for side, entry in zip(mine, entries, strict=True):
            side.entries.append(entry)
        holding.note(amounts)
        return
    yield from take_back(entries, events=-1)
    error = _first_error(entries)
    if error is None:
        raise RateLimitExceeded(statuses_before(more, scope.now()))
    _without_store(scope, holding, error)
    holding.note(amounts)


def correct(scope: Scope, holding: Holding) -> Flow[None]:
    """Write what was adjusted and released, one write a bucket. Raises ``RateLimiterUnavailable`` as ``acquire`` does."""
    corrections = holding.corrections
    entries = [entry for side in holding.grant.sides if (entry := _correction(side, corrections)) is not None]
    yield from queue(entries)
    error = _first_error(entries)
    if error is not None:
        _without_store(scope, holding, error)


def roll_back(holding: Holding) -> Flow[None]:
    """Give back all that the lease took; corrections are dropped."""
    yield from take_back([entry for side in holding.grant.sides for entry in side.entries], events=0)


def _for_amounts(side: Side, amounts: Mapping[str, int]) -> Side:
    known = {name: amount for name, amount in amounts.items() if name in side.config.by_name}
    return replace(side, amounts=known, stale=False, entries=[])


def _correction(side: Side, corrections: Mapping[str, int]) -> Entry | None:
    amounts = {name: amount for name, amount in corrections.items() if amount and name in side.config.by_name}
    if not amounts:
        return None
    unchecked = {name: amount for name, amount in amounts.items() if amount > 0}
    given = {name: -amount for name, amount in amounts.items() if amount < 0}
    return Entry(side.shadow.lane, unchecked=unchecked, given=given, config=side.config)


def _first_error(entries: Iterable[Entry]) -> StoreError | None:
    outcomes = (entry.outcome for entry in entries)
    return next((outcome.error for outcome in outcomes if outcome is not None and outcome.error is not None), None)


def _without_store(scope: Scope, holding: Holding, error: StoreError) -> None:
    if policy(scope, holding.request.on_unavailable) == "block":
        raise unavailable(scope, error) from error
    holding.grant.unavailable = error
