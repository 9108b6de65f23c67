"""The place of a process: the table, the bucket, the ledger and the network that it starts with.

Lives here: the argument of a process, and its random draws. Never: what a process does.
"""

import json
import os
import random
import sys
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from zae_limiter import Repository, SyncRepository

from .ledger import Ledger

REGION = "us-east-1"
TABLE = "lives"
TEN_YEARS = 10 * 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a process; ``healthy`` where every request is answered, so that every give-back arrives."""

    endpoint_url: str
    ledger: str
    entity_id: str
    resource: str
    seed: int
    healthy: bool
    mode: str
    more: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> Self:
        """The place that ``written`` wrote."""
        return cls(**json.loads(text))

    def written(self) -> str:
        """As an argument of a process."""
        return json.dumps(asdict(self))

    def open_ledger(self) -> Ledger:
        """The ledger, to write."""
        return Ledger(self.ledger)

    def chance(self, *salt: object) -> random.Random:
        """A source of chance; the same for the same place."""
        return random.Random(f"{self.seed} {salt}")

    async def open(self) -> Repository:
        """The repository, as the quick start opens it."""
        return await Repository.open(stack=TABLE, endpoint_url=self.endpoint_url, region=REGION)

    def open_sync(self) -> SyncRepository:
        """The repository, as the quick start opens it."""
        return SyncRepository.open(stack=TABLE, endpoint_url=self.endpoint_url, region=REGION)


def ready() -> None:
    """Tell the supervisor that this process is ready to be interrupted."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()


def in_child(work: Any) -> int:
    """Fork; the child does the work and ends as a process ends. Returns its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - printed as the interpreter prints it
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
