import os
import subprocess
import sys
from pathlib import Path

import pytest

from once import is_told_by_another

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest

@pytest.mark.long
def test_long():
    pass

@pytest.mark.parametrize("case", range(40))
@pytest.mark.parametrize("variant", ["async", "sync"])
def test_both(variant, case):
    pass

@pytest.mark.both_variants
@pytest.mark.parametrize("variant", ["async", "sync"])
def test_differs(variant):
    pass

@pytest.mark.long(keep=3)
@pytest.mark.parametrize(
    "case", [*range(8), pytest.param(8, marks=pytest.mark.skip), pytest.param(9, marks=pytest.mark.long)]
)
def test_many(case):
    pass

def test_short():
    pass
"""


def ran(folder: Path, *options: str) -> list[str]:
    """The tests that a session runs over these."""
    (folder / "test_it.py").write_text(TESTS, encoding="utf-8")
    (folder / "pytest.ini").write_text(
        f"[pytest]\nmarkers = long\n both_variants\npythonpath = {ROOT / 'tools'}\n", encoding="utf-8"
    )
    command = [sys.executable, "-m", "pytest", "-p", "once", "-v", *options]
    environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, check=True, cwd=folder, env=environ, capture_output=True, text=True)
    return [line.split()[0].partition("::")[2] for line in done.stdout.splitlines() if " PASSED" in line]


def test_a_session_runs_one_of_each_pair_and_of_what_is_long_what_its_mark_keeps(tmp_path: Path) -> None:
    assert len(ran(tmp_path)) == 93
    once = ran(tmp_path, "--once")
    both = [name for name in once if name.startswith("test_both")]
    assert sorted(set(once) - set(both)) == [
        *("test_differs[async]", "test_differs[sync]"),
        *("test_many[1]", "test_many[4]", "test_many[7]", "test_short"),
    ]
    assert len({name.replace("async", "sync") for name in both}) == len(both) == 40
    assert 10 < sum("async" in name for name in both) < 30  # each variant has its turns
    assert ran(tmp_path, "--once") == once


@pytest.mark.parametrize(
    "names",
    [
        {"test_a[async]"},
        {"test_a[async-sync]", "test_a[sync-async]", "test_a[sync-sync]", "test_a[async-async]"},
        {"test_asyncio[asyncio]", "test_asyncio[syncio]"},
    ],
    ids=["one variant alone", "both in one test", "other words"],
)
def test_what_is_of_no_pair_runs(names: set[str]) -> None:
    assert not any(is_told_by_another(name, names) for name in names)
