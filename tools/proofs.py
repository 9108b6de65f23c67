"""The tests that docs/security.md names: run them, a session for each package.

python tools/proofs.py [pytest's options]
"""

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "security.md"
NO_TESTS: Final = 5  # pytest's code where -k left none

_TEST: Final = re.compile(r"`((?:[a-z-]+/)+test_[a-z_]+\.py)`")


def named(page: str) -> list[Path]:
    """Return the files that a page names, in the order of packages; ``core/`` is short for its folder."""
    return sorted({_place(short) for short in _TEST.findall(page)})


def sessions(tests: Sequence[Path]) -> Mapping[Path, list[Path]]:
    """Return the files by package: importing the handler of a Lambda sets up logging for a whole process."""
    return {home: list(those) for home, those in groupby(tests, lambda test: Path(*test.parts[:2]))}


def main(options: Sequence[str]) -> int:
    """Return the exit code: 0 where all pass."""
    codes = {}
    for home, tests in sessions(named(PAGE.read_text("utf-8"))).items():
        print(f"== {home}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", *options, *map(str, tests)]
        codes[home] = subprocess.run(command, check=False, cwd=ROOT).returncode
    problem = problem_of(codes)
    if problem:
        print(f"error: {problem}", file=sys.stderr)
    return int(bool(problem))


def problem_of(codes: Mapping[Path, int]) -> str:
    """Return what is wrong with sessions that end so: options may leave no test of a package, but not of all."""
    failed = [str(home) for home, code in codes.items() if code not in {0, NO_TESTS}]
    if failed:
        return f"failed: {', '.join(failed)}"
    return "" if 0 in codes.values() else "no test ran"


def _place(short: str) -> Path:
    return (
        Path(short) if short.startswith(("tests-integration/", "tools/")) else Path("packages", f"zae-limiter-{short}")
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
