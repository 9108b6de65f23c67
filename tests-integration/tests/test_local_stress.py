"""What lives here: a local stack that stops and goes on while much is asked of it; what it holds in memory then.
What never does: how fast it is on an idle machine.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from support.cli.account import eventually
from support.integration.declared import many
from support.integration.embedded import COMMAND, NAME, Embedded, local_stack
from support.integration.emulators import dynoxide
from support.integration.fetch import Unavailable
from zae_limiter import Limit, RateLimiterUnavailable, SyncRateLimiter, SyncRepository
from zae_limiter_manifest import dump

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a process's memory is read in /proc")

ENTITIES = {"moto": 300, "dynoxide": 1000}  # moto is slow; `just stress-local` has 1,000 on both
PAUSES = (1.0, 0.5)  # seconds before each stop; the first ends in the middle of the apply
STOP_SECONDS = 3.5  # longer than a caller waits for an answer, so that all of them ask again
CALLERS = 4
MOST_MB = 500  # 250 at the start
MOST_VIRTUAL_BYTES = 6 * 2**30  # a server that grows without end fails alone
MOST_THREADS = 60


@pytest.mark.long
@pytest.mark.parametrize("plane", ["moto", pytest.param("dynoxide", marks=pytest.mark.long)])
def test_a_large_apply_under_load_ends_well_although_the_server_stops_and_memory_stays_bounded(
    plane: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if plane == "dynoxide":
        monkeypatch.setenv("ZAEL_DYNOXIDE", _dynoxide())
    entities = int(os.environ.get("ZAEL_TEST_ENTITIES", ENTITIES[plane]))
    with local_stack(tmp_path, plane=plane) as stack, pytest.MonkeyPatch.context() as patch:
        for name, value in stack.environment.items():
            patch.setenv(name, value)
        pid = json.loads((tmp_path / "zae-limiter" / "local" / NAME / "running.json").read_text())["pid"]
        resource.prlimit(pid, resource.RLIMIT_AS, (MOST_VIRTUAL_BYTES, MOST_VIRTUAL_BYTES))
        with load(stack) as counts:
            told = applied(pid, tmp_path / "many.yaml", entities)
            assert told.endswith(f"Applied: {entities:,} created, 0 updated, 0 deleted.\n")
            before = counts["admitted"]
            assert eventually(lambda: counts["admitted"] > before + 20)  # callers are served as before
        assert peak_mb(pid) < MOST_MB
        assert eventually(lambda: len(list(Path(f"/proc/{pid}/task").iterdir())) < MOST_THREADS)
        with SyncRepository.open("tenant-alpha", read_timeout=30) as repository:
            last = max(many(entities).entities)
            expected = [Limit.per_minute("rpm", 10), Limit.per_minute("tpm", 10000)]
            assert eventually(lambda: limits_of(repository, last) == expected)


def _dynoxide() -> str:
    try:
        return dynoxide()(0)[0]
    except Unavailable as reason:
        pytest.skip(f"dynoxide: {reason}")


def applied(pid: int, file: Path, entities: int) -> str:
    """The last words of an apply during which the server stops."""
    file.write_text(dump(many(entities)), encoding="utf-8")
    command = [COMMAND, "limits", "apply", "--yes", "-f", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        for pause in PAUSES:
            time.sleep(pause)
            assert run.poll() is None, "the apply was done before the server stopped: declare more entities"
            os.kill(pid, signal.SIGSTOP)
            time.sleep(STOP_SECONDS)
            os.kill(pid, signal.SIGCONT)
        said, _ = run.communicate(timeout=300)
    assert run.returncode == 0, said[-1000:]
    return said


@contextmanager
def load(stack: Embedded) -> Iterator[Counter[str]]:
    """Callers who acquire all the time; what became of it."""
    counts: Counter[str] = Counter()
    end = threading.Event()

    def call(number: int) -> None:
        with SyncRateLimiter(repository=repositories[number]) as limiter:
            while not end.is_set():
                try:
                    with limiter.acquire(f"key-{number}", "gpt-4", {"rpm": 1}):
                        counts["admitted"] += 1
                except RateLimiterUnavailable:
                    counts["unavailable"] += 1
                    end.wait(0.05)

    with SyncRepository.open("load", read_timeout=30) as repository:
        repository.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 1_000_000)])
    repositories = [opened() for _ in range(CALLERS)]
    callers = [threading.Thread(target=call, args=(number,)) for number in range(CALLERS)]
    for caller in callers:
        caller.start()
    try:
        yield counts
    finally:
        end.set()
        for caller in callers:
            caller.join()


def opened() -> SyncRepository:
    """A repository that waits for an answer as long as a user's; a server that has just started may be too busy."""
    for _ in range(30):
        with suppress(RateLimiterUnavailable):
            return SyncRepository.open("load")
    raise AssertionError("the server never answered")


def limits_of(repository: SyncRepository, entity_id: str) -> list[Limit]:
    """An entity's own limits; none while the server still works off what it was asked before it stopped."""
    try:
        return repository.get_limits(entity_id, "gpt-4")
    except RateLimiterUnavailable:
        return []


def peak_mb(pid: int) -> float:
    """The most memory that a process has held."""
    (line,) = [each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024
