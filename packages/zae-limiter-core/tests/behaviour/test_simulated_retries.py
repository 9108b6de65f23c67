"""Tries of one key at once, killed and cut off between any two steps, and the faults that this finds."""

import logging
from collections.abc import Iterator

import pytest

from simulation.retries import MUTANTS, Mutant, finding, killer

HISTORIES = 150


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def test_no_order_of_tries_counts_a_call_twice_or_gives_its_tokens_away() -> None:
    assert [(seed, problem) for seed in range(1, HISTORIES) if (problem := finding(seed))] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_a_fault_is_found(mutant: Mutant) -> None:
    seed, problem = killer(mutant, range(1, HISTORIES))
    assert seed < HISTORIES, mutant.breaks
    assert "tokens are used" in problem or "has no item" in problem
