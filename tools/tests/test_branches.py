import json
from pathlib import Path
from typing import Any

import pytest
from support.tools.recipes import Just

from branches import PAGE, Coverage, by_package, problems, promised, table
from check_siblings import ROOT
from shell import PACKAGES

WHOLE = Coverage(lines=900, lines_run=870, branches=100, branches_taken=85)  # 95.5 %


def file(lines: int, lines_run: int, branches: int, branches_taken: int) -> dict[str, Any]:
    counts = {"num_statements": lines, "covered_lines": lines_run}
    return {"summary": counts | {"num_branches": branches, "covered_branches": branches_taken}}


def test_files_are_summed_up_by_package() -> None:
    report = {
        "files": {
            "packages/zae-limiter-core/src/zae_limiter/limits.py": file(10, 9, 4, 3),
            "packages/zae-limiter-core/src/zae_limiter/flows/steps.py": file(20, 20, 0, 0),
            "packages/zae-limiter-cli/src/zae_limiter_cli/main.py": file(5, 0, 2, 0),
        }
    }
    assert by_package(report) == {"core": Coverage(30, 29, 4, 3), "cli": Coverage(5, 0, 2, 0)}


@pytest.mark.parametrize(
    ("coverage", "percent"),
    [(WHOLE, 95.5), (Coverage(3, 2, 0, 0), 66.6), (Coverage(1000, 1000, 1000, 999), 99.9), (Coverage(), 0.0)],
)
def test_a_percent_is_rounded_down(coverage: Coverage, percent: float) -> None:
    assert coverage.percent == percent


def test_the_figures_of_a_table_can_be_read_again() -> None:
    assert promised(table({"core": WHOLE, "cli": Coverage(2000, 1000, 0, 0)})) == {"core": 95.5, "cli": 50.0}


def test_a_package_may_lose_less_than_its_whole_percent() -> None:
    assert problems({"core": WHOLE}, {"core": 95.9}) == []
    assert problems({"core": WHOLE}, {}) == []
    (line,) = problems({"core": WHOLE}, {"core": 96.0})
    assert line == "core: 95.5 %, less than 96 %: test what you have added"
    assert problems({"core": WHOLE}, {"core": 90.0, "cli": 90.0}) == ["cli: nothing was measured"]


def test_the_page_has_a_figure_of_every_package() -> None:
    figures = promised((ROOT / PAGE).read_text(encoding="utf-8"))
    assert set(figures) == set(PACKAGES)
    assert min(figures.values()) > 80


def report(lines_run: int) -> str:
    """A report of coverage.py, of core alone."""
    return json.dumps({"files": {"packages/zae-limiter-core/src/a.py": file(100, lines_run, 0, 0)}})


@pytest.fixture
def just(tmp_path: Path) -> Just:
    """Recipes beside a page that promises 95 % of core."""
    just = Just(tmp_path)
    (tmp_path / PAGE).write_text(f"# Page\n\n<!-- coverage -->\n{table({'core': WHOLE})}\n<!-- end -->\n")
    return just


@pytest.mark.parametrize(("lines_run", "code"), [(94, 1), (95, 0), (97, 0)])
def test_a_run_is_held_to_the_page_and_writes_no_lower_figure(just: Just, lines_run: int, code: int) -> None:
    played = just.play("coverage", "--write", "-k", "x", REPORT=report(lines_run))
    assert played.code == code
    assert len(played.sessions()) == 3
    assert all("--cov --cov-append" in line and " -k x " in line for line in played.sessions())
    assert f"| {lines_run}.0 % |" in played.printed
    assert promised((just.folder / PAGE).read_text()) == {"core": 95.5 if code else lines_run}


def test_the_summary_of_a_job_has_the_table(just: Just) -> None:
    played = just.play("coverage", REPORT=report(100), GITHUB_STEP_SUMMARY=str(just.folder / "summary"))
    assert played.code == 0
    assert "| 100.0 % |" in (just.folder / "summary").read_text()


def test_tests_that_fail_are_a_failure_whose_figures_are_shown_and_not_written(just: Just) -> None:
    played = just.play("coverage", "--write", ends_with=1, REPORT=report(99))
    assert played.code == 1
    assert "| 99.0 % |" in played.printed
    assert "error: the tests of core and manifest failed" in played.printed
    assert promised((just.folder / PAGE).read_text()) == {"core": 95.5}
