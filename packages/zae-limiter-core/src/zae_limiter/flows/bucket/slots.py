"""What a write does to the slots of a limit: it counts them where they are taken, renewed and given back.

With ``e`` the number of the epoch in the item, and ``E`` the one at ``now``, in which the write takes and renews:

    E = e       tokens >= taken - freed                       ADD tokens, and the counts of e and e - 1
    E = e + 1   and the count of e - 1 is the one seen, l     the same, ADD tokens l, and the count begins anew
    E > e + 1   and both counts are those seen                the same for both

Each has the condition that the epoch is the one seen. A write that only frees slots begins no epoch; it asks that the
epoch in which they were taken or renewed last has not been dropped. So slots that were given to others are never given
back a second time. docs/design/admission.md ("Slots"), and ``rules.slots``.
"""

from collections.abc import Iterable, Sequence

from ...rules.balances import ShardLimit
from ...rules.slots import Slots
from ...schema.attributes import bucket_attributes
from ...schema.items import BucketState
from ...values.limits import Limit
from ..bucket_queue import BucketRequest, SlotRenewal
from ..held_slots import Freeing, SlotChange, SlotHold
from .batch import Batch, UpdateDraft


def settle_holds(requests: Sequence[BucketRequest], state: BucketState | None, now_ms: int) -> list[BucketRequest]:
    """Find what the requests free and renew of the slots in this state; return the renewals that have nothing to do.

    Slots whose epoch was dropped, or is over by now, are not given back: others may have them.
    """
    idle: list[BucketRequest] = []
    for request in requests:
        if isinstance(request, SlotRenewal):
            if not _renew(request, state, now_ms):
                idle.append(request)
        elif request.frees:
            _free(request, state, now_ms)
    return idle


def _free(request: BucketRequest, state: BucketState | None, now_ms: int) -> None:
    request.slot_changes = changes = _changes_by(request.frees, state, now_ms)
    request.freed = {name: sum(change.freed.values()) for name, change in changes.items()}


def _changes_by(frees: Iterable[Freeing], state: BucketState | None, now_ms: int) -> dict[str, SlotChange]:
    changes: dict[str, SlotChange] = {}
    for each in frees:
        name = each.hold.limit
        if each.milli and each.epoch is not None and _is_counted(each.epoch, slots_of(state, name), now_ms):
            freed = changes.setdefault(name, SlotChange()).freed
            freed[each.epoch] = freed.get(each.epoch, 0) + each.milli
    return changes


def _renew(renewal: SlotRenewal, state: BucketState | None, now_ms: int) -> bool:
    """Find the holds that are to be moved to the current epoch, taken anew, or freed because they have ended; return
    whether there are any.
    """
    renewal.end_holds(now_ms)
    changes, anew = _changes_by(renewal.frees, state, now_ms), dict[str, int]()
    renewal.moves, renewal.freed = [], {name: sum(change.freed.values()) for name, change in changes.items()}
    for hold in renewal.held.holds():
        slots = slots_of(state, hold.limit)
        if slots is None or hold.is_lost(now_ms):
            hold.lose()
            continue
        if hold.epoch is None:
            anew[hold.limit] = anew.get(hold.limit, 0) + hold.milli
        elif not _is_counted(hold.epoch, slots, now_ms):
            hold.lose()
            continue
        elif hold.epoch == slots.epoch_at(now_ms):
            hold.renewed(slots)  # the epoch may begin later than when it was taken: a change of `expires` moves it
            continue
        else:
            changes.setdefault(hold.limit, SlotChange()).moved += hold.milli
        renewal.moves.append((hold, hold.milli))
    renewal.slot_changes, renewal.unchecked = changes, anew
    renewal.count_only = {name: -amount for name, amount in anew.items()}
    return bool(renewal.moves or renewal.freed)


def _is_counted(epoch: int, slots: Slots | None, now_ms: int) -> bool:
    """Return whether the slots of an epoch are still counted as held at an instant."""
    return slots is not None and slots.epoch_at(now_ms) - 1 <= epoch <= slots.epoch


def slots_of(state: BucketState | None, name: str) -> Slots | None:
    """Return the slots of a limit as a state shows them, ``None`` if it has none."""
    return None if state is None or name not in state.slots else state.shard_limits[name].slots


def renewed(batch: Batch, state: BucketState | None) -> None:
    """Note that the write of a batch was applied: what it renewed is counted in the epoch that it shows."""
    for hold, _ in _moves(batch):
        slots = slots_of(state, hold.limit)
        if slots is not None:
            hold.renewed(slots)


def doubted(batch: Batch) -> None:
    """Note that the answer to the write of a batch was lost: nobody knows where the slots that it renewed count."""
    for hold, _ in _moves(batch):
        hold.epoch = None


def _moves(batch: Batch) -> list[tuple[SlotHold, int]]:
    if not batch.slots and not batch.unchecked:
        return []
    return [move for request in batch.carried if isinstance(request, SlotRenewal) for move in request.moves]


def draft_slots(
    draft: UpdateDraft, shard_limit: ShardLimit, batch: Batch, now_ms: int, *, new: Limit | None = None
) -> None:
    """Draft what a batch does to the slots of one limit. ``new``: the limit that a reshape brings, which may have more
    slots, or fewer, or epochs of another length.
    """
    limit, slots = shard_limit.limit, shard_limit.slots
    assert slots is not None, "only a limit with slots is asked for them"
    at, change = bucket_attributes(limit.name), batch.slots.get(limit.name, SlotChange())
    taken = batch.checked.get(limit.name, 0) + batch.unchecked.get(limit.name, 0)
    over, net = slots.epochs_over(now_ms), batch.net(limit.name)
    if not (taken or change.moved or new is not None):
        if change.freed:
            draft.at_least[at.epoch], draft.at_most[at.epoch] = max(change.freed), min(change.freed) + 1
            draft.count(at.tokens, -net)
            for epoch, freed in change.freed.items():
                draft.count(at.held_odd if epoch % 2 else at.held_even, -freed)
        return
    more = 0 if new is None else (new.ceiling_milli - limit.ceiling_milli if shard_limit.shard == 0 else 0)
    gained = slots.lost(now_ms) + more
    if limit.name in batch.checked:
        draft.at_least[at.tokens] = batch.checked[limit.name] - batch.given.get(limit.name, 0) - gained
    draft.count(at.tokens, gained - net)
    draft.equals[at.epoch] = slots.epoch
    if over:
        draft.set[at.epoch] = slots.epoch + over
        draft.set[at.epoch_began] = slots.began_ms + over * slots.expires_ms
    if new is not None and (shorter := slots.expires_ms - new.expires * 1000) > 0:  # who holds some renews by the old
        draft.set[at.epoch_began] = now_ms + 2 * shorter
    _count(draft, slots, (at.held_even, at.held_odd), change, taken + change.moved, over)


def _count(
    draft: UpdateDraft, slots: Slots, attributes: tuple[str, str], change: SlotChange, current: int, over: int
) -> None:
    """Draft the counts of the two epochs after ``over`` more: those that are dropped begin anew."""
    epoch = slots.epoch + over
    counts = {epoch % 2: current, (epoch - 1) % 2: -change.moved}
    for freed_in, freed in change.freed.items():
        counts[freed_in % 2] -= freed
    for place, seen in enumerate((slots.even, slots.odd)):
        if over > 1 or (over == 1 and place == epoch % 2):
            draft.equals[attributes[place]] = seen
            draft.set[attributes[place]] = counts[place]
        else:
            draft.count(attributes[place], counts[place])
