import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from zae_limiter_cli.errors import CommandError
from zae_limiter_cli.local.server import DEFAULT_PORT, listen
from zae_limiter_cli.loopback import LOOPBACK, free_port, hidden_host, listening


@contextmanager
def neighbour(port: int) -> Iterator[socket.socket]:
    """A socket of another user, who wants the port of ::1."""
    with socket.socket(socket.AF_INET6) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            other.bind(("::1", port))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                pytest.skip("this machine has no ::1")
            raise
        other.listen()
        yield other


def test_a_hidden_host_is_of_this_machine_alone() -> None:
    host = hidden_host()
    assert host.startswith("127.")
    assert free_port(host) > 0


def test_nobody_else_gets_the_port_of_localhost() -> None:
    """A program that is told `localhost` may try ::1 before 127.0.0.1, and send its key there."""
    with listening(LOOPBACK, 0) as ours:
        port = ours.getsockname()[1]
        with pytest.raises(OSError, match="in use"), neighbour(port):
            pass
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("::1", port), timeout=30)
        with socket.create_connection(("localhost", port), timeout=30) as connection:
            assert connection.getpeername() == (LOOPBACK, port)
    with neighbour(port), pytest.raises(OSError, match="in use"), listening(LOOPBACK, port):
        pass


def test_a_stack_does_not_take_a_port_that_another_has_at_localhost() -> None:
    with neighbour(0) as other:
        port = other.getsockname()[1]
        with pytest.raises(CommandError, match=f"--port {port}: Address already in use"), listen(port):
            pass


def test_a_stack_takes_a_free_port_if_the_default_one_is_in_use_at_localhost() -> None:
    try:
        with listening(LOOPBACK, DEFAULT_PORT):
            pass
    except OSError:
        pytest.skip("the default port is in use")
    with neighbour(DEFAULT_PORT), listen(None) as ours:
        assert ours.getsockname()[1] != DEFAULT_PORT
