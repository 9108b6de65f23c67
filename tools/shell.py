"""What the programs behind the recipes share: run a command, end as it ends, have a folder for a while."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PACKAGES: Final = ("core", "manifest", "provisioner", "aggregator", "cli")  # each after those that it requires
NO_TESTS: Final = 5  # pytest's code where a session finds none


def run(*command: str, cwd: Path | None = None, environ: Mapping[str, str] | None = None) -> None:
    """Run a command; raise ``SystemExit`` with its code where it fails."""
    if code := code_of(*command, cwd=cwd, environ=environ):
        raise SystemExit(code)


def code_of(*command: str, cwd: Path | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Run a command and return its code, as a shell would tell it; Ctrl-C lets it end in its own time."""
    sys.stdout.flush()
    with subprocess.Popen(command, cwd=cwd, env={**os.environ, **(environ or {})}) as process:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            process.wait()
            raise
    return code if code >= 0 else 128 - code


def output(*command: str, shown: bool = False) -> str:
    """Return what a command prints, ``shown`` while it runs; raise ``SystemExit`` with its code where it fails."""
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if shown:
                print(line, end="", flush=True)
    if process.returncode:
        raise SystemExit(process.returncode)
    return "".join(lines)


def heading(text: str) -> None:
    """Print a line above what a part of a recipe prints."""
    print(f"== {text}", flush=True)


def packages_of(words: list[str]) -> list[str]:
    """Return the packages that are named, all of them without a word; raise ``SystemExit`` where words name none."""
    names = " ".join(words).split() if words else [*PACKAGES]
    if not names:
        raise SystemExit("name a package")
    return names


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
