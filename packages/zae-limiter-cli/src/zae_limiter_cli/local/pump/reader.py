"""The thread that reads one stream for one function: batch by batch, each to its end."""

import json
import logging
import threading
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from .checkpoints import Checkpoints
from .dead_letters import dead_letter
from .delivery import Attempt, GivenUp, Reply, deliver
from .mapping import Mapping
from .stream import Batch, Stream

POLL_SECONDS: Final = 1.0  # where nothing rings, as when TTL removes an item
FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 10.0

logger = logging.getLogger(__name__)


class _Stopped(Exception):
    """The reader has to end in the middle of a batch; the next reader begins with it."""


@dataclass(frozen=True, slots=True)
class Clients:
    """Clients of this AWS: Lambda, SQS, and DynamoDB's streams."""

    functions: Any
    queues: Any
    streams: Any

    def close(self) -> None:
        """Close them all."""
        for client in (self.functions, self.queues, self.streams):
            client.close()


@dataclass(slots=True)
class Tally:
    """The counts of a reader so far."""

    records: int = 0
    batches: int = 0
    given_up: int = 0
    failure: str = ""


class Reader:
    """Delivers what a mapping asks for until it is stopped."""

    def __init__(self, mapping: Mapping, clients: Clients, checkpoints: Checkpoints) -> None:
        self.mapping = mapping
        self.tally = Tally()
        self._clients = clients
        self._checkpoints = checkpoints
        self._name = f"{mapping.table} {mapping.function_arn.rpartition(':')[2]}"
        self._positions = checkpoints.load(self._name)
        self._stream = Stream(clients.streams, mapping.stream_arn, self._positions)
        self._bell = threading.Event()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to read. If the mapping starts at the latest record, skip what is there now."""
        if self.mapping.latest and not self._positions:
            self._stream.skip_all()
        self._thread.start()

    def ring(self) -> None:
        """Look at once: something was written."""
        self._bell.set()

    def stop(self) -> None:
        """End, even in the middle of a batch."""
        self._end.set()
        self._bell.set()

    def join(self, seconds: float | None = None) -> None:
        """Wait until it has ended."""
        self._thread.join(seconds)

    def _run(self) -> None:
        while not self._end.is_set():
            self._bell.clear()
            try:
                moved = self._take_batch()
                self.tally.failure = ""
            except _Stopped:
                return
            except Exception as error:  # noqa: BLE001  a reader goes on, and says what holds it up
                moved = False
                self._note(error)
            if not moved:
                self._bell.wait(POLL_SECONDS)

    def _note(self, error: Exception) -> None:
        told = f"{type(error).__name__}: {error}"
        if told != self.tally.failure:
            logger.warning("the stream of %s is not read: %s", self.mapping.table, told)
        self.tally.failure = told

    def _take_batch(self) -> bool:
        batch = self._read()
        if batch is None:
            return False
        wanted = [record for record in batch.records if self.mapping.wants(record)]
        if wanted:
            self._deliver(wanted, batch.shard)
            self.tally.records += len(wanted)
            self.tally.batches += 1
        self._stream.done(batch)
        self._checkpoints.save(self._name, self._positions)
        return True

    def _read(self) -> Batch | None:
        """Return a batch; if it is not full, what there is at the end of the mapping's window.

        It is read twice at most, however long the window: each read takes dynoxide longer, the more it has written.
        """
        size = self.mapping.batch_size
        batch = self._stream.read(size)
        if batch is None or len(batch.records) >= size or not self.mapping.window_seconds:
            return batch
        self._pause(self.mapping.window_seconds)
        return self._stream.read(size)

    def _deliver(self, records: list[dict[str, Any]], shard: str) -> None:
        delivery = deliver(records, self.mapping.policy)
        step = next(delivery, None)
        while step is not None:
            reply = None
            match step:
                case Attempt(_, retry):
                    self._pause(_pause_seconds(retry))
                    reply = self._invoke(step)
                case GivenUp():
                    self._bury(step, shard)
            try:
                step = delivery.send(reply)
            except StopIteration:
                return

    def _invoke(self, attempt: Attempt) -> Reply:
        payload = json.dumps({"Records": attempt.records}).encode()
        client, throttled = self._clients.functions, 0
        while True:
            try:
                answer = client.invoke(FunctionName=self.mapping.function_arn, Payload=payload)
            except client.exceptions.TooManyRequestsException:
                throttled += 1  # costs no retry
                self._pause(_pause_seconds(throttled))
            else:
                content = answer["Payload"].read()
                return Reply(failed=True) if "FunctionError" in answer else Reply(json.loads(content))

    def _bury(self, given_up: GivenUp, shard: str) -> None:
        self.tally.given_up += len(given_up.records)
        logger.warning("%d records of %s were given up", len(given_up.records), self.mapping.table)
        if self.mapping.dead_letters is None:
            return
        told = dead_letter(given_up, self.mapping, shard=shard, request_id=str(uuid.uuid4()), now=datetime.now(UTC))
        queue = self._clients.queues.get_queue_url(QueueName=self.mapping.dead_letters.rpartition(":")[2])["QueueUrl"]
        self._clients.queues.send_message(QueueUrl=queue, MessageBody=json.dumps(told))

    def _pause(self, seconds: float) -> None:
        if self._end.wait(seconds):
            raise _Stopped


def _pause_seconds(retry: int) -> float:
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**retry) if retry else 0
