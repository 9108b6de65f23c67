"""Slots made wrong.

Lives here: the faults. Never: which history finds one.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final
from unittest.mock import patch

from zae_limiter.flows.bucket import drawing, slots
from zae_limiter.flows.bucket.batch import UpdateDraft
from zae_limiter.flows.bucket_queue import SlotRenewal
from zae_limiter.flows.held_slots import Freeing, SlotHold
from zae_limiter.operations.values import Key, Update
from zae_limiter.rules.slots import Slots

_count = slots._count


def _kept_by_its_hold(self: Freeing) -> None:
    self.epoch = self.hold.epoch


def _over_early(self: Slots, now_ms: int) -> int:
    return max(0, 2 * (now_ms - self.began_ms) // self.expires_ms)


def _without(*conditions: str) -> Callable[[UpdateDraft, Key], Update]:
    real = UpdateDraft.update

    def update(self: UpdateDraft, key: Key) -> Update:
        for each in (self.equals, self.at_least, self.at_most):
            for name in conditions:
                each.pop(name, None)
        return real(self, key)

    return update


def _counted_twice(draft: Any, stored: Slots, attributes: Any, change: Any, current: int, over: int) -> None:
    """A renewal counts in the new epoch, and stays in the former one."""
    change.moved, moved = 0, change.moved
    _count(draft, stored, attributes, change, current, over)
    change.moved = moved


def _freed_and_kept(self: SlotRenewal, now_ms: int) -> None:
    """A slot that has ended is free for others, and is freed again with its lease."""
    for hold in self.held.holds():
        if hold.has_ended(now_ms):
            freeing = Freeing(hold, hold.milli)
            freeing.is_detached, freeing.epoch = True, hold.epoch
            self.frees = (*self.frees, freeing)


SLOT_FAULTS: Final[Mapping[str, tuple[Any, ...]]] = {
    "a slot given back twice": (patch.object(Freeing, "detach", _kept_by_its_hold),),
    "an epoch of slots dropped early": (patch.object(Slots, "epochs_over", _over_early),),
    "a renewal of slots that counts twice": (patch.object(slots, "_count", _counted_twice),),
    "a renewal repeated after a lost answer": (patch.object(drawing, "doubted", lambda _: None),),
    "a release of a dropped epoch": (
        patch.object(slots, "_is_counted", lambda _epoch, stored, _now: stored is not None),
        patch.object(UpdateDraft, "update", _without("b_parallel_ep")),
    ),
    "a drop of more than was seen": (patch.object(UpdateDraft, "update", _without("b_parallel_he", "b_parallel_ho")),),
    "a take without a look at the slots": (patch.object(UpdateDraft, "update", _without("b_parallel_tk")),),
    "a slot that has ended freed twice": (patch.object(SlotRenewal, "end_holds", _freed_and_kept),),
    "a holder that wakes late and renews": (patch.object(SlotHold, "is_lost", lambda self, _: not self.until_ms),),
}
