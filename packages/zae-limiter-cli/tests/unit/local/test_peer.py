import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from zae_limiter_cli.local.peer import user_of

pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="processes are looked up in /proc")


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client's end of a connection, and the server's."""
    with socket.create_server(("127.3.2.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        connection, _ = server.accept()
        with client, connection:
            yield client, connection


def test_the_user_at_the_other_end_is_known(ends: tuple[socket.socket, socket.socket]) -> None:
    client, connection = ends
    assert user_of(connection) == os.geteuid()
    client.shutdown(socket.SHUT_WR)
    assert user_of(connection) == os.geteuid()


def test_nobody_is_at_an_end_that_was_closed(ends: tuple[socket.socket, socket.socket]) -> None:
    client, connection = ends
    client.close()  # from now on the system would name root
    assert user_of(connection) is None


def test_a_system_that_does_not_tell_is_none(
    ends: tuple[socket.socket, socket.socket], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zae_limiter_cli.local.peer.CONNECTIONS", tmp_path / "none")
    assert user_of(ends[1]) is None
