"""Slots: what is lost when, and the rule that tells it."""

import pytest

from zae_limiter.rules.registry import due_ms, rule_of, window_seconds
from zae_limiter.rules.rule import FOREVER_MS
from zae_limiter.rules.slots import Lost, Slots
from zae_limiter.values.limits import Limit

BEGAN = 1_700_000_000_000
SLOTS = Slots(epoch=7, began_ms=BEGAN, even=2_000, odd=1_000, expires_ms=10_000)


@pytest.mark.parametrize(
    ("after_ms", "epoch", "lost"),
    [
        (-1, 7, 0),
        (0, 7, 0),
        (9_999, 7, 0),
        (10_000, 8, 2_000),
        (19_999, 8, 2_000),
        (20_000, 9, 3_000),
        (10**9, 7 + 10**5, 3_000),
    ],
)
def test_the_slots_of_an_epoch_are_lost_when_the_one_behind_it_is_over(after_ms: int, epoch: int, lost: int) -> None:
    assert SLOTS.epoch_at(BEGAN + after_ms) == epoch
    assert SLOTS.lost(BEGAN + after_ms) == lost


def test_an_amount_is_reached_at_the_first_instant_that_has_lost_it() -> None:
    for shards in (1, 4):
        rule = Lost(SLOTS, shards)
        for amount in (1, 2_000, 2_001, 3_000):
            at_ms = rule.reached(amount * shards)
            assert rule.minted(at_ms) >= amount * shards > rule.minted(at_ms - 1)
        assert rule.reached(3_001 * shards) == FOREVER_MS
        assert rule.reached(0) == 0


def test_no_slot_outlasts_two_epochs_and_none_is_minted() -> None:
    limit = Limit.concurrent("parallel", 5, expires=30)
    assert rule_of(limit).longest_ms(1) == 60_000
    assert rule_of(limit).minted(BEGAN) == 0
    assert due_ms(rule_of(limit), 1, BEGAN) == FOREVER_MS
    assert window_seconds(limit) is None
