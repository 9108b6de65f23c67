"""Histories of processes that take slots, some killed, some stopped: no slot is given twice, and none is lost."""

from typing import Any

import pytest

from support.core.slot_lives import Change, WrongSlots, live
from zae_limiter.operations.values import Update

SEEDS = 40
FREE, EPOCHS = "b_parallel_tk", ("b_parallel_he", "b_parallel_ho")


@pytest.mark.long(keep=12)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_holders_never_have_more_slots_than_there_are_and_all_come_back(seed: int) -> None:
    assert live(seed) > 5


@pytest.mark.long(keep=2)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 1_010))
def test_long_histories(seed: int) -> None:
    assert live(seed, steps=3_000) > 50


def _without(kind: str, *names: str) -> Change:
    """A write does not ask for these."""

    def change(update: Update) -> Update:
        asked = getattr(update.when, kind)
        kept: dict[str, Any] = {kind: {name: asked[name] for name in asked if name not in names}}
        return update._replace(when=update.when._replace(**kept))

    return change


def _counts(update: Update) -> list[int]:
    """What a write adds to the counts of both epochs."""
    return [update.add.get(name, 0) for name in EPOCHS]


def _freed_twice(update: Update) -> Update:
    back = update.add.get(FREE, 0) if min(_counts(update)) < 0 else 0
    return update._replace(add={**update.add, FREE: 2 * back}) if back > 0 else update


def _counted_twice(update: Update) -> Update:
    """A renewal counts in the new epoch, and stays in the former one."""
    if not min(_counts(update)) < 0 < max(_counts(update)):
        return update
    return update._replace(add={name: n for name, n in update.add.items() if name not in EPOCHS or n > 0})


def _dropped_early(update: Update) -> Update:
    """A new epoch begins with all slots free."""
    if "b_parallel_ep" not in update.set:
        return update
    kept = {name: value for name, value in update.set.items() if name not in EPOCHS}
    return update._replace(set={**kept, FREE: 3_000, EPOCHS[0]: 0, EPOCHS[1]: 0}, add=_others(update))


def _others(update: Update) -> dict[str, int]:
    return {name: n for name, n in update.add.items() if name not in {FREE, *EPOCHS}}


def _of_any_epoch(update: Update) -> Update:
    for kind in ("equals", "at_least", "at_most"):
        update = _without(kind, "b_parallel_ep")(update)
    return update


def _unseen(update: Update) -> Update:
    """A new epoch drops more than was seen."""
    return _without("equals", *EPOCHS)(update)


FAULTS: dict[str, Change] = {
    "a slot given back twice": _freed_twice,
    "an epoch of slots dropped early": _dropped_early,
    "a renewal of slots that counts twice": _counted_twice,
    "a release of a dropped epoch": _of_any_epoch,
    "a drop of more than was seen": _unseen,
    "a take without a look at the slots": _without("at_least", FREE),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found(fault: str) -> None:
    with pytest.raises(WrongSlots):
        _live_often(FAULTS[fault])


def _live_often(change: Change) -> None:
    for seed in range(3 * SEEDS):
        live(seed, change=change)
