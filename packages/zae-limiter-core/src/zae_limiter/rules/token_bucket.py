"""The token bucket: tokens come back evenly.

The problem: many processes refill one stored balance at instants of their own. A refill of ``rate * elapsed``, rounded
at each write, mints too little or too much with each of them. The choice: count from the epoch. ``amount * t //
period`` is minted up to ``t``, and the difference of two floors between two instants: it telescopes, so it is exact in
however many steps it is taken. The price is large integers, which Python has. The source of the algorithm is Turner,
"New directions in communications (or which way to the information age?)", IEEE Communications Magazine 24 (1986).
"""

from dataclasses import dataclass

from .rule import FOREVER_MS, Rule


@dataclass(frozen=True, slots=True)
class TokenBucket(Rule):
    """``amount`` tokens in every ``period`` seconds: as many millitokens in as many milliseconds."""

    amount: int
    period: int

    def minted(self, t_ms: int) -> int:
        """Return the millitokens minted up to ``t_ms``."""
        return self.amount * t_ms // self.period

    def reached(self, minted_milli: int) -> int:
        """Return the first millisecond up to which so much was minted."""
        return -(-minted_milli * self.period // self.amount)

    def lasts_ms(self, left_milli: int, used_milli: float, now_ms: int) -> float:  # noqa: ARG002  it mints evenly
        """Return how long an amount lasts, though tokens come back meanwhile."""
        net = used_milli - self.amount / self.period
        return left_milli / net if net > 0 else FOREVER_MS
