"""The principal of a change: as the caller claims it, else as AWS knows the caller, else the user and the machine."""

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from .options import Function, chosen_connection

if TYPE_CHECKING:
    from .connection import Connection


def author(principal: str | None, connection: "Connection") -> str:
    """Return the name of the author: the given one, else the caller's ARN, else the user and the machine."""
    if principal is not None:
        return principal
    return _arn(connection) or user_and_machine()


def _arn(connection: "Connection") -> str | None:
    if connection.file is not None or connection.endpoint_url is not None:
        return None
    from zae_limiter.maintenance import caller_arn

    return caller_arn(region=connection.region, profile=connection.profile)


def user_and_machine() -> str:
    """Return the user and the machine, as ``user@host``."""
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run under an id without a name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"[:100]


def principal_option(function: Function) -> Function:
    """Add ``--principal`` to a command with a connection; the command gets ``principal``, a name."""

    @wraps(function)
    def command(*args: Any, principal: str | None, **kwargs: Any) -> Any:
        connection = chosen_connection(click.get_current_context())
        return function(*args, principal=author(principal, connection), **kwargs)

    return click.option(  # type: ignore[return-value]  # click hands it the rest
        "--principal",
        envvar="ZAEL_PRINCIPAL",
        show_envvar=True,
        help="Name of the caller, for the audit events.  [default: the caller's ARN in AWS, else user@host]",
    )(command)
