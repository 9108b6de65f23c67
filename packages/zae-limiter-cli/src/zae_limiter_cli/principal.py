"""The principal of a change, as the caller claims it."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])


def claimed(principal: str | None) -> str:
    """Return the name of the author: the given one, else the user and the machine."""
    import getpass
    import socket

    if principal is not None:
        return principal
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run under an id without a name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"[:100]


def principal_option(function: Function) -> Function:
    """Add ``--principal``; the command gets ``principal``, a name."""
    return click.option(
        "--principal",
        envvar="ZAEL_PRINCIPAL",
        show_envvar=True,
        callback=lambda *given: claimed(given[-1]),
        help="Name of the caller, for the audit events.  [default: user@host]",
    )(function)
