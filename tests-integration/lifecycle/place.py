"""What a process is told when it starts.

Lives here: where the table is, which buckets it takes from, how the weather is. Never: what it does.
"""

import json
import os
import random
import sys
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from zae_limiter import Repository, SyncRepository

from .book import Book

REGION = "us-east-1"
TABLE = "lives"
TEN_YEARS = 10 * 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process takes tokens; ``fair`` says that the store is well, so that every give-back arrives."""

    endpoint_url: str
    ledger: str
    entity_id: str
    resource: str
    seed: int
    fair: bool
    way: str
    more: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> Self:
        """The place that ``written`` wrote."""
        return cls(**json.loads(text))

    def written(self) -> str:
        """As an argument of a process."""
        return json.dumps(asdict(self))

    def book(self) -> Book:
        """The ledger."""
        return Book(self.ledger)

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
    """Tell who attends to this process that it has begun what it is to be interrupted in."""
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
    except BaseException:  # noqa: BLE001 - told as the interpreter tells it
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
