import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import skips

ROOT = Path(__file__).parents[2]
RAN, LEFT_OUT = "def test_a():\n    pass\n", "import pytest\n\n\ndef test_b():\n    pytest.skip('{}')\n"
THREADS = "threads wake in any order"


def session(folder: Path, *tests: str, options: tuple[str, ...] = (), **environ: str) -> tuple[int, str]:
    """The code and the words of a session over these files, outside CI unless ``environ`` says so."""
    for number, test in enumerate(tests):
        (folder / f"test_{number}.py").write_text(test, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if name not in {"CI", skips.FILE_VARIABLE}}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "skips", *options]
    environment = {**kept, "PYTHONPATH": str(ROOT / "tools"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environ}
    done = subprocess.run(command, check=False, cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout


@pytest.mark.parametrize("options", [(), ("-p", "xdist", "-n", "2")], ids=["one process", "two workers"])
def test_a_session_that_skips_all_its_tests_has_run_nothing(tmp_path: Path, options: tuple[str, ...]) -> None:
    code, told = session(tmp_path, LEFT_OUT.format(THREADS), options=options)
    assert (code, "error: nothing ran" in told) == (pytest.ExitCode.NO_TESTS_COLLECTED, True)
    assert session(tmp_path, RAN, options=options)[0] == pytest.ExitCode.OK


@pytest.mark.parametrize(
    ("reason", "environ", "options", "code"),
    [
        ("nobody is here", {}, (), 0),
        ("nobody is here", {"CI": "true"}, (), 1),
        ("nobody is here", {"ZAEL_SKIPS": "kept"}, (), 1),
        (THREADS, {"CI": "true"}, (), 0),
        ("flask is not installed: `just`", {"CI": "true"}, (), 0),
        ("flask is not installed: `just`", {}, ("--installed",), 1),
    ],
)
def test_where_nobody_looks_on_a_skip_needs_a_reason_that_is_allowed(
    tmp_path: Path, reason: str, environ: Mapping[str, str], options: tuple[str, ...], code: int
) -> None:
    found, told = session(tmp_path, RAN, LEFT_OUT.format(reason), options=options, **environ)
    assert (found, f"error: nobody allows this skip: {reason}" in told) == (code, bool(code))


def test_a_run_lists_the_skips_of_all_its_sessions_with_their_reasons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    for _ in range(2):
        session(tmp_path, RAN, LEFT_OUT.format(THREADS), ZAEL_SKIPS=str(kept))
    assert skips.main(kept) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2 tests ran, 2 were skipped:",
        f"      2  {THREADS} ({skips.why_allowed(THREADS)})",
    ]
    session(tmp_path, RAN, LEFT_OUT.format("nobody is here"), ZAEL_SKIPS=str(kept))
    assert skips.main(kept) == 1
    told = capsys.readouterr()
    assert "      1  nobody is here (NOT ALLOWED)" in told.out
    assert told.err == "error: nobody allows this skip: nobody is here\n"


def test_a_run_without_a_test_is_not_green(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("", encoding="utf-8")
    assert skips.main(tmp_path / "kept") == 1


def test_what_pytest_has_no_tests_for_may_keep_a_skip_too(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    skips.keep(0, {"Python 3.14 is not here": 1}, {"ZAEL_SKIPS": str(kept)})
    skips.keep(0, {"Python 3.14 is not here": 1}, {})
    assert [json.loads(line) for line in kept.read_text().splitlines()] == [
        {"ran": 0, "skipped": {"Python 3.14 is not here": 1}}
    ]


@pytest.mark.parametrize(
    "reason",
    [
        "localstack: no container engine answers: refused",
        "dynamodb-local: `npm` could not run",
        "dynoxide: `npm` could not run",
        "got empty parameter set for (block)",
        "could not import 'opentelemetry.sdk': No module named 'opentelemetry'",
        "the docs are not here: the tests were taken out of the checkout",
        "there is no command `openssl`",
    ],
)
def test_what_ci_has_to_have_may_not_be_missing(reason: str) -> None:
    assert skips.complaints(100, {reason: 1}, environ={"CI": "true"})


def test_every_reason_that_is_allowed_is_one_that_a_test_gives() -> None:
    """So that the list loses what nobody skips any more."""
    places = [
        *ROOT.glob("packages/*/tests/**/*.py"),
        *ROOT.glob("tests-integration/**/*.py"),
        ROOT / "tools/pythons.py",
        ROOT / "tools/tests/test_infrastructure.py",
    ]
    texts = "\n".join(path.read_text(encoding="utf-8") for path in places)
    for pattern in skips.ALLOWED:
        for choice in pattern.split("|"):
            literal = max(re.split(r"\[(?:a-z-|\^:)\]\+|\(.*\)\??|\.\+|\\d\+|\\", choice), key=len).strip()
            assert literal in texts, choice
