"""The total: nothing comes back by itself.

The problem: credits that are bought, or a trial's budget, must not refill. The choice: a rule that never mints, so that
the balance is what it was when the bucket was made, less what was taken and plus what was given back or credited. The
price: such a bucket never expires, because it would come back full. A total with ``expires`` is a promise that it is
unused for so long; its bucket expires, and comes back full.
"""

from .rule import FOREVER_MS, Rule


class Total(Rule):
    """A rule that mints nothing."""

    __slots__ = ()

    def minted(self, t_ms: int) -> int:  # noqa: ARG002  the same at every instant
        """Return 0."""
        return 0

    def reached(self, minted_milli: int) -> int:
        """Return the epoch for nothing, ``FOREVER_MS`` for any amount."""
        return 0 if minted_milli <= 0 else FOREVER_MS
