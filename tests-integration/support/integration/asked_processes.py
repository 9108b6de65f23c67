"""What lives here: processes of their own that take one token whenever they are asked to.
What never does: what they may get.
"""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import NamedTuple

from zae_limiter import Options, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore

TIMEOUT = 30.0  # a store that is slow because the machine is busy is not what these tests are about
_processes = multiprocessing.get_context("spawn")


class Take(NamedTuple):
    """What a process is asked for: one token."""

    entity_id: str
    resource: str


@contextmanager
def standing_by(number: int) -> Iterator[list["AskedProcess"]]:
    """So many processes, for one table after another: a second of CPU each to start."""
    processes = [AskedProcess() for _ in range(number)]
    yield processes
    for each in processes:
        each.close()


class AskedProcess:
    """A process with a limiter, its client and its caches."""

    def __init__(self) -> None:
        self._pipe, theirs = _processes.Pipe()
        self._process = _processes.Process(target=_take_when_asked, args=(theirs,))
        self._process.start()
        theirs.close()

    def open(self, endpoint_url: str, table_name: str) -> None:
        """Close its limiter, and open one that has seen nothing yet."""
        self._pipe.send((endpoint_url, table_name))

    def passes(self, entity_id: str, resource: str) -> bool:
        """Whether one token was there."""
        self._pipe.send(Take(entity_id, resource))
        if not self._pipe.poll(60):
            raise TimeoutError("a process says nothing")
        answer: bool = self._pipe.recv()
        return answer

    def close(self) -> None:
        """End it."""
        self._pipe.send(None)
        self._process.join()
        self._pipe.close()


def _take_when_asked(pipe: Connection) -> None:
    asked = pipe.recv()
    while asked:
        with _limiter(*asked) as limiter:
            while isinstance(asked := pipe.recv(), Take):
                pipe.send(_takes(limiter, asked))


def _limiter(endpoint_url: str, table_name: str) -> SyncRateLimiter:
    options = Options(read_timeout=TIMEOUT, acquire_timeout=None)
    store = SyncDynamoDBStore(table_name, region="us-east-1", endpoint_url=endpoint_url, read_timeout=TIMEOUT)
    return SyncRateLimiter(SyncRepository.over(store, options))


def _takes(limiter: SyncRateLimiter, asked: Take) -> bool:
    try:
        with limiter.acquire(asked.entity_id, asked.resource, {"rpm": 1}):
            return True
    except RateLimitExceeded:
        return False
