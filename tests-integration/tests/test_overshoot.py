"""Streams of several processes, one of which is killed, never go over a limit, and use all but a part of it.

The whole table is that of ``just bench overshoot``.
"""

from pathlib import Path

import pytest
from benchmarks.overshoot import AT_LEAST, Overshoot, over, run, usable
from benchmarks.overshoot_streams import Cell, Found

CELLS = [Cell(16, 1, 100_000), Cell(64, 3, 300_000), Cell(96, 8, 300_000)]


@pytest.mark.slow
def test_streams_by_pieces_use_a_limit_up_and_never_go_over_it(tmp_path: Path) -> None:
    for cell, found in zip(CELLS, run("pieces", CELLS, str(tmp_path)), strict=True):
        assert over(cell, found) == 0, (cell, found)
        assert usable(cell, found) >= AT_LEAST, (cell, found)
        assert found.requests > 0
        assert not Overshoot(cell, {"pieces": found}).missed


@pytest.mark.slow
def test_a_limiter_that_goes_over_is_seen(tmp_path: Path) -> None:
    [found] = run("mean", [CELLS[1]], str(tmp_path))  # a stream may cost more than the mean
    assert over(CELLS[1], found) > 0


def test_a_row_says_what_was_over_and_what_was_used() -> None:
    cell, good = Cell(16, 3, 1_000), Found(990, 10, 25)
    row = Overshoot(cell, {"pieces": good, "limits": Found(1_100, 11, 33)})
    assert row.cells() == ("16", "3", "0 / 99.0% / 2.5", "-", "-", "10.00% / 100.0% / 3", "-", "-", "met")
    assert Overshoot(cell, {"pieces": good._replace(tokens=1_001)}).missed
    assert Overshoot(cell, {"pieces": good._replace(tokens=986)}).missed
