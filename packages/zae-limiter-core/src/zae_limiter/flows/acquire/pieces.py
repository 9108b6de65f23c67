"""A stream takes its tokens piece by piece: what it has used of what its lease holds, and how much it takes next.

What is taken ahead is unused until it flows, so the end of the block gives the rest back, whenever it comes: a lease
stands for what has flowed. Amounts are millitokens by limit.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from ...exceptions import ValidationError
from ...values.limits import MILLI
from ...values.refusal import RateLimitExceeded
from ...values.token_usage import TokenUsage
from .claims import Grant
from .lease import check_open, note_correction, slot_names, taken_of, weighed

if TYPE_CHECKING:
    from decimal import Decimal

MOST_TIMES: Final = 1_000_000  # the first size, and no whole number becomes too long


def begin(grant: Grant, names: Collection[str]) -> None:
    """Note the limits whose tokens a stream takes by pieces. Raises ``ValidationError`` if another one does, which
    settles the lease for what it has counted.

    What flows counts in each try of an idempotency key, so a repeat holds nothing of them yet.
    """
    with grant.lock:
        check_open(grant)
        if twice := grant.flowing.intersection(names):
            problem = "have Pieces of this lease: count both streams with these, or acquire a lease for each stream"
            raise ValidationError("sizes", sorted(twice), problem)
        grant.flowing = grant.flowing.union(names)
        if of_key := {name: amount for name, amount in grant.of_key.items() if name in names}:
            nothing, taken = dict.fromkeys(of_key, 0), taken_of(grant)
            grant.consumed = {**grant.consumed, **{name: taken[name] - amount for name, amount in of_key.items()}}
            grant.corrections, grant.of_key = {**grant.corrections, **nothing}, {**grant.of_key, **nothing}


def sizes_of_draw(grant: Grant, sizes: "Mapping[str, int | Decimal]") -> "dict[str, int | Decimal]":
    """Return the sizes of the pieces that a draw takes with its lease: what the acquire took of a limit, unless given.

    Left out are limits that have pieces already, and slots.
    """
    names = grant.consumed.keys() - grant.flowing
    own = {name: max(1, taken_of(grant)[name] // MILLI) for name in names.difference(slot_names(grant, names))}
    return {**own, **{name: sizes[name] for name in own if name in sizes}}


def priced(grant: Grant, usage: TokenUsage) -> dict[str, int]:
    """Return what a usage costs a draw, by its price and its weights. Raises what its ``by_usage`` raises."""
    return weighed(grant, "reach", {}, usage) if grant.request.by_usage is not None or grant.weights else {}


def advance(grant: Grant, used: Mapping[str, int]) -> dict[str, int]:
    """Settle a lease for what its stream has used in all. Return what it lacks for that: then nothing has changed.
    Raises ``LeaseExpiredError``.
    """
    with grant.lock:
        check_open(grant)
        taken = taken_of(grant)
        missing = {name: amount - taken.get(name, 0) for name, amount in used.items() if amount > taken.get(name, 0)}
        if not missing:
            note_correction(grant, {name: amount - grant.consumed.get(name, 0) for name, amount in used.items()})
            grant.settled |= used.keys()
        return missing


class Sizes:
    """How much a stream takes at once: the size of a piece by limit, ``growth`` times as much each time, and at most
    ``most`` times the first size.
    """

    def __init__(self, sizes: Mapping[str, int], growth: float, most: float) -> None:
        for name, size in sizes.items():
            if size < MILLI:
                raise ValidationError("sizes", {name: size // MILLI}, "a piece has at least one token")
        if not sizes:
            raise ValidationError("sizes", {}, "name the tokens of a piece by limit, like {'tpm': 500}")
        for field, factor in (("growth", growth), ("most", most)):
            if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor <= MOST_TIMES:
                raise ValidationError(field, factor, f"must be a number from 1 to {MOST_TIMES}")
        self._sizes, self._growth, self._most = sizes, growth, most
        self._times = 1.0
        self._was_short = False

    @property
    def names(self) -> frozenset[str]:
        """The limits that have pieces."""
        return frozenset(self._sizes)

    def next(self, missing: Mapping[str, int]) -> dict[str, int]:
        """Return the whole pieces that have what is missing."""
        sizes = {name: int(self._sizes[name] * self._times) // MILLI * MILLI for name in missing}
        return {name: -(-amount // sizes[name]) * sizes[name] for name, amount in missing.items()}

    def took(self) -> None:
        """Note that whole pieces were there: the next ones may be larger."""
        self._times, self._was_short = min(self._times * self._growth, self._most), False

    def rest(self, refusal: RateLimitExceeded, asked: Mapping[str, int], missing: Mapping[str, int]) -> dict[str, int]:
        """Return what is left of refused pieces, if it has what is missing; empty where the stream is to end.

        Of two refusals in a row the second one ends it: a stream that is faster than its limit would ask without end.
        """
        if self._was_short:
            return {}
        self._was_short = True
        left = dict(asked)
        for status in refusal.statuses:
            if status.limit_name in left and not status.limit.shadow:
                left[status.limit_name] = min(left[status.limit_name], max(0, status.available) * MILLI)
        enough = all(left[name] >= amount for name, amount in missing.items())
        return left if enough and left != asked else {}
