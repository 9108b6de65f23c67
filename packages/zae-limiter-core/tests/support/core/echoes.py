"""Servers that answer each request with its own name, and callers of both variants.

Lives here: real sockets, in threads. Never: a claim.
"""

import asyncio
import json
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

import pytest

from support.core.authority import Authority
from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.engines.time_left import set_deadline
from zae_limiter.operations.errors import OutcomeUnknown, StoreError
from zae_limiter.operations.values import Get, Key

LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
PATIENCE = 30.0  # seconds for what happens soon, also on a busy machine
GIVE_UP = 0.5  # seconds, in which a request is sent
STORE: dict[str, Any] = {"region": "us-east-1", "connect_timeout": PATIENCE, "read_timeout": PATIENCE}


class Peer:
    """One connection, as its server has it."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._received = b""

    def request(self) -> str | None:
        """The name that the next request asks for, ``None`` at the end of the connection."""
        while True:
            head, end, body = self._received.partition(b"\r\n\r\n")
            length = LENGTH.search(head)
            if end and len(body) >= (size := int(length[1]) if length else 0):
                self._received = body[size:]
                return str(json.loads(body[:size])["Key"]["PK"]["S"])
            if not (data := self._socket.recv(65536)):
                return None
            self._received += data

    def answer(self, *names: str) -> None:
        """Send answers with these names, at once."""
        bodies = [json.dumps({"Item": {"PK": {"S": name}, "SK": {"S": "s"}}}).encode() for name in names]
        self._socket.sendall(b"".join(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(b), b) for b in bodies))

    def reset_at_close(self) -> None:
        """Have the close of the connection reset it, whatever was read."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def read_without_treating(self) -> None:
        """Close one half of the connection, and read from the other half what nobody treats, until it is closed."""
        self._socket.shutdown(socket.SHUT_WR)
        self._socket.settimeout(0.2)
        while self._socket.recv(65536):
            pass


Treat = Callable[[Peer, str], None]  # the treatment of a request; the server closes the connection if it raises


def echo(peer: Peer, name: str) -> None:
    peer.answer(name)


class Server:
    """Treats requests in a thread for each connection; ``asked`` has the number of the connection of each, too."""

    def __init__(self, listener: socket.socket, treat: Treat, tls: ssl.SSLContext | None) -> None:
        self.port: int = listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://localhost:{self.port}"
        self.asked: list[tuple[int, str]] = []
        self.opened = self.ended = 0
        self._listener, self._treat, self._tls = listener, treat, tls

    def stop(self) -> None:
        """Refuse new connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.opened += 1
            threading.Thread(target=self._serve, args=(sock, self.opened - 1), daemon=True).start()

    def _serve(self, sock: socket.socket, number: int) -> None:
        try:
            with self._tls.wrap_socket(sock, server_side=True) if self._tls else sock as connected:
                peer = Peer(connected)
                while (name := peer.request()) is not None:
                    self.asked.append((number, name))
                    self._treat(peer, name)
        except OSError:
            pass
        finally:
            self.ended += 1


@contextmanager
def serving(treat: Treat = echo, authority: Authority | None = None) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        listener.settimeout(30)
        server = Server(listener, treat, authority.server_context() if authority else None)
        threading.Thread(target=server.accept, daemon=True).start()
        yield server


class Caller(Protocol):
    """A store of one variant."""

    def get(self, name: str) -> str: ...
    def get_all(self, names: list[list[str]]) -> list[list[str]]:
        """What so many tasks or threads get, one after the other each."""

    def outcomes(self, names: list[str]) -> list[str | BaseException]:
        """What tasks or threads get that begin in this order, over one connection."""

    def give_up(self, name: str) -> None:
        """Ask, and do not wait for the answer."""

    def rest(self, until: Callable[[], bool]) -> None:
        """Let time pass, while no call is under way."""

    def close(self) -> None: ...


async def get(store: DynamoDBStore, name: str) -> str:
    """Ask as a driver does: by ``start``, where nothing has to be waited for."""
    answered = asyncio.get_running_loop().create_future()

    def done(answer: Any, error: Exception | None) -> None:
        if error is not None and not answered.done():
            answered.set_exception(error)
        elif not answered.done():
            answered.set_result(answer)

    if store.start(Get(Key(name, "s")), done):
        return str((await answered)["PK"])
    return await get_in_task(store, name)


async def get_in_task(store: DynamoDBStore, name: str) -> str:
    return str((await store.perform(Get(Key(name, "s"))))["PK"])


class AsyncCaller:
    def __init__(self, url: str, **options: Any) -> None:
        self._store = DynamoDBStore("t", endpoint_url=url, **STORE | options)
        self._runner = asyncio.Runner()

    def get(self, name: str) -> str:
        return self._runner.run(get(self._store, name))

    def get_all(self, names: list[list[str]]) -> list[list[str]]:
        async def task(mine: list[str]) -> list[str]:
            return [await get(self._store, name) for name in mine]

        async def tasks() -> list[list[str]]:
            return await asyncio.gather(*map(task, names))

        return self._runner.run(tasks())

    def outcomes(self, names: list[str]) -> list[str | BaseException]:
        async def tasks() -> list[str | BaseException]:
            return await asyncio.gather(*(get(self._store, name) for name in names), return_exceptions=True)

        return self._runner.run(tasks())

    def give_up(self, name: str) -> None:
        with pytest.raises(TimeoutError):
            self._runner.run(asyncio.wait_for(get_in_task(self._store, name), GIVE_UP))

    def rest(self, until: Callable[[], bool]) -> None:
        async def poll() -> None:
            wait_for(until)
            await asyncio.sleep(0.05)

        self._runner.run(poll())

    def close(self) -> None:
        self._runner.run(self._store.close())
        self._runner.close()


class SyncCaller:
    def __init__(self, url: str, **options: Any) -> None:
        self._store = SyncDynamoDBStore("t", endpoint_url=url, **STORE | options)

    def get(self, name: str) -> str:
        return str(self._store.perform(Get(Key(name, "s")))["PK"])

    def get_all(self, names: list[list[str]]) -> list[list[str]]:
        with ThreadPoolExecutor(len(names)) as pool:
            return list(pool.map(lambda mine: [self.get(name) for name in mine], names))

    def outcomes(self, names: list[str]) -> list[str | BaseException]:
        found: dict[str, str | BaseException] = {}

        def ask(name: str) -> None:
            try:
                found[name] = self.get(name)
            except StoreError as error:
                found[name] = error

        threads = [threading.Thread(target=ask, args=(name,)) for name in names]
        for before, thread in enumerate(threads):
            thread.start()
            wait_for(partial(lambda least: self.waiting() >= least, before))
        for thread in threads:
            thread.join()
        return [found[name] for name in names]

    def give_up(self, name: str) -> None:
        before = set_deadline(time.monotonic() + GIVE_UP)
        try:
            with pytest.raises(OutcomeUnknown):
                self.get(name)
        finally:
            set_deadline(before)

    def rest(self, until: Callable[[], bool]) -> None:
        wait_for(until)
        time.sleep(0.05)

    def waiting(self) -> int:
        """How many calls wait for a connection."""
        client: Any = self._store._client
        return len(client._pool._waiting) if client else 0

    def close(self) -> None:
        self._store.close()


def wait_for(until: Callable[[], bool]) -> None:
    """Wait for what happens soon."""
    deadline = time.monotonic() + PATIENCE
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.005)
