"""Concurrent slots: what is held at the same time, by holders of which some are lost.

The problem: a slot is free again when its lease ends, but a process that is killed ends no lease. A record for each
holder would cost an item and a write of its own. The choice: count the holders by the *epoch*, of ``expires`` seconds,
in which they took or renewed their slots last, and store the counts of two epochs, the current one and the one before.
The first write that needs slots when an epoch is over begins the next one, and with it drops the count of the
epoch before the last: its holders have not renewed for a whole epoch, so they are lost. Their slots come back between
``expires`` and twice that after they were taken. The price: a holder has to renew once in each epoch, and a
suspended one learns only when it wakes that its slots are lost. The idea is that of generations in a sliding
window of two buckets; leases that expire are those of Gray and Cheriton (1989).

Epochs have numbers, which only grow. An item begins with the number of its first millisecond, so a bucket that was
deleted and made anew has no epoch of the former one.

``Slots`` says what is dropped when; ``flows.slots`` writes it. Amounts are in millitokens, one slot is 1,000 of
them.
"""

from typing import ClassVar, Final

from ..runtime.named_tuple import NamedTuple
from .rule import FOREVER_MS, Rule

ASK_AGAIN_MS: Final = 1000
"""The time after which a refused caller asks again: it is unknown when a slot comes free."""


class Concurrent(Rule):
    """The rule of slots: time alone mints none, and brings all back within two epochs."""

    __slots__ = ("_expires_ms",)

    ask_again_ms: ClassVar[int] = ASK_AGAIN_MS

    def __init__(self, expires: int) -> None:
        self._expires_ms = expires * 1000

    def minted(self, t_ms: int) -> int:  # noqa: ARG002  the same at every instant
        """Return 0."""
        return 0

    def reached(self, minted_milli: int) -> int:
        """Return the epoch for nothing, ``FOREVER_MS`` for any amount."""
        return 0 if minted_milli <= 0 else FOREVER_MS

    def longest_ms(self, milli: int) -> int:
        """Return the time after which no holder that is lost has a slot."""
        return 2 * self._expires_ms if milli > 0 else 0

    def window_ms(self, milli: int) -> int:
        """Return ``FOREVER_MS``: slots are not a budget of a period."""
        return 0 if milli <= 0 else FOREVER_MS

    def lasts_ms(self, left_milli: int, used_milli: float, now_ms: int) -> float:  # noqa: ARG002  whatever is used
        """Return ``FOREVER_MS``: what calls take, they free."""
        return FOREVER_MS


class Slots(NamedTuple):
    """The slots of a limit as a bucket stores them: those held since even and odd epochs, up to the current one."""

    epoch: int
    began_ms: int
    even: int
    odd: int
    expires_ms: int

    def held_since(self, epoch: int) -> int:
        """Return the slots whose holders took or renewed them in an epoch, the current one or the one before."""
        return self.odd if epoch % 2 else self.even

    def epochs_over(self, now_ms: int) -> int:
        """Return how many epochs are over at ``now_ms`` that no write has ended."""
        return max(0, (now_ms - self.began_ms) // self.expires_ms)

    def epoch_at(self, now_ms: int) -> int:
        """Return the number of the epoch at ``now_ms``."""
        return self.epoch + self.epochs_over(now_ms)

    def lost(self, now_ms: int) -> int:
        """Return the slots of holders that are lost at ``now_ms``, which no write has dropped yet."""
        over = self.epochs_over(now_ms)
        if over == 1:
            return self.held_since(self.epoch - 1)
        return self.even + self.odd if over else 0


class Lost(Concurrent):
    """The rule of slots as they are held now: the slots of lost holders count as minted when their epoch is dropped.

    All slots are on shard 0 of ``shards``, whose part of what is minted is all of it.
    """

    __slots__ = ("_shards", "_slots")

    def __init__(self, slots: Slots, shards: int) -> None:
        super().__init__(slots.expires_ms // 1000)
        self._slots = slots
        self._shards = shards

    def minted(self, t_ms: int) -> int:
        """Return the slots that are lost at ``t_ms``."""
        return self._slots.lost(t_ms) * self._shards

    def reached(self, minted_milli: int) -> int:
        """Return the end of the epoch with which so many slots are lost, unless their holders renew them."""
        slots, wanted = self._slots, -(-minted_milli // self._shards)
        if wanted <= 0:
            return 0
        for epochs in (1, 2):
            at_ms = slots.began_ms + epochs * slots.expires_ms
            if wanted <= slots.lost(at_ms):
                return at_ms
        return FOREVER_MS
