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
    """The files that a page names, in the order of packages; ``core/`` is short for its folder."""
    return sorted({_place(short) for short in _TEST.findall(page)})


def sessions(tests: Sequence[Path]) -> Mapping[Path, list[Path]]:
    """The files by package: importing the handler of a Lambda sets up logging for a whole process."""
    return {home: list(those) for home, those in groupby(tests, lambda test: Path(*test.parts[:2]))}


def main(options: Sequence[str]) -> int:
    """The exit code: 0 where all pass."""
    failed = []
    for home, tests in sessions(named(PAGE.read_text("utf-8"))).items():
        print(f"== {home}", flush=True)
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", *options, *map(str, tests)], check=False, cwd=ROOT)
        if done.returncode not in {0, NO_TESTS}:
            failed.append(str(home))
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


def _place(short: str) -> Path:
    return (
        Path(short) if short.startswith(("tests-integration/", "tools/")) else Path("packages", f"zae-limiter-{short}")
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
