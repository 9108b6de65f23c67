"""Requests that leave at once and call back with their answer: no task waits for them.

A task costs its own making, and three turns of the event loop from the request to the caller behind it: one to begin,
one to wake for the answer, one to wake the caller. After the milliseconds of a request the processor's caches are cold,
so that each turn costs several times what it costs in a loop. A request starts this way while nothing has to be waited
for: there are credentials, and a free connection that is open. ``HttpClient.send`` does the others, and whatever
remains of one that has to be sent again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from time import time
from typing import Any

from ....operations.errors import OutcomeUnknown, StoreError, Unreachable
from ....runtime.tasks import background_task
from ..aws.opening import Service
from ..faults import is_of_credentials
from ..options import ClientOptions
from ..protocol.answers import ErrorAnswer, read_response
from ..protocol.requests import Credentials
from ..protocol.responses import Response
from .connecting import Connection
from .http import HttpClient, Slot

Done = Callable[[Mapping[str, Any] | None, Exception | None], None]
Request = tuple[str, Any]


class StartingClient(HttpClient):
    """A client over HTTP that can also start requests."""

    def __init__(self, service: Service, options: ClientOptions) -> None:
        super().__init__(service, options)
        self._loop = asyncio.get_running_loop()
        self._resent: set[asyncio.Task[None]] = set()

    def ready_call(self) -> "Call | None":
        """Return a call that has its connection, and is to be started or given up; ``None`` if one had to be waited
        for.
        """
        credentials = self._credentials.current()
        slot = None if credentials is None else self._pool.take_free()
        if credentials is None or slot is None:
            return None
        if slot.is_fresh and slot.connection is not None:
            return Call(self, slot, slot.connection, credentials)
        slot.close()
        self._pool.give(slot)
        return None

    def send_again(self, call: "Call", request: Request, refusal: ErrorAnswer | None, done: Done) -> None:
        """Let a task send a request again that was certainly not applied: as it is, or with other credentials than
        those of a ``refusal``.
        """
        if refusal is None:
            sent = self.send(*request, call.until - self._loop.time())
        else:
            sent = self.send_renewed(*request, refusal, call.credentials, call.send_by, call.until)
        task = background_task(self._loop, _settle(sent, done))
        self._resent.add(task)
        task.add_done_callback(partial(self._ended, sent, done))

    def _ended(self, sent: Coroutine[Any, Any, Any], done: Done, task: "asyncio.Task[None]") -> None:
        """Notify the waiting caller of a cancelled task, perhaps before its first step."""
        self._resent.discard(task)
        if task.cancelled():
            sent.close()
            done(None, OutcomeUnknown("the request was cut off"))


class Call:
    """A request under way. Its connection settles it as it would a future."""

    __slots__ = ("_client", "_done", "_request", "_slot", "connection", "credentials", "send_by", "until")

    def __init__(self, client: StartingClient, slot: Slot, connection: Connection, credentials: Credentials) -> None:
        self._client = client
        self._slot: Slot | None = slot
        self.connection = connection
        self.credentials = credentials
        self.send_by = self.until = 0.0

    def start(self, name: str, request: Any, done: Done) -> None:
        """Send the request; later, ``done`` is called once with its answer, or with its error."""
        self._request, self._done, client = (name, request), done, self._client
        self.send_by, self.until = client._times()
        try:
            data = client._writer.write(name, request, self.credentials, time())
            self.connection.start(data, min(self.until, client._loop.time() + client._read_timeout), self)
        except Unreachable as error:
            self.set_exception(error)
        except BaseException:
            self._end(reusable=False)
            raise

    def give_up(self) -> None:
        """Give the connection back that nothing was sent over."""
        self._end(reusable=True)

    def done(self) -> bool:
        """Return whether the call is settled."""
        return self._slot is None

    def set_result(self, response: Response, /) -> None:
        """Give the connection back, and pass the answer on."""
        try:
            self._end(reusable=response.reusable)
            self._pass_on(response)
        except BaseException:
            self._interrupted()
            raise

    def _pass_on(self, response: Response) -> None:
        try:
            answer = read_response(response)
        except ErrorAnswer as error:
            if is_of_credentials(error.response):
                self._client.send_again(self, self._request, error, self._done)
            else:
                self._done(None, error)
        except StoreError as error:
            self._done(None, error)
        else:
            self._done(answer, None)

    def set_exception(self, error: Exception, /) -> None:
        """Close the connection, over which an answer may still come, and pass the error on. A request that the server
        certainly did not read is sent again.
        """
        try:
            self._end(reusable=False)
            if isinstance(error, Unreachable):
                self._client.send_again(self, self._request, None, self._done)
            else:
                self._done(None, error)
        except BaseException:
            self._interrupted()
            raise

    def _interrupted(self) -> None:
        """Notify the waiting caller, perhaps again, that a signal handler raised before the answer was passed on."""
        self._done(None, OutcomeUnknown("the answer was interrupted by an exception"))

    def _end(self, *, reusable: bool) -> None:
        slot, self._slot = self._slot, None
        if slot is not None:
            self.connection.finish(self)
            if not reusable:
                slot.close()
            self._client._pool.give(slot)


async def _settle(sent: Awaitable[Mapping[str, Any]], done: Done) -> None:
    try:
        answer = await sent
    except Exception as error:  # noqa: BLE001 - the waiting caller gets it, whatever it is
        done(None, error)
    except asyncio.CancelledError:
        raise  # `StartingClient._ended` notifies
    except BaseException:
        done(None, OutcomeUnknown("the request was cut off"))
        raise
    else:
        done(answer, None)
