# Generated from aio/pieces.py by `just variants`: edit that one.
"""A lease that takes more while tokens flow. The rules are in flows.acquire.pieces."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from ...exceptions import InfrastructureError, LeaseExpiredError, ValidationError
from ...flows.acquire import lease as leases
from ...flows.acquire import pieces
from ...flows.acquire.claims import Grant
from ...operations.values import sums
from ...sync.lease import SyncDrawLease, SyncLease
from ...values.limits import MILLI
from ...values.refusal import RateLimitExceeded
from ...values.token_usage import TokenUsage
from .turn import Turn

if TYPE_CHECKING:
    from decimal import Decimal

log = logging.getLogger(__name__)


class SyncPieces:
    """Takes the tokens of a stream piece by piece: count what flows before it is delivered, with ``add`` or ``reach``.

    ``sizes`` are the tokens of a piece by limit; what the acquire took is the first one. With ``growth`` each next
    piece is so many times as large, at most ``most`` times the first size. A stream of n tokens makes a request for
    each piece, and one for all that a part needs; others who count at the same time wait for it. Where a whole piece is
    refused, what is left is taken, once in a row.

    From here on the lease is kept, and from the first count on it is settled for what was counted: the end of its block
    gives the rest back, however it ends. A repeat of an idempotency key counts what flows, too.

    Draws that share the amounts of the call, and runs, count the same limits. A draw that goes by usage (``by_usage``,
    or weights) takes and counts what ``reach(usage)`` costs, in pieces of what the acquire took of it; give it a
    ``SyncPieces`` of its own for other sizes.

    A limit of a lease, or of a draw, has one ``SyncPieces``: a second raises ``ValidationError``. Raises
    ``LeaseExpiredError``.
    """

    def __init__(
        self,
        lease: SyncLease | SyncDrawLease,
        sizes: "Mapping[str, int | Decimal]",
        *,
        growth: float = 1.0,
        most: float = 16.0,
    ) -> None:
        self._lease = lease
        self._sizes = pieces.Sizes(leases.weighed(lease._grant, "sizes", sizes, None), growth, most)
        pieces.begin(lease._grant, self._sizes.names)
        self._given, self._growth, self._most = sizes, growth, most
        self._of_draws: list[SyncPieces] | None = None  # made with the first count: some may have pieces of their own
        self._used: Mapping[str, int] = {}
        self._turn = Turn()
        self._ended = self._serves = False
        self._cut: RateLimitExceeded | InfrastructureError | None = None
        (lease._lease if isinstance(lease, SyncDrawLease) else lease).keep()

    @property
    def lease(self) -> SyncLease | SyncDrawLease:
        """What the pieces are taken for."""
        return self._lease

    @property
    def sizes(self) -> frozenset[str]:
        """The limits that have pieces."""
        return self._sizes.names

    @property
    def used(self) -> dict[str, int]:
        """The tokens that were counted, by limit."""
        return {name: amount // MILLI for name, amount in self._used.items()}

    @property
    def cut(self) -> RateLimitExceeded | InfrastructureError | None:
        """Why the stream ends early: the refusal of a piece, or the store that cannot decide; else ``None``."""
        return self._cut

    def add(self, /, **amounts: "int | Decimal") -> None:
        """Count more tokens, by limit, and take the pieces that they need. Raises the errors of ``lease.consume``: then
        these tokens are not counted, and the stream is to end.

        After such an error, ``end`` or the end of the block it raises ``LeaseExpiredError``.
        """
        with self._turn:
            more = leases.checked(self._open, "add", amounts)
            self._reach(sums(self._used, more))

    def reach(self, usage: TokenUsage | None = None, /, **amounts: "int | Decimal") -> None:
        """Count what the stream has used in all; the arguments are those of ``lease.settle``, the errors of ``add``."""
        with self._turn:
            used = leases.weighed(self._open, "reach", amounts, usage)
            self._reach({**self._used, **used}, usage)

    def _serve(self) -> None:
        """Note that a stream sets what is counted in all. Raises ``ValidationError`` if another one does."""
        if self._serves:
            raise ValidationError("pieces", sorted(self.sizes), "count another stream: acquire a lease for each stream")
        self._serves = True

    def end(self) -> None:
        """Count and take nothing more: what the provider has counted can be settled. What a request under way takes
        goes back.
        """
        with self._lease._grant.lock:
            self._ended = True
        for each in self._of_draws or ():
            each.end()

    @property
    def _open(self) -> Grant:
        grant = self._lease._grant
        if self._ended or self._cut is not None:
            raise LeaseExpiredError(grant.request.entity_id, grant.request.resource)
        return grant

    def _reach(self, used: Mapping[str, int], usage: TokenUsage | None = None) -> None:
        if unknown := used.keys() - self._sizes.names:
            raise ValidationError("sizes", sorted(self._sizes.names), f"name a size of {', '.join(sorted(unknown))}")
        if self._of_draws is None:
            self._of_draws = [*self._made_for_draws()]
        before = [(each, each._counted) for each in self._of_draws]
        try:
            for each, _ in before:
                each._reach({**each._used, **self._part(each, used, usage)})
            while missing := self._advance(used):
                self._take(missing)
        except BaseException as error:
            if isinstance(error, RateLimitExceeded | InfrastructureError):
                self._cut = error
            with suppress(LeaseExpiredError):
                for each, counted in before:
                    pieces.advance(each.lease._grant, counted)
            raise

    def _made_for_draws(self) -> Iterator["SyncPieces"]:
        """Yield the pieces of the draws that count with the lease."""
        for draw in () if isinstance(self._lease, SyncDrawLease) else self._lease.draws:
            sizes = pieces.sizes_of_draw(draw._grant, self._given)
            if not draw._goes_by_usage:
                sizes = {name: sizes[name] for name in sizes if name in self._given and self._shares(draw)}
            if sizes:
                yield SyncPieces(draw, sizes, growth=self._growth, most=self._most)

    def _shares(self, draw: SyncLease | SyncDrawLease) -> bool:
        """Return whether a draw counts what the lease counts."""
        return draw._grant.request.as_called or any(draw._grant is run._grant for run in self._lease._runs)

    def _part(self, of_draw: "SyncPieces", used: Mapping[str, int], usage: TokenUsage | None) -> dict[str, int]:
        """Return what the stream has used of the limits of a draw."""
        draw = of_draw._lease
        try:
            part = {} if usage is None else pieces.priced(draw._grant, usage)
        except LeaseExpiredError:
            raise
        except Exception:
            log.exception("%s/%s keeps its estimate: its by_usage failed", draw.entity_id, draw.resource)
            self._of_draws = [each for each in self._of_draws or () if each is not of_draw]
            return {}
        shared = used.keys() - part.keys() if self._shares(draw) else ()
        return {name: amount for name, amount in (part | {n: used[n] for n in shared}).items() if name in of_draw.sizes}

    @property
    def _counted(self) -> dict[str, int]:
        consumed = self._lease._grant.consumed
        return {name: consumed.get(name, 0) for name in self._sizes.names}

    def _advance(self, used: Mapping[str, int]) -> dict[str, int]:
        with self._lease._grant.lock:
            missing = pieces.advance(self._open, used)
            if not missing:
                self._used = used
            return missing

    def _take(self, missing: Mapping[str, int]) -> None:
        """Take what is missing in whole pieces, or what is left of them."""
        asked = self._sizes.next(missing)
        try:
            self._lease._take(self._lease._grant, asked, unused=True)
        except RateLimitExceeded as refusal:
            rest = self._sizes.rest(refusal, asked, missing)
            if not rest:
                raise
            self._lease._take(self._lease._grant, rest, unused=True)
        else:
            self._sizes.took()
