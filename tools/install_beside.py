"""What lives here: the check that core's wheel fits into an environment of others, the newest boto3 among them;
its size and import time, alone and with each library of AWS; those of the command line, without and with its extra.
What never does: an environment that stays.

    install_beside.py     with tests-integration on the path, whose emulator answers the acquire
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from support.integration.emulators import dynoxide, running

ROOT: Final = Path(__file__).resolve().parent.parent
OTHERS: Final = ("boto3", "langchain-aws", "fastapi")
IMPORTS: Final = 9

ACQUIRE: Final = """
import asyncio, sys
from zae_limiter import Limit, RateLimiter, Repository, SyncRateLimiter, SyncRepository

LIMITS = [Limit.per_minute("rpm", 2)]


async def in_async() -> object:
    repository = await Repository.builder().stack("beside-async").create_table().build()
    async with RateLimiter(repository=repository) as limiter:
        await limiter.set_resource_defaults("gpt-4", LIMITS)
        async with limiter.acquire("key", "gpt-4", {"rpm": 1}):
            return await limiter.available("key", "gpt-4")


def in_sync() -> object:
    repository = SyncRepository.builder().stack("beside-sync").create_table().build()
    with SyncRateLimiter(repository=repository) as limiter:
        limiter.set_resource_defaults("gpt-4", LIMITS)
        with limiter.acquire("key", "gpt-4", {"rpm": 1}):
            return limiter.available("key", "gpt-4")


for left in (asyncio.run(in_async()), in_sync()):
    assert left == {"rpm": 1}, left
assert "aioboto3" not in sys.modules
"""

IMPORT: Final = """
import time
begun = time.perf_counter()
import zae_limiter
print(time.perf_counter() - begun)
"""


class Environment:
    """A virtual environment of uv in a folder."""

    def __init__(self, home: Path) -> None:
        self._home = home
        _uv("venv", "--quiet", "--python", sys.executable, str(home))

    def _pip(self, command: str, *arguments: str) -> str:
        # in another folder: the workspace excludes what others depend on
        return _uv("pip", command, "--python", str(self._home), *arguments, folder=self._home)

    def install(self, *wanted: str) -> None:
        """As ``pip install``: nothing that is there is upgraded."""
        self._pip("install", "--quiet", *wanted)

    def check(self) -> None:
        """Raise unless all requirements are met."""
        self._pip("check", "--quiet")

    def versions(self) -> dict[str, str]:
        """Return the version of each distribution, by name."""
        listing = json.loads(self._pip("list", "--format", "json"))
        return {each["name"]: each["version"] for each in listing}

    def run(self, code: str, environ: Mapping[str, str]) -> str:
        """Return what a program prints."""
        python = self._home / "bin" / "python"
        done = subprocess.run([python, "-I", "-c", code], env=environ, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout

    def megabytes(self) -> float:
        """Return the size of what is installed."""
        (packages,) = self._home.glob("lib/python*/site-packages")
        return sum(path.stat().st_size for path in packages.rglob("*") if path.is_file()) / 1e6


def _uv(*arguments: str, folder: Path = ROOT) -> str:
    uv = os.environ.get("UV", "uv")
    return subprocess.run([uv, *arguments], cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout


def build(folder: Path) -> dict[str, str]:
    """Return the paths of all wheels, built from the tree, by the distribution's name."""
    _uv("build", "--quiet", "--all-packages", "--wheel", "--out-dir", str(folder))
    return {wheel.name.partition("-")[0].replace("_", "-"): str(wheel) for wheel in folder.glob("*.whl")}


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return one line for each distribution that has another version than before, or is gone."""
    return [
        f"{name} {version} became {after.get(name, 'nothing')}"
        for name, version in before.items()
        if after.get(name) != version
    ]


def beside(home: Path, wheel: str) -> list[str]:
    """Return what the wheel changed among the others; with all as it was, an acquire of both variants has worked."""
    environment = Environment(home)
    environment.install(*OTHERS)
    before, size = environment.versions(), environment.megabytes()
    print("there:", *(f"{name} {before[name]}," for name in (*OTHERS, "botocore")), f"{len(before)} distributions")
    environment.install(wheel)
    after = environment.versions()
    added = [f"{name} {after[name]}" for name in sorted(after.keys() - before)]
    print(f"added: {', '.join(added)}; {environment.megabytes() - size:.1f} MB")
    if not (changed := changes(before, after)):
        environment.check()
        with running(dynoxide()) as url:
            where = {"AWS_ENDPOINT_URL_DYNAMODB": url, "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}
            environment.run(ACQUIRE, {**where, "AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"})
        print("an acquire works, async and sync")
    return changed


def measure(home: Path, *wanted: str) -> str:
    """Size and import time of an environment that has nothing else."""
    environment = Environment(home)
    environment.install(*wanted)
    versions = environment.versions()
    size = environment.megabytes()
    environment.run(IMPORT, {})  # compiles
    median = statistics.median(float(environment.run(IMPORT, {})) for _ in range(IMPORTS))
    boto3 = f"boto3 {versions['boto3']}" if "boto3" in versions else "no boto3"
    return f"{size:.1f} MB in {len(versions)} distributions, {boto3}, import in {median * 1000:.0f} ms"


def main() -> int:
    """Print what was found; 1 where the wheel changed something."""
    with tempfile.TemporaryDirectory() as scratch:
        wheels = build(Path(scratch))
        wheel, cli = wheels["zae-limiter-core"], wheels["zae-limiter-cli"]
        changed = beside(Path(scratch) / "beside", wheel)
        print("core[aioboto3] alone:", measure(Path(scratch) / "sdk", f"{wheel}[aioboto3]"))
        print("core[dynamodb] alone:", measure(Path(scratch) / "http", f"{wheel}[dynamodb]"))
        print("core alone:", measure(Path(scratch) / "core", wheel))
        print("command line:", measure(Path(scratch) / "cli", *wheels.values()))
        print("cli[local]:", measure(Path(scratch) / "local", *wheels.values(), f"{cli}[local]"))
    print(*changed, sep="\n", end="\n" if changed else "", file=sys.stderr)
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
