"""Credentials that the program hands in: those of botocore, or of a session of botocore or boto3.

The rest of the configuration is found as ever, by a session of our own: theirs may be in use by other threads, and
botocore's sessions are not made for that. Of a session handed in it takes what was set on it, such as region, profile
and authorities. The credentials stay the program's object, so that they are refreshed once for all who hold it.
"""

from threading import Lock
from typing import Any

from ....exceptions import ValidationError
from ....runtime import forks
from ....runtime.callables import is_awaited
from ..options import Handed

KINDS = "must be credentials of botocore, or a session of boto3 or botocore"


class HandedIn:
    """Credentials that a program has handed in. Raises ``ValidationError``, which shows the type alone."""

    def __init__(self, given: Handed) -> None:
        self._given: Any = check_handed(given)
        forks.register(self)

    def __repr__(self) -> str:
        return f"HandedIn({type(self._given).__name__})"

    def configure(self, session: Any) -> None:
        """Give a session of botocore these credentials, and what was set on the session that they are of."""
        if (theirs := _session_in(self._given)) is not None:
            for name, value in theirs.instance_variables().items():
                session.set_config_variable(name, value)
        session.register_component("credential_provider", self)

    def load_credentials(self) -> Any:
        """Return the credentials, ``None`` if a session has none: what botocore asks a provider for."""
        return self._given.get_credentials() if is_session(self._given) else self._given

    def forget(self) -> None:
        """Give the credentials another lock in a child process: a thread of the parent may hold theirs for ever."""
        held = getattr(_session_in(self._given), "_credentials", None) if is_session(self._given) else self._given
        if hasattr(held, "_refresh_lock"):
            held._refresh_lock = Lock()  # type: ignore[union-attr]


def check_handed(given: Any) -> Any:
    """Return what was handed in. Raises ``ValidationError`` if it gives no credentials, or to coroutines alone."""
    ask = getattr(given, "get_credentials", None) or getattr(given, "get_frozen_credentials", None)
    kind = type(given).__name__
    if isinstance(given, type) or not callable(ask):
        raise ValidationError("credentials", kind, KINDS)
    session = _session_in(given)
    if is_awaited(ask) or (session is not None and is_awaited(session.get_credentials)):
        raise ValidationError("credentials", kind, f"gives its credentials to coroutines alone: {KINDS}")
    return given


def is_session(given: Any) -> bool:
    """Return whether a session was handed in, which has a profile and a region of its own."""
    return hasattr(given, "get_credentials")


def _session_in(given: Any) -> Any:
    """Return the session of botocore in a session of boto3, which has no public name for it."""
    if not is_session(given):
        return None
    return given if hasattr(given, "instance_variables") else getattr(given, "_session", None)
