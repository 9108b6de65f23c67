"""A file as one process uses it: one connection, one transaction for each batch of operations.

Group commit. A transaction costs much more than an operation in it, and only one process at a time may write. So
operations that come while a batch is under way wait for the next one, which takes all of them. A batch is taken after
the lock of the file, so that it is as large as the wait was long, and what was not taken is certainly not applied.

Signals. A handler may raise between any two instructions of the main thread, and twice. So no flow of control decides
whether a call has to be performed again, but one list that all calls of a transaction share: it is empty until the
transaction is committed, and COMMIT fills it within one call of C, in which no handler runs. An interrupted batch is
therefore either done, or undone and performed again by the threads that wait for its calls.

The lock is asked for again and again, first after a long pause, then after shorter ones. SQLite's own wait has pauses
of up to 100 ms, in which the file is idle, and no signal ends it; a batch of one holds the lock for some 30 us. Pauses
that begin at 50 us and grow hand the lock from process to process with each batch: 8 processes then switch their
context 1.1 times for an acquire, and take 1.5 times the CPU that they take with pauses of 1 ms. A process that has
waited once asks more often, which shortens the longest waits. A queue in the kernel (``flock``) takes the least CPU,
but has no time-out, twice the 99th percentile, and a share of 0.64 for the least served process, where this has 0.88.

Forks. SQLite's locks belong to a process, and the library remembers which ones it has. In a child these memories are
wrong, for any new connection to the same file, too (https://www.sqlite.org/howtocorrupt.html, 2.6). So the connection
is closed before each fork, and the next operations of parent and child open new ones.

A file that is deleted or replaced lives on without a name, for the processes that have it open: they would share limits
with no process. The same applies to its log and the log's index. So each batch asks for the inodes behind the three
paths, but a busy process not for each of its batches; and a new connection asks for the id in the file, because the
inode of a deleted file is given away again. Using the new file instead would not do: what a repository has read from
the old one, such as the id of its namespace, is not in it. A file that was emptied is a new one as well.
"""

import logging
import os
import random
import sqlite3
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, repeat
from operator import gt, itemgetter
from pathlib import Path
from sqlite3 import Connection, OperationalError
from sqlite3 import Error as SQLiteError
from threading import RLock, get_ident
from typing import Any, ClassVar, Final, Literal, TypeVar

from ...clock.system import Clock
from ...operations.errors import Closed, OutcomeUnknown, StoreError, Unreachable
from ...operations.values import BatchGet, Get, Operation, Query
from ...runtime import forks
from ...values.usage import KEPT_DAYS, Window
from ..engine import Capabilities
from ..meter import Meter
from .connection import LOG_BYTES, checked_schema, connect
from .faults import (
    KEEPS_CONNECTION,
    WAITED_FOR,
    code_of,
    fault_of,
    gone,
    is_of_file,
    is_of_signal,
    log_gone,
    refusal_of,
)
from .place import Inode, checked_path, inode_of, status_of
from .table import SWEPT_AT_ONCE, SQLiteTable
from .usage import reads_usage

logger = logging.getLogger(__name__)
T = TypeVar("T")

MOST_AT_ONCE: Final = 200  # operations of a batch
FIRST_PAUSE: Final = 0.001  # seconds
NEXT_PAUSE: Final = 0.000_25
REST: Final = 64  # batches from one sweep to the next
LOOK_SECONDS: Final = 0.01  # from one look at the inodes to the next: the system calls take 8 % of the smallest batch
PROBE_SECONDS: Final = 0.25  # for which a probe of writes waits for the lock: the reads of this process wait behind it
LOG_WARNS: Final = 4 * LOG_BYTES  # the size of a log that no checkpoint could cut for a while
BESIDE: Final = ("-wal", "-shm")  # the log, and its index
_READS: Final = frozenset((Get, BatchGet, Query))


class WallClock:
    """The wall clock as it is. An offset that each process remembers would let processes drift apart."""

    def now_ms(self) -> int:
        """Return the current time in epoch milliseconds."""
        return time.time_ns() // 1_000_000


class Call:
    """One operation, its answer, and the ``outcome`` of its transaction, which makes the answer valid.

    An outcome is empty until COMMIT is called. Its last entry is then an error, or a cursor if all went well.
    """

    __slots__ = ("answer", "operation", "outcome")

    def __init__(self, operation: Operation[Any]) -> None:
        self.operation = operation
        self.answer: Any = None
        self.outcome: Sequence[object] = ()

    @property
    def done(self) -> bool:
        """Whether the call may not be performed again."""
        return bool(self.outcome)

    def settle(self, answer: Any) -> None:
        """Set the outcome of a call that is in no transaction: an answer, or an error."""
        self.answer = answer
        self.outcome = (None,)

    def result(self) -> Any:
        """Return the answer. Raises ``StoreError``."""
        end = self.outcome[-1]
        answer = end if isinstance(end, Exception) else self.answer
        if isinstance(answer, Exception):
            raise answer from answer.__cause__
        return answer


class SQLiteFile:
    """A file, and the calls that wait for it. ``lock`` is held by the thread that serves them, the ``server``."""

    def __init__(
        self, path: Path, clock: Clock, meter: Meter | None = None, usage_days: Mapping[Window, int] = KEPT_DAYS
    ) -> None:
        self.path = path.absolute()  # a process may change its folder
        self.lock = RLock()
        self.server: int | None = None  # once it has the lock; the async variant has one thread alone
        self.waiting: deque[Call] = deque()
        self._clock, self._meter, self._usage_days = clock, meter, usage_days
        self._until = [0.0]  # the instant by which the calls under way have to end
        # In C alone: SQLite calls it in the middle of a statement, where a signal handler must not run.
        self._is_late = partial(next, map(gt, iter(time.monotonic, None), map(itemgetter(0), repeat(self._until))))
        self._connection: Connection | None = None
        self._table: SQLiteTable  # of the connection
        self._schema: int | None = None  # the version of the tables that the connection has found to be ours
        self._inode: Inode | None = None  # of the file that was opened first
        self._beside: dict[str, Inode | None] = {}  # by path, of the log and its index as the connection opened them
        self._id: bytes | None = None  # its own
        self._look_at = 0.0  # the instant of the next look at it
        self._batches, self._sweep_at = 0, REST
        self._log_warns = LOG_WARNS  # the bytes of the log at which there is a warning
        self._closed = self._held_for_fork = self._carried_over = self._log_is_lost = False
        self._in_doubt = OutcomeUnknown(f"{self.path}: a signal interrupted the program as a commit failed")
        forks.prepare(self)

    def serve(self, until: float) -> Sequence[Call]:
        """Perform the calls that wait, in one transaction, and return them, settled; with the ``lock`` held.

        Raises ``StoreError`` if the file cannot be used by ``until``, an instant of ``time.monotonic``: then no call
        was taken.
        """
        self._until[0] = until
        if self._connection is not None and self._connection.in_transaction:
            self._roll_back(self._connection)  # a second signal may have interrupted the handler of the first one
        connection = self._opened(until)
        reads_alone = all(_only_reads(call.operation) for call in tuple(self.waiting))
        calls: list[Call] = []
        try:
            self._begin(connection, until, "BEGIN" if reads_alone else "BEGIN IMMEDIATE")
            while self.waiting and len(calls) < MOST_AT_ONCE:
                if reads_alone and not _only_reads(self.waiting[0].operation):
                    break  # it came since, and needs the lock of a write
                calls.append(self.waiting.popleft())
            self._perform(connection, calls, until)
            if self._table.in_future:
                self._bring_back(connection, until)
        except BaseException as error:
            self._roll_back(connection)  # first: the lock keeps other processes from the file
            self.waiting.extendleft(reversed([call for call in calls if not call.done]))
            if isinstance(error, SQLiteError):  # of the begin
                raise self._failed(error) from error
            raise  # a signal: the threads that wait for the other calls perform them
        return calls

    def withdraw(self, call: Call) -> bool:
        """Remove an abandoned call from the queue; return whether it was still queued, so that it is not applied."""
        try:
            self.waiting.remove(call)
        except ValueError:
            return False
        return True

    def close(self) -> None:
        """Close the connection; calls after it are ``Closed``."""
        with self.lock:
            self._closed = True
            self._disconnect()

    def __del__(self) -> None:
        """Close the connection of a program that ends without closing."""
        if getattr(self, "_connection", None) is not None:
            self._disconnect()

    def before_fork(self, patience: float) -> None:
        """Close the connection, and hold the lock during the fork."""
        self._held_for_fork = self.server != get_ident() and self.lock.acquire(timeout=patience)
        if self._held_for_fork:
            self._disconnect()

    def after_fork(self) -> None:
        """Release the lock."""
        if self._held_for_fork:
            self._held_for_fork = False
            self.lock.release()

    def forget(self) -> None:
        """Reset after a fork: the child opens a connection of its own."""
        self._carried_over = self._carried_over or not self._held_for_fork
        self._held_for_fork = False
        self._look_at = 0.0
        self.lock, self.server, self.waiting = RLock(), None, deque()

    def _opened(self, until: float) -> Connection:
        self._batches += 1
        if self._connection is not None and time.monotonic() < self._look_at:
            return self._connection
        if self._closed:
            raise Closed("the store is closed")
        if self._log_is_lost:
            raise log_gone(self.path)
        if self._carried_over:
            raise Unreachable(
                f"{self.path} was in use for too long when this process was forked: open it after the fork"
            )
        self._check_inodes()
        if self._connection is None:
            connection, file_id = connect(self.path, lambda call: self._patiently(call, until), self._is_late)
            try:
                if self._id not in (None, file_id):  # another file than the first connection opened
                    raise gone(self.path)
                self._id = file_id
                self._inode = inode_of(self.path)
                real = os.path.realpath(self.path)  # where SQLite has them
                self._beside = {real + suffix: inode_of(real + suffix) for suffix in BESIDE}
                self._table = SQLiteTable(connection, self._clock, self._meter, self._usage_days)
                self._schema = None
                self._connection = connection  # last: a signal may come before
            except BaseException:
                connection.close()
                raise
        return self._connection

    def _check_inodes(self) -> None:
        """Raise ``Unreachable`` if the paths no longer name what was opened."""
        if self._inode is not None and inode_of(self.path, least=1) != self._inode:
            self._disconnect()
            raise gone(self.path)
        if self._connection is not None and any(inode_of(path) != inode for path, inode in self._beside.items()):
            self._log_is_lost = True  # for ever: what it had, no new connection finds
            # The end of a connection must not write its lost log into the file, or delete that of other processes.
            if sys.version_info >= (3, 12) and any(  # before, SQLite decides by the locks alone
                inode_of(path) not in (None, inode) for path, inode in self._beside.items()
            ):
                self._connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)
            self._disconnect()
            raise log_gone(self.path)
        self._look_at = time.monotonic() + LOOK_SECONDS

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(SQLiteError):
                connection.close()

    def _begin(self, connection: Connection, until: float, statement: str = "BEGIN IMMEDIATE") -> None:
        """Begin a transaction. Raises ``sqlite3.Error``; ``NotApplied`` for tables that are not ours any more, or those
        of another release: what another program has added to them would run with our statements.
        """
        self._patiently(connection.execute, until, statement)
        if not self._table.begin():
            self._schema = checked_schema(connection, self.path, self._is_late, self._schema)

    def _patiently(self, call: Callable[..., T], until: float, *values: object) -> T:
        """Return the result of a call, which is repeated while the file is locked. Raises ``sqlite3.Error``."""
        pause = FIRST_PAUSE
        while True:
            try:
                return call(*values)
            except OperationalError as error:
                if code_of(error) not in WAITED_FOR or time.monotonic() >= until:
                    raise
            time.sleep(pause * (0.5 + random.random()))
            pause = NEXT_PAUSE

    def _perform(self, connection: Connection, calls: Sequence[Call], until: float) -> None:
        """Settle the calls by one transaction, which has begun. Each call that spoils it fails alone: the others begin
        again.
        """
        left = calls
        while left:
            spoiler = self._attempt(connection, left, until)
            if spoiler is None:
                return
            left = [call for call in left if call is not spoiler]
        self._roll_back(connection)

    def _attempt(self, connection: Connection, calls: Sequence[Call], until: float) -> Call | None:
        """Settle the calls, and return ``None``; or the one that spoils the transaction, the only one settled."""
        outcome: list[object] = []
        answered = 0
        try:
            if not connection.in_transaction:
                self._begin(connection, until)
            self._count_usage(connection, calls, until)
            if self._batches >= self._sweep_at and not all(_only_reads(call.operation) for call in calls):
                self._sweep()
            for call in calls:
                call.outcome = outcome
                try:
                    call.answer = self._table.execute(call.operation)
                except StoreError as refusal:  # nothing was written
                    call.answer = refusal
                answered += 1
            # One call of C, so that no signal comes between a commit and what makes the calls done. An error of COMMIT
            # leaves the first entry: the transaction may be in the file, so its calls are not performed again.
            outcome.extend(chain((self._in_doubt,), map(connection.execute, ("COMMIT",))))
            self._table.committed = True
        except Exception as error:
            behind = answered == len(calls) and not isinstance(error, SQLiteError)
            if len(outcome) > 1 or behind or is_of_signal(error):
                raise  # of a signal handler: in a call, whose fault it is not, just before the commit, or behind it
            self._roll_back(connection)
            if answered < len(calls) and not is_of_file(error):
                calls[answered].settle(refusal_of(error))
                return calls[answered]
            fault = self._failed(error, committing=bool(outcome))
            for call in calls:
                call.outcome = outcome
            outcome.append(fault)  # settles all at once
        return None

    def _bring_back(self, connection: Connection, until: float) -> None:
        """Write buckets that a fast clock has left, so that their time begins to count."""
        with suppress(SQLiteError, StoreError):  # else the next batch that reads them does so
            self._begin(connection, until)
            self._table.bring_back()
            connection.execute("COMMIT")
        self._roll_back(connection)

    def _count_usage(self, connection: Connection, calls: Sequence[Call], until: float) -> None:
        """Count what the calls could read of usage, in transactions of their own but for the last."""
        for call in calls:
            while reads_usage(call.operation) and self._table.count_usage_for(call.operation):
                connection.execute("COMMIT")
                self._begin(connection, until)

    def _sweep(self) -> None:
        """Remove some of what has expired, and look at the log."""
        more = self._table.sweep() == SWEPT_AT_ONCE
        self._sweep_at = self._batches + (1 if more else REST)
        self._look_at_log()

    def _look_at_log(self) -> None:
        """Warn of a log that grows. SQLite writes it into the file and cuts it once no reader needs it any more."""
        (log, _) = self._beside
        found = status_of(log)
        size = 0 if found is None else found.st_size
        if size < LOG_BYTES:
            self._log_warns = LOG_WARNS
        elif size >= self._log_warns:
            self._log_warns = 2 * size
            logger.warning(
                "the log of %s has %d MB, and grows with each write: another program has been reading the file for"
                " long; find it by `fuser %s`. Once its transaction ends, the log is cut",
                self.path, size >> 20, self.path,
            )  # fmt: skip

    def _roll_back(self, connection: Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except SQLiteError:  # also of a connection that is closed
            self._disconnect()

    def _failed(self, error: Exception, *, committing: bool = False) -> StoreError:
        """Return the fault of an error; begin with a new connection next time unless the file is just in use."""
        if code_of(error) not in KEEPS_CONNECTION:
            self._disconnect()
        return fault_of(error, self.path, committing=committing)


class OverFile:
    """What the stores of both variants have: a file, which the first operation opens, or makes.

    ``clock`` is that of all processes of the host, by default; ``meter`` counts what the requests would cost on
    DynamoDB. ``usage_days``: the life of usage by its window, 0 for ever.
    """

    _deadlines: ClassVar[Literal["driver", "engine"]] = "driver"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        meter: Meter | None = None,
        usage_days: Mapping[Window, int] = KEPT_DAYS,
    ) -> None:
        self.path: Path = checked_path(path)
        """The path of the file."""
        self.clock: Clock = clock or WallClock()
        """The time of usage and of expiry, and that of repositories over the store."""
        self.meter: Meter | None = meter
        """Counts requests and units, if there is one."""
        self._file = SQLiteFile(self.path, self.clock, meter, usage_days)

    @property
    def capabilities(self) -> Capabilities:
        """The clock of the host; usage is counted with each write, and what has expired goes."""
        return Capabilities(
            clock=self.clock,
            meter=self.meter,
            deadlines=self._deadlines,
            expiry=True,
            plain_indexes=True,
            usage=True,
            prefetch_from=20,  # a transaction that prefetches tokens has the CPU of several that do not
        )


def _only_reads(operation: Operation[Any]) -> bool:
    return type(operation) in _READS and not reads_usage(operation)
