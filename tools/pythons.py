"""What lives here: the Pythons that are promised, and where this machine has them.
What never does: what is run on them (justfile).

A line for each on standard output, version and path; what was not found is named on standard error.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from skips import keep

PROMISED: Final = ("3.11", "3.12", "3.13", "3.14")

ASK: Final = """
import sys
assert sys.implementation.name == "cpython" and sys.prefix == sys.base_prefix and "t" not in sys.abiflags
print(".".join(map(str, sys.version_info[:3])), sys.executable)
"""


class Python(NamedTuple):
    """An interpreter that runs."""

    release: tuple[int, ...]
    path: Path

    @property
    def version(self) -> str:
        """Without the patch: ``3.12``."""
        return ".".join(map(str, self.release[:2]))


def find(environ: Mapping[str, str]) -> dict[str, Python]:
    """Return the newest patch of each version that is promised, by version, as far as they are here."""
    paths = {path.resolve() for path in (*_on_path(environ), *_of_pyenv(environ), *_of_uv(environ))}
    found = sorted(filter(None, map(ask, paths)))
    return {python.version: python for python in found if python.version in PROMISED}


def ask(path: Path) -> Python | None:
    """Return the interpreter behind a path; ``None`` where there is none, or no plain CPython of its own: an
    environment.
    """
    try:
        done = subprocess.run([path, "-I", "-c", ASK], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    release, _, executable = done.stdout.strip().partition(" ")
    return Python(tuple(map(int, release.split("."))), Path(executable))


def _on_path(environ: Mapping[str, str]) -> Iterator[Path]:
    for folder in environ.get("PATH", "").split(os.pathsep):
        yield from _among(Path(folder) / f"python{version}" for version in PROMISED)


def _of_pyenv(environ: Mapping[str, str]) -> Iterator[Path]:
    root = Path(environ.get("PYENV_ROOT") or Path(environ.get("HOME", "/")) / ".pyenv")
    for version in PROMISED:
        yield from _among(root.glob(f"versions/{version}.*/bin/python{version}"))


def _of_uv(environ: Mapping[str, str]) -> Iterator[Path]:
    listing = [environ.get("UV", "uv"), "python", "list", "--only-installed", "--output-format", "json"]
    try:
        done = subprocess.run(listing, capture_output=True, text=True, timeout=60, check=True, env=dict(environ))
    except (OSError, subprocess.SubprocessError):
        return
    yield from _among(Path(each["path"]) for each in json.loads(done.stdout) if each["path"])


def _among(paths: Iterable[Path]) -> Iterator[Path]:
    return (path for path in paths if path.is_file())


def main() -> int:
    """Print what was found, and what was not; 1 where nothing was."""
    found = find(os.environ)
    missing = [version for version in PROMISED if version not in found]
    if missing:
        print("not found here:", *(f"Python {version}" for version in missing), file=sys.stderr)
    keep(0, {f"Python {version} is not here": 1 for version in missing})
    for version, python in found.items():
        print(version, python.path)
    if not found:
        print("error: none of them is here", file=sys.stderr)
    return int(not found)


if __name__ == "__main__":
    sys.exit(main())
