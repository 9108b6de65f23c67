"""Streams of several processes, one of which is killed, never go over a limit, and use all but a part of it.

The whole table is that of ``just bench overshoot``.
"""

import json
import time
from pathlib import Path

import pytest
from benchmarks import overshoot
from benchmarks.overshoot import AT_LEAST, Overshoot, Results, measured, over, usable
from benchmarks.overshoot_streams import LONGEST, Cell, Failed, Found

CELLS = [Cell(16, 1, 100_000), Cell(64, 3, 300_000), Cell(96, 8, 300_000)]


@pytest.mark.slow
def test_streams_by_pieces_use_a_limit_up_and_never_go_over_it(tmp_path: Path) -> None:
    for cell, _, found in measured("pieces", CELLS, str(tmp_path)):
        assert isinstance(found, Found), found
        assert over(cell, found) == 0, (cell, found)
        assert usable(cell, found) >= AT_LEAST, (cell, found)
        assert found.requests > 0
        assert not Overshoot(cell, {"pieces": found}).missed


@pytest.mark.slow
def test_a_limiter_that_goes_over_is_seen(tmp_path: Path) -> None:
    [(cell, _, found)] = measured("mean", [CELLS[1]], str(tmp_path))  # a stream may cost more than the mean
    assert isinstance(found, Found), found
    assert over(cell, found) > 0


@pytest.mark.slow
def test_what_is_not_used_of_max_tokens_is_lost_by_the_kill_alone(tmp_path: Path) -> None:
    for cell, _, found in measured("longest", [Cell(96, 3, 400_000), Cell(96, 1, 400_000)], str(tmp_path)):
        assert isinstance(found, Found), found
        assert 0 <= found.left < LONGEST, found  # too little for one more stream
        lost = cell.limit - found.tokens - found.left
        assert lost > 0.05 * cell.limit if cell.processes > 1 else lost == 0, found


@pytest.mark.slow
def test_a_cell_that_fails_says_why_and_the_next_one_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unopened, endless, small = Cell(4, 1, 4_000), Cell(1, 2, 10**9), Cell(4, 2, 8_000)
    (tmp_path / "pieces-4-1-4000.db").mkdir()  # no file that a process could open
    cells = measured("pieces", [unopened, endless, small], str(tmp_path))
    assert "Error: " in str(next(cells)[2])
    monkeypatch.setattr(overshoot, "OF_A_CELL", 1.0)
    assert str(next(cells)[2]) == "not done after 1 s"
    monkeypatch.undo()
    assert isinstance(next(cells)[2], Found)
    [(_, _, too_late)] = measured("pieces", [small], str(tmp_path), ends=time.monotonic())
    assert str(too_late) == "no time was left"


@pytest.mark.slow
def test_an_interpreter_that_dies_costs_one_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = measured("pieces", [Cell(1, 2, 10**9), Cell(4, 1, 4_000)], str(tmp_path))
    monkeypatch.setattr(overshoot, "OF_A_CELL", 600.0)
    monkeypatch.setattr(overshoot, "MARGIN", -599.0)  # its parent gives up first, and kills it
    assert str(next(cells)[2]) == "its interpreter died or hung"
    monkeypatch.undo()
    assert isinstance(next(cells)[2], Found)


def test_a_row_says_what_was_over_and_what_was_used() -> None:
    cell, good = Cell(16, 3, 1_000), Found(990, 10, 25)
    longest, failed = Found(800, 10, 25, left=10), Failed("not done | after 60 s")
    row = Overshoot(cell, {"pieces": good, "longest": longest, "limits": Found(1_100, 11, 33), "throttled": failed})
    shown = ("0 / 99.0% / 2.5", "0 / 80.0% + 19.0% lost / 2.5", "-", "10.00% / 100.0% / 3")
    assert row.cells() == ("16", "3", *shown, "failed: not done \\| after 60 s", "-", "-", "met")
    assert Overshoot(cell, {"pieces": good._replace(tokens=1_001)}).missed
    assert Overshoot(cell, {"pieces": good._replace(tokens=986)}).missed
    assert Overshoot(cell, {"pieces": Failed("not done after 60 s")}).missed


def test_cells_that_a_file_has_are_not_measured_again(tmp_path: Path) -> None:
    cell, found = Cell(16, 3), Found(999_000, 10, 25)
    into = tmp_path / "cells.jsonl"
    into.write_text(json.dumps(("pieces", "0.1.0", cell, found)) + "\n")
    results = Results(into)
    results.complete(["pieces"], [cell])
    row, versions = results.rows()
    assert row.cells()[:3] == ("16", "3", "0 / 99.9% / 2.5")
    assert versions.cells()[:3] == ("release", "", "0.1.0")
    assert len(into.read_text().splitlines()) == 1
