"""What lives here: processes of their own that take one token whenever they are asked to.
What never does: what they may get.
"""

import multiprocessing
from multiprocessing.connection import Connection

from zae_limiter import Options, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore

TIMEOUT = 30.0  # a store that is slow because the machine is busy is not what these tests are about
_processes = multiprocessing.get_context("spawn")


class AskedProcess:
    """A process with a limiter, its client and its caches."""

    def __init__(self, endpoint_url: str, table_name: str) -> None:
        self._pipe, theirs = _processes.Pipe()
        self._process = _processes.Process(target=_take_when_asked, args=(theirs, endpoint_url, table_name))
        self._process.start()
        theirs.close()

    def passes(self, entity_id: str, resource: str) -> bool:
        """Whether one token was there."""
        self._pipe.send((entity_id, resource))
        if not self._pipe.poll(60):
            raise TimeoutError("a process says nothing")
        answer: bool = self._pipe.recv()
        return answer

    def close(self) -> None:
        """End it."""
        self._pipe.send(None)
        self._process.join()
        self._pipe.close()


def _take_when_asked(pipe: Connection, endpoint_url: str, table_name: str) -> None:
    options = Options(read_timeout=TIMEOUT, acquire_timeout=None)
    store = SyncDynamoDBStore(table_name, region="us-east-1", endpoint_url=endpoint_url, read_timeout=TIMEOUT)
    with SyncRateLimiter(SyncRepository.over(store, options)) as limiter:
        while asked := pipe.recv():
            entity_id, resource = asked
            try:
                with limiter.acquire(entity_id, resource, {"rpm": 1}):
                    pipe.send(True)
            except RateLimitExceeded:
                pipe.send(False)
