"""Windows that begin with the first use: the whole quota comes back some time after the first token was taken.

The problem: "100 in the hour from the first one on" has no phase of its own. The choice: the begin of the window is
stored with the bucket, and what was minted up to ``t`` is the quota for each window's length that has passed since, a
step function; so all else follows as for any rule. A take after the end of the window begins another one: it sets the
begin and the anchor in the same conditional write, so every write that went by the former window fails and is decided
again. Until then windows follow one another without a gap, which matters only for a debt: it is paid window by window.
The price: one number in the item, and a bucket that cannot be split, because each shard would begin windows of its own.
"""

from ..runtime.dataclass import dataclass
from .rule import Rule


@dataclass(frozen=True, slots=True)
class FirstUse(Rule):
    """``amount`` millitokens at the end of every ``length_ms`` since the begin of the window."""

    amount: int
    length_ms: int
    begin_ms: int = 0

    def since(self, begin_ms: int) -> "FirstUse":
        """Return the rule of a window that has begun at an instant."""
        return FirstUse(self.amount, self.length_ms, begin_ms)

    def minted(self, t_ms: int) -> int:
        """Return the millitokens minted up to ``t_ms``: nothing up to the end of the first window."""
        return self.amount * max(0, (t_ms - self.begin_ms) // self.length_ms)

    def reached(self, minted_milli: int) -> int:
        """Return the end of the window up to which so much was minted."""
        return 0 if minted_milli <= 0 else self.begin_ms + -(-minted_milli // self.amount) * self.length_ms

    def longest_ms(self, milli: int) -> int:
        """Return the length of the windows in which so much is minted, whenever they begin."""
        return 0 if milli <= 0 else -(-milli // self.amount) * self.length_ms
