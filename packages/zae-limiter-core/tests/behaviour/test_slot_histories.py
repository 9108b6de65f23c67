"""Histories of processes that take slots, some killed, some stopped: no slot is given twice, and none is lost."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from simulation.slot_faults import SLOT_FAULTS
from support.core.slot_lives import WrongSlots, live

SEEDS = 40


@pytest.mark.parametrize("seed", range(SEEDS))
def test_holders_never_have_more_slots_than_there_are_and_all_come_back(seed: int) -> None:
    assert live(seed) > 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 1_010))
def test_long_histories(seed: int) -> None:
    assert live(seed, steps=3_000) > 50


@pytest.fixture
def faulty(fault: str) -> Iterator[None]:
    """Have everything that follows make a mistake."""
    with ExitStack() as faults:
        for each in SLOT_FAULTS[fault]:
            faults.enter_context(each)
        yield


@pytest.mark.parametrize("fault", SLOT_FAULTS)
@pytest.mark.usefixtures("faulty")
def test_each_fault_is_found(fault: str) -> None:
    with pytest.raises(WrongSlots):
        _live_often()


def _live_often() -> None:
    for seed in range(3 * SEEDS):
        live(seed)
