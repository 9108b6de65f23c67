"""What every rule answers, and the instant that never comes."""

from typing import ClassVar, Final, Protocol

FOREVER_MS: Final = 1 << 200
"""The instant, in epoch milliseconds, at which what never comes is reached; as a time, longer than any other."""


class Rule(Protocol):
    """How the whole of one limit mints, from the epoch on: nothing is minted up to the epoch.

    A rule inherits ``longest_ms`` and ``window_ms`` if an amount takes longest from the epoch, at which its period
    begins.
    """

    __slots__ = ()

    ask_again_ms: ClassVar[int] = FOREVER_MS
    """The longest time that a refused caller is asked to wait."""

    def minted(self, t_ms: int) -> int:
        """Return the millitokens minted up to ``t_ms``, which never fall."""

    def reached(self, minted_milli: int) -> int:
        """Return the first ``t_ms`` at which ``minted`` is at least so much, ``FOREVER_MS`` if none comes."""

    def mark(self, t_ms: int) -> int | None:  # noqa: ARG002  the same at every instant
        """Return what was minted up to ``t_ms`` if another process may say something else, by its own time zones."""
        return None

    def unit(self, shards: int) -> int:  # noqa: ARG002  most rules mint whole millitokens
        """Return the parts of a millitoken in which a shard counts what it has minted, 0 if it counts none."""
        return 0

    def remainder(self, t_ms: int, shard: int, shards: int) -> int:  # noqa: ARG002
        """Return what a shard has minted up to ``t_ms`` beyond whole millitokens, in parts of one."""
        return 0

    def on_shard(self, shard: int, shards: int, fraction: int) -> "Rule":  # noqa: ARG002
        """Return what mints the share of a shard, less so many of its units."""
        return self if shards == 1 else Divided(self, shard, shards)

    def beyond(self, t_ms: int, unit: int) -> int:  # noqa: ARG002
        """Return what was minted up to ``t_ms`` beyond whole millitokens, in other units."""
        return 0

    def since(self, begin_ms: int) -> "Rule":  # noqa: ARG002  most rules have a phase of their own
        """Return the rule whose period begins at an instant that is stored, or at the anchor without one."""
        return self

    def longest_ms(self, milli: int) -> int:
        """Return the longest time in which so much is minted, whenever that begins."""
        return self.reached(milli)

    def window_ms(self, milli: int) -> int:
        """Return the same for people: as if no clock was ever changed."""
        return self.longest_ms(milli)

    def lasts_ms(self, left_milli: int, used_milli: float, now_ms: int) -> float:
        """Return how long an amount lasts if so much of it is used in each millisecond; ``FOREVER_MS`` if more comes
        before it is used up, or if nothing is used.
        """
        lasts = left_milli / used_milli if used_milli > 0 else FOREVER_MS
        return FOREVER_MS if self.reached(self.minted(now_ms) + 1) <= now_ms + lasts else lasts


class Divided(Rule):
    """The share that a shard has of what a rule mints; the shares add up to the whole exactly."""

    __slots__ = ("_rule", "_shard", "_shards")

    def __init__(self, rule: Rule, shard: int, shards: int) -> None:
        self._rule, self._shard, self._shards = rule, shard, shards

    def minted(self, t_ms: int) -> int:
        """Return the shard's millitokens minted up to ``t_ms``."""
        return (self._rule.minted(t_ms) + self._shard) // self._shards

    def reached(self, minted_milli: int) -> int:
        """Return the first instant up to which the shard has minted so much."""
        return self._rule.reached(minted_milli * self._shards - self._shard)
