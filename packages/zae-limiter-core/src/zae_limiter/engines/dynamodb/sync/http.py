# Generated from aio/http.py by `just variants`: edit that one.
"""Requests over HTTP/1.1: the pool of connections, and the client of one event loop, or of all threads.

The exception of a signal handler may interrupt a thread anywhere, and the end of an event loop may cut off a task. So
the pool has no lock, and whatever such a caller held comes back to it as soon as it is garbage.
"""

import math
import time
import weakref
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from ....operations.errors import Closed, StoreError, Unreachable
from ....operations.values import Operation
from ....runtime.elapsed import elapsed
from ..aws.opening import Service
from ..faults import is_of_credentials, read_fault
from ..options import LEAST_SHARE, ClientOptions
from ..protocol.answers import ErrorAnswer, read_response
from ..protocol.requests import Credentials
from ..protocol.responses import Response
from .connecting import Connection, Dialer
from .primitives import Waker, now, refreshed, result_by, time_for

IDLE_SECONDS: Final = 10.0  # DynamoDB closes a connection that is idle for longer
LOOK_SECONDS: Final = 1.0  # between two looks for idle connections


class SyncSlot:
    """The right to one connection, and the connection if it is open. A lost slot comes back to the pool."""

    def __init__(self, free: weakref.ref[deque["SyncSlot"]]) -> None:
        self._free = free
        self.connection: Connection | None = None
        self.idle_since = 0.0

    @property
    def is_fresh(self) -> bool:
        """Whether it has a connection that another call may use."""
        connection = self.connection
        return connection is not None and elapsed() - self.idle_since < IDLE_SECONDS and connection.is_fresh

    def close(self) -> None:
        """Close the connection."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    def __del__(self) -> None:
        free = self._free()
        if free is not None:
            free.append(type(self)(self._free))
        self.close()


class SyncPool:
    """At most ``most`` connections; callers that wait for one are served in their order."""

    def __init__(self, most: int) -> None:
        self._free: deque[SyncSlot] = deque()  # the last used one is at the end; no signal interrupts a deque's methods
        self._ref = weakref.ref(self._free)  # kept here: that of slots which are garbage is garbage, too
        self._free.extend(SyncSlot(self._ref) for _ in range(most))
        self._waiting: deque[weakref.ref[Waker]] = deque()  # a caller that was interrupted is garbage
        self._next_look = -math.inf
        self.is_closed = False

    def take_free(self) -> SyncSlot | None:
        """Return a free slot unless callers are queued for one; ``give`` takes it back."""
        if not self._waiting and not self.is_closed:
            try:
                return self._free.pop()
            except IndexError:
                pass
        return None

    def take(self, until: float) -> SyncSlot:
        """Wait for a slot and return it by the instant ``until``. Raises ``Unreachable``."""
        turn = Waker()
        place = weakref.ref(turn)
        self._waiting.append(place)
        try:
            while not self.is_closed:
                if self._first() is turn:
                    with suppress(IndexError):
                        return self._free.pop()
                if now() >= until:
                    raise Unreachable("no connection of the pool was free in time")
                turn.wait(until)
            raise Closed("the store is closed")
        finally:
            with suppress(ValueError):
                self._waiting.remove(place)
            self._wake()

    def give(self, slot: SyncSlot) -> None:
        """Take a slot back."""
        if self.is_closed:
            slot.close()
        elif slot.connection is not None:
            slot.idle_since = idle_since = elapsed()
            if idle_since >= self._next_look:
                self._close_idle(idle_since)
        self._free.append(slot)
        if self._waiting:
            self._wake()

    def close(self) -> None:
        """Close the idle connections, and the others when they come back; refuse the callers that wait."""
        self.is_closed = True
        for slot in list(self._free):
            slot.close()
        self._wake()  # the first one, which wakes the next

    def _close_idle(self, at: float) -> None:
        """Close the connections that were idle for too long at an instant."""
        self._next_look = at + LOOK_SECONDS
        for slot in list(self._free):
            if slot.connection is not None and at - slot.idle_since >= IDLE_SECONDS:
                with suppress(ValueError):  # another thread has taken it
                    self._free.remove(slot)
                    slot.close()
                    self._free.appendleft(slot)

    def _first(self) -> Waker | None:
        """Return the first caller that waits."""
        while True:
            try:
                place = self._waiting[0]
            except IndexError:
                return None
            if (turn := place()) is not None:
                return turn
            with suppress(ValueError):
                self._waiting.remove(place)

    def _wake(self) -> None:
        """Wake the first caller that waits, and the one whose turn it is at the last free slot, so that tasks do not
        wake each other in as many turns of the loop. Callers that leave wake others, too: they may have been woken.
        """
        free = len(self._free)
        if (free or self.is_closed) and (turn := self._first()) is not None:
            turn.wake()
            if free > 1:
                with suppress(IndexError):
                    if (turn := self._waiting[free - 1]()) is not None:
                        turn.wake()


class SyncHttpClient:
    """A client over HTTP. ``send`` is its ``Send``."""

    takes_bodies = True
    errors = (ErrorAnswer,)

    def __init__(self, service: Service, options: ClientOptions) -> None:
        self._writer, self._credentials = service.writer, service.credentials
        self._read_timeout = options.read_timeout
        self._operation_timeout = options.operation_timeout
        self._least_time = options.least_time
        self._dialer = Dialer(service, options)
        self._pool = SyncPool(options.max_connections)

    def send(self, name: str, request: dict[str, Any] | bytes, most: float = math.inf) -> Mapping[str, Any]:
        """Send one request, in at most so many seconds. Raises ``ErrorAnswer``, or the ``StoreError`` of a
        connection.
        """
        send_by, until = self._times(most)
        credentials = self._credentials.current() or refreshed(self._credentials, send_by)
        slot = self._pool.take_free() or self._pool.take(send_by)
        try:
            data = self._writer.write(name, request, credentials, time.time())
            connection = slot.connection
            if connection is None or not slot.is_fresh:
                response = self._call_anew(slot, data, send_by, until)
            else:
                try:
                    response = connection.call(data, min(until, now() + self._read_timeout))
                except Unreachable:  # the server closed it at the same time, and certainly did not read the request
                    response = self._call_anew(slot, data, send_by, until)
            if not response.reusable:
                slot.close()
        except BaseException:
            slot.close()  # an answer may still come
            raise
        finally:
            self._pool.give(slot)
        try:
            return read_response(response)
        except ErrorAnswer as error:
            if not is_of_credentials(error.response):
                raise
            return self.send_renewed(name, request, error, credentials, send_by, until)

    def send_renewed(
        self,
        name: str,
        request: dict[str, Any] | bytes,
        error: ErrorAnswer,
        refused: Credentials,
        send_by: float,
        until: float,
    ) -> Mapping[str, Any]:
        """Send a request again that was certainly not applied, if its credentials have been exchanged; else raise
        ``error``.
        """
        if not self._renewed(refused, send_by):
            raise error
        return self.send(name, request, until - now())

    def _times(self, most: float = math.inf) -> tuple[float, float]:
        """Return the instants by which a request has to be sent, and answered."""
        seconds = time_for(min(self._operation_timeout, most))
        until = now() + seconds
        return until - min(self._least_time, seconds / LEAST_SHARE), until

    def _call_anew(self, slot: SyncSlot, data: bytes, send_by: float, until: float) -> Response:
        """Send a request over a new connection."""
        slot.close()
        slot.connection = connection = self._dialer.connect(send_by)
        if self._pool.is_closed:
            raise Closed("the store is closed")
        return connection.call(data, min(until, now() + self._read_timeout))

    def _renewed(self, refused: Credentials, until: float) -> bool:
        """Return whether there are other credentials than those that the store refused; wait for them by ``until``."""
        future = self._credentials.renewed(refused)
        if future is None:
            return False
        with suppress(TimeoutError, StoreError):
            return result_by(future, until) != refused
        return False

    def fault_of(self, operation: Operation[Any], error: ErrorAnswer) -> StoreError | None:
        """Return the store error of an error answer; ``None`` if the operation had nothing to do."""
        return read_fault(operation, error.response)

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()
        self._dialer.close()

    def abandon(self) -> None:
        """Close the connections without the event loop, which may be gone."""
        self._dialer.abandon()
        self._pool.close()

    def leave_to_parent(self) -> None:
        """Leave the connections open in a forked child: closing them would close those of the parent."""
        self._dialer.leave_to_parent(self)
