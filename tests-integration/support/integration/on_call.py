"""What lives here: the commands of docs/operate/on-call.md, an incident to run them in, and what each asks for.
What never does: a claim.
"""

import re
import shlex
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from click.testing import CliRunner, Result

from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.engines.meter import Meter
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.testing import ManualClock
from zae_limiter_cli.main import main

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "operate" / "on-call.md"
HALF_AN_HOUR_MS, HOUR_MS = 1_800_000, 3_600_000
NOT_COUNTED: Final = (
    "doctor",
    "usage cost",
    "limits diff --with",
)  # what they ask of AWS beside the table is most of it, or all
MANIFEST: Final = "namespace: default\nresources:\n  gpt-4:\n    limits: {rpm: 25/min}\n"
MORE: Final = MANIFEST + "  gpt-4o:\n    limits: {rpm: 5/min}\n"


class Question(NamedTuple):
    """A row of the page; no ``command`` for what no command answers."""

    question: str
    answer: str
    grows: str

    @property
    def command(self) -> str | None:
        """The words behind `zae-limiter`."""
        found = re.fullmatch(r"`zae-limiter ([^`]+)`", self.answer)
        return found[1] if found else None


def questions() -> list[Question]:
    """The rows of the page's table, without what was counted."""
    cells = [line.strip("| ").split(" | ") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    return [Question(row[0], row[1], row[-1]) for row in cells[2:]]  # below the head


def commands() -> list[str]:
    """The commands of the page, in order."""
    return [each.command for each in questions() if each.command is not None]


def prepare(repository: SyncRepository) -> None:
    """A key is refused by its parent, whose tokens another key has used up."""
    limiter = SyncRateLimiter(repository)
    limiter.create_entity("acme-corp")
    for key in ("key-1", "key-2"):
        limiter.create_entity(key, parent_id="acme-corp", cascade=True)
    limiter.set_limits("acme-corp", [Limit.per_minute("rpm", 30)], "gpt-4")
    for key, amount in (("key-1", 5), ("key-2", 25)):
        with limiter.acquire(key, "gpt-4", {"rpm": amount}) as lease:
            lease.adjust(rpm=20 if amount == 25 else 0)
    try:
        with limiter.acquire("key-1", "gpt-4", {"rpm": 15}):
            raise AssertionError("the parent has tokens")
    except RateLimitExceeded:
        repository.close()  # which writes the refusals


def prepare_file() -> None:
    """An incident in the file that ``ZAEL_STORE`` names, and a manifest with a change to come in this folder."""
    Path("limits.yaml").write_text(MANIFEST, encoding="utf-8")
    run("limits apply -f limits.yaml --yes")
    Path("limits.yaml").write_text(MORE, encoding="utf-8")
    prepare(SyncRepository.open())


def run(command: str) -> Result:
    """Run a command as on a terminal of 100 columns."""
    agreed = ["--yes"] if command.startswith(("disable", "limits rollback")) else []
    return CliRunner(env={"COLUMNS": "100"}).invoke(main, [*shlex.split(command), *agreed])


def counted() -> dict[str, Meter]:
    """What each command asks for in an incident of three entities, the opening of the repository included."""
    found = {}
    for command in commands():
        if not command.startswith(NOT_COUNTED):
            with _incident() as meter:
                if command.startswith("limits rollback"):
                    run("limits apply -f limits.yaml --yes")  # which it takes back
                meter.reset()
                done = run(command)
                if done.exit_code:
                    raise RuntimeError(f"{command}: {done.output}")
                found[command] = meter.snapshot()
    return found


@contextmanager
def _incident() -> Iterator[Meter]:
    """A fresh file, at half past this hour, and what is asked of it: as of a table with suffixes in its indexes."""
    now_ms = time.time_ns() // 1_000_000
    meter, clock = Meter(), ManualClock(now_ms - now_ms % HOUR_MS + HALF_AN_HOUR_MS)
    begin = SyncSQLiteStore.__init__

    def begun(store: SyncSQLiteStore, path: Any, **options: Any) -> None:
        begin(store, path, **{**options, "meter": meter, "clock": clock})

    plain = SyncSQLiteStore.capabilities
    spread = patch.object(
        SyncSQLiteStore,
        "capabilities",
        property(lambda store: replace(plain.__get__(store), plain_indexes=False)),
    )
    environment = {"ZAEL_STORE": "sqlite:///limits.db"}
    counting = patch.object(SyncSQLiteStore, "__init__", begun)
    with TemporaryDirectory() as folder, chdir(folder), patch.dict("os.environ", environment), counting, spread:
        prepare_file()
        yield meter
