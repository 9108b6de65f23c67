"""The figures of the docs: each is of a run, a page quotes it from its table, and what a page quotes has a target."""

import re
from pathlib import Path

import pytest
from benchmarks import run
from benchmarks.measure import Taken, compared
from benchmarks.report import Row, microseconds, stamp, write_into

from website import tables
from website.quotes import filled, pages, quoted
from website.redis import CLIENTS, FIGURES

MARKER = re.compile(r"^<!-- (\w+) -->$", re.MULTILINE)
OF_A_RUN = re.compile(r"\*\d+ [A-Z][a-z]+ 20\d\d, commit [0-9a-f]{8}( with changes)?\.\*")
BENCHMARKS = (tables.DOCS / "benchmarks.md").read_text(encoding="utf-8")
TABLES = [name for name in MARKER.findall(BENCHMARKS) if name != "end"]
QUOTES = {quote: page for page in pages() for quote in quoted(page.read_text(encoding="utf-8"))}
PAGE = "<!-- waiting -->\nold\n<!-- end -->\n"


@pytest.mark.parametrize("name", [name for name in TABLES if tables.rows(name)])
def test_a_table_names_the_day_and_the_commit_of_its_run(name: str) -> None:
    assert OF_A_RUN.fullmatch(tables.of_run(name)), f"run `just bench {name}`"


def test_every_table_is_of_a_benchmark_and_every_benchmark_has_a_place() -> None:
    elsewhere = {"costs", "outage", "overshoot", "prefetch"}  # on pages of their own
    of_two = {"peers_redis_prefetch"}
    assert {*TABLES} - of_two == {*run.NAMES} - elsewhere


def test_a_run_that_begins_now_names_its_day_and_commit() -> None:
    assert OF_A_RUN.fullmatch(stamp())


def test_a_table_that_is_written_has_the_line_of_its_run_and_is_read_without_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = [microseconds("an acquire", Taken(5e-6, 4e-6), at_most=6)]
    page = write_into(PAGE, "waiting", rows, "*1 May 2026, commit 01234567.*")
    (tmp_path / "benchmarks.md").write_text(page, encoding="utf-8")
    monkeypatch.setattr(tables, "DOCS", tmp_path)
    assert tables.figures("waiting") == {"an acquire": "5 us (≤ 6 us)"}
    assert tables.of_run("waiting") == "*1 May 2026, commit 01234567.*"
    quote = "takes <!-- row waiting: an acquire -->9 s<!-- /row -->."
    assert filled(quote) == "takes <!-- row waiting: an acquire -->5 us<!-- /row -->."
    assert write_into(page, "waiting", rows, "*1 May 2026, commit 01234567.*") == page


def test_figures_of_cases_share_a_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = [Row("1: p50", 5), Row("1: p99", 9, at_most=8), Row("2: p50", 6), Row("in all", 7), Row("alone: p1", 8)]
    page = write_into(PAGE, "waiting", rows, "*1 May 2026, commit 01234567.*")
    (tmp_path / "benchmarks.md").write_text(page, encoding="utf-8")
    monkeypatch.setattr(tables, "DOCS", tmp_path)
    assert tables.rows("waiting") == [
        ["1", "5", "9 (≤ 8, **missed**)"],
        ["2", "6", ""],
        ["in all", "7"],
        ["alone: p1", "8"],
    ]
    assert tables.measured("waiting") == {"1: p50": "5", "1: p99": "9", "2: p50": "6", "in all": "7", "alone: p1": "8"}
    assert tables.targets("waiting")["1: p99"] == "≤ 8, **missed**"
    assert tables.of_run("waiting") == "*1 May 2026, commit 01234567.*"


def test_a_figure_of_a_page_is_that_of_its_table() -> None:
    assert QUOTES
    for page in pages():
        text = page.read_text(encoding="utf-8")
        assert filled(text) == text, f"{page.name}: run `just pictures`"


def test_a_row_that_a_page_names_has_a_target() -> None:
    named = [
        *QUOTES,
        *(
            ("peers_redis", f"{case}: {CLIENTS[client]} / the cheapest of theirs")
            for _, case in FIGURES
            for client in CLIENTS
            if client.startswith("zae-limiter")
        ),
    ]
    for table, what in named:
        assert tables.targets(table)[what], f"{table}: {what}"


def test_a_benchmark_that_fails_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = []

    def measure(name: str, _: str) -> list[Row]:
        if name in {"latency", "waiting"}:
            raise RuntimeError("its process died")
        measured.append(name)
        return [Row("a figure", 1)]

    monkeypatch.setattr(run, "run", measure)
    monkeypatch.setattr(run, "draw", lambda: None)
    assert run.main([]) == 1
    assert measured == [name for name in run.NAMES if name not in {"latency", "waiting"}]
    assert re.findall(r"error: (\w+) failed", capsys.readouterr().err) == ["latency", "waiting"]
    assert run.main(["costs"]) == 0


def test_sides_that_are_compared_take_turns() -> None:
    calls: list[str] = []
    taken = compared({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, calls=2, rounds=2)
    assert "".join(calls) == "aabb" * 3  # one round to warm up
    assert all(each.least <= each.median for each in taken.values())
