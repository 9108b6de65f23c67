"""`zae-limiter console`."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

import click

from ..errors import CommandError
from ..loopback import LOOPBACK, hidden_host, listening
from ..options import FiniteRange, connected, given_options, in_namespace
from ..paging import ROWS_OF_A_PAGE, open_namespace

if TYPE_CHECKING:
    from ..connection import Connection


@click.command()
@connected
@in_namespace
@click.option("--resource", "-r", metavar="NAME", help="Only this resource.  [default: all]")
@click.option("--host", metavar="ADDRESS", help="Address of this machine alone.  [default: a random 127.x.y.z]")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on this machine.  [default: a free one]")
@click.option("--allow-changes", is_flag=True, help="Let the pages lift, disable, enable and roll back.")
@click.option("--listen", metavar="HOST:PORT", help="Answer other machines, too: behind a proxy that says who asks.")
@click.option("--identity-header", metavar="NAME", help="The proxy's header that names the user; with --listen.")
@click.option("--public-host", metavar="HOST", help="The host name under which the proxy is known; with --listen.")
@click.option(
    "--every", type=FiniteRange(1, 3600), default=2.0, show_default=True, metavar="SECONDS", help="Between looks."
)
@click.option("--rows", type=click.IntRange(1, ROWS_OF_A_PAGE), default=50, show_default=True, help="Most buckets.")
def console(
    *,
    connection: "Connection",
    namespace: str,
    resource: str | None,
    host: str | None,
    port: int,
    allow_changes: bool,
    listen: str | None,
    identity_header: str | None,
    public_host: str | None,
    every: float,
    rows: int,
) -> None:
    """Show a namespace in a browser: what is left, who is refused and by whom, why, usage as charts, cost, changes.

    It answers this machine alone, and prints the address, which lets one browser in, once, until its session ends: by
    its button, after an hour without use, or after twelve. It changes nothing unless --allow-changes is given. For a
    team, --listen, --identity-header and --public-host put it behind a proxy that authenticates.
    """
    try:
        import uvicorn

        from ..console.access import Access
        from ..console.app import Console, application
        from ..console.applies import Applies
        from ..console.pages import Pages
    except ImportError as error:
        raise CommandError(
            f"the console needs {error.name}, which is missing: install the extra `console` of zae-limiter-cli"
        ) from error
    from ..live.health import Health
    from ..live.reading import Reader

    if len({listen is None, identity_header is None, public_host is None}) > 1:
        raise CommandError("pass --listen, --identity-header and --public-host together, or none of them")
    if listen is not None and host is not None:
        raise CommandError("pass --listen or --host, not both")
    at, number = (_loopback(host), port) if listen is None else _address(listen)
    forwarded = [] if host is None else [LOOPBACK, "localhost"]  # how a browser calls a port that others forward
    with open_namespace(connection, namespace) as repository, _bound(at, number) as bound:
        reader = Reader(repository, resource, rows, every)
        pages = Pages(repository, reader, Health(connection), every=every, options=given_options())
        access = Access(identity_header, lambda: click.echo(f"The session ended. {entry()}"))
        applies = Applies(connection, namespace)
        app = application(
            Console(pages, applies, access, namespace, allow_changes, every), [public_host or at, *forwarded]
        )

        def entry() -> str:
            return f"Open http://{at}:{bound.getsockname()[1]}/enter?token={access.token}"

        if listen is None:
            click.echo(entry())
            click.echo("It lets one browser in, once. Ctrl-C ends the console.")
        else:
            click.echo(f"The console answers on {listen} those whom the proxy names in {identity_header}.")
        # no warnings: each request that is none would be a line, and a neighbour could scroll the address away
        uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, ws="none")).run(sockets=[bound])


def _loopback(host: str | None) -> str:
    """Return the address to listen on. Raises ``CommandError`` for one that other machines reach."""
    if host is None:
        return hidden_host()
    try:
        if IPv4Address(host).is_loopback:
            return host
    except ValueError:
        pass
    raise CommandError(f"--host {host!r}: must be an address of this machine alone, such as {LOOPBACK}")


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise CommandError(f"--listen {listen!r}: must be HOST:PORT, such as 0.0.0.0:8080")
    return host.strip("[]"), int(port)


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    """Yield a socket that listens at the address. Raises ``CommandError``."""
    with ExitStack() as sockets:
        try:
            found = sockets.enter_context(listening(host, port))
        except OSError as error:
            raise CommandError(f"{host}:{port} cannot be used: {error.strerror or error}") from error
        yield found
