"""The token bucket: tokens come back evenly.

The problem: many processes refill one stored balance at instants of their own. A refill of ``rate * elapsed``, rounded
at each write, mints too little or too much with each of them. The choice: count from the epoch. ``amount * t //
period`` is minted up to ``t``, and the difference of two floors between two instants: it telescopes, so it is exact in
however many steps it is taken. The price is large integers, which Python has. The source of the algorithm is Turner,
"New directions in communications (or which way to the information age?)", IEEE Communications Magazine 24 (1986).

That difference may be a millitoken more than the time times the rate: nothing for a fast limit, but 86 seconds for one
token a day. So a limit that mints less than a millitoken in a millisecond has a *fraction* beside its tokens: what had
been minted beyond whole millitokens when it was last new or full, in ``1 / (period * shards)``. That much of the first
millitoken does not count again. It says nothing of the anchor, which moves by whole floors as before.
"""

from ..runtime.dataclass import dataclass
from .rule import FOREVER_MS, Rule


@dataclass(frozen=True, slots=True)
class TokenBucket(Rule):
    """``amount`` tokens in every ``period`` seconds: as many millitokens in as many milliseconds; and ``offset`` of the
    ``period`` parts of a millitoken besides.
    """

    amount: int
    period: int
    offset: int = 0

    def minted(self, t_ms: int) -> int:
        """Return the millitokens minted up to ``t_ms``."""
        return (self.amount * t_ms + self.offset) // self.period

    def reached(self, minted_milli: int) -> int:
        """Return the first millisecond up to which so much was minted."""
        return -((self.offset - minted_milli * self.period) // self.amount)

    def longest_ms(self, milli: int) -> int:
        """Return the time in which so much is minted."""
        return -(-milli * self.period // self.amount)

    def unit(self, shards: int) -> int:
        """Return the parts of a millitoken that a shard counts; 0 if it takes no longer than a millisecond."""
        whole = self.period * shards
        return whole if self.amount < whole else 0

    def remainder(self, t_ms: int, shard: int, shards: int) -> int:
        """Return what a shard has minted up to ``t_ms`` beyond whole millitokens, in ``1 / (period * shards)``."""
        return (self.amount * t_ms + shard * self.period) % (self.period * shards)

    def on_shard(self, shard: int, shards: int, fraction: int) -> "TokenBucket":
        """Return what mints the share of a shard, less so many of its units."""
        if shards == 1 and not fraction:
            return self
        return TokenBucket(self.amount, self.period * shards, shard * self.period - fraction)

    def beyond(self, t_ms: int, unit: int) -> int:
        """Return what was minted up to ``t_ms`` beyond whole millitokens, in other units, rounded down."""
        return (self.amount * t_ms + self.offset) % self.period * unit // self.period

    def lasts_ms(self, left_milli: int, used_milli: float, now_ms: int) -> float:  # noqa: ARG002  it mints evenly
        """Return how long an amount lasts, though tokens come back meanwhile."""
        net = used_milli - self.amount / self.period
        return left_milli / net if net > 0 else FOREVER_MS
