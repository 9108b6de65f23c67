"""Run the parts of a long run one after the other: recipes with their arguments, each as one word.

parts.py [PART …]     those of ``EVERYTHING`` where none is named; it ends with the times and the CPU of its parts
                      and with all that their sessions skipped, by reason
"""

import os
import sys
import time
from pathlib import Path
from typing import Final

from shell import code_of, scratch
from skips import FILE_VARIABLE
from skips import main as list_skips

EVERYTHING: Final = (  # the nightly workflow has a job for each
    *("check", "checkov", "iam", "docs-check", "coverage"),
    *("wheels-test", "test-pythons", "test-dependencies newest", "test-dependencies lowest"),
    *("test-frameworks newest", "test-frameworks oldest", "test-llm newest", "test-llm oldest"),
    *("integration", "integration --transport sdk", "integration-sdk", "integration-localstack", "examples"),
    *("mutants", "simulate --seeds 20000", "simulate-processes --seeds 2000", "fuzz --minutes 5"),
    *("test-release", "rehearse-release", "install-beside"),
)


def main(*parts: str) -> int:
    """Run parts until one fails; return its code, or 1 where nothing ran or a skip is not allowed."""
    with scratch() as folder:
        kept = folder / "skips"
        kept.touch()
        took: list[str] = []
        code = 1
        try:
            code = _run(parts or EVERYTHING, took, kept)
        finally:
            print("", *took, sep="\n", flush=True)
            unlisted = list_skips(kept)
    return 1 if unlisted else code


def _run(parts: tuple[str, ...], took: list[str], kept: Path) -> int:
    for part in parts:
        began, used = time.monotonic(), _cpu_seconds()
        if code := code_of("just", *part.split(), environ={FILE_VARIABLE: str(kept)}):
            return code
        took.append(f"{part}: {time.monotonic() - began:.0f} s, {_cpu_seconds() - used:.0f} s of CPU")
    return 0


def _cpu_seconds() -> float:
    """Return what all processes that were started here and have ended took of CPU."""
    times = os.times()
    return times.children_user + times.children_system


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
