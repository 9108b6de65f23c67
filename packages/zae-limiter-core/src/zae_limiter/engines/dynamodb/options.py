"""The options of a DynamoDB client, and the credentials that a program hands in.

These are botocore's, or of a session of botocore or boto3. The rest of the configuration is found as ever, by a session
of our own: theirs may be in use by other threads, and botocore's sessions are not made for that. Of a session handed in
it takes what was set on it, such as region, profile and authorities. The credentials stay the program's object, so that
they are refreshed once for all of their users.
"""

import os
from threading import Lock
from typing import Any, Final, Literal, Protocol, get_args

from ...exceptions import ValidationError
from ...runtime import forks
from ...runtime.dataclass import dataclass, field
from ...values.versions import core_version

Transport = Literal["http", "sdk"]
TRANSPORTS: Final = get_args(Transport)
OPENING_SECONDS: Final = 30.0  # a provider of credentials may run a program, or ask another service
KINDS: Final = "must be credentials of botocore, or a session of boto3 or botocore"
LEAST_SHARE: Final = 4  # of the time for an answer: with less time left, the outcome of a write would rarely be known


class CredentialsOfBotocore(Protocol):
    """Credentials of botocore, such as ``Credentials`` or ``RefreshableCredentials``."""

    def get_frozen_credentials(self) -> Any:
        """Return the access key, the secret key and the token of now."""


class SessionWithCredentials(Protocol):
    """A session of boto3 or of botocore."""

    def get_credentials(self) -> Any:
        """Return its credentials."""


Handed = CredentialsOfBotocore | SessionWithCredentials


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
        """Replace the lock of the credentials after a fork: a thread of the parent may have held it."""
        held = getattr(_session_in(self._given), "_credentials", None) if is_session(self._given) else self._given
        if hasattr(held, "_refresh_lock"):
            held._refresh_lock = Lock()  # type: ignore[union-attr]


def check_handed(given: Any) -> Any:
    """Return what was handed in. Raises ``ValidationError`` if it gives no credentials, or to coroutines alone."""
    from ...runtime.callables import is_awaited  # which imports `inspect`

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


def place_in(table_name: str) -> tuple[str | None, str]:
    """Return the region and the account of a table that is named by its ARN; ``None`` and no text of a plain name."""
    match table_name.split(":", 5):
        case ["arn", _, "dynamodb", region, account, _] if region:
            return region, account
    return None, ""


def transport_of(chosen: Transport | None) -> str:
    """Return the transport: the chosen one, else ``ZAEL_TRANSPORT`` of the environment, else ``http``."""
    return chosen or os.environ.get("ZAEL_TRANSPORT") or TRANSPORTS[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """The place of DynamoDB, and timeouts in seconds; ``None`` leaves an option to botocore.

    ``table_name`` may be an ARN, whose account may have an endpoint of its own.
    """

    table_name: str = ""
    transport: Transport | None = None
    region: str | None = None
    endpoint_url: str | None = None
    profile: str | None = None
    credentials: HandedIn | None = field(default=None, repr=False)
    connect_timeout: float = 1.0
    read_timeout: float = 2.0
    max_connections: int = 100

    @property
    def chosen_region(self) -> str | None:
        """The region that the program has chosen, by its name or by the ARN of the table."""
        return self.region or place_in(self.table_name)[0]

    @property
    def operation_timeout(self) -> float:
        """The most seconds that one operation takes."""
        return self.connect_timeout + self.read_timeout

    @property
    def least_time(self) -> float:
        """The fewest seconds that must be left for the answer when a request is sent that had to wait."""
        return self.read_timeout / LEAST_SHARE

    def session(self) -> dict[str, Any]:
        """Return the arguments of a session."""
        region = self.chosen_region or os.environ.get("AWS_REGION") or None
        return {"region_name": region, "profile_name": self.profile}

    def config(self) -> dict[str, Any]:
        """Return the arguments of a client's ``Config``."""
        return {
            # A write whose answer was lost must not be repeated blindly: flows repeat requests that were not applied.
            "retries": {"total_max_attempts": 1, "mode": "standard"},
            "parameter_validation": False,  # our requests are valid by construction
            "connect_timeout": self.connect_timeout,
            "read_timeout": self.read_timeout,
            "max_pool_connections": self.max_connections,
            "tcp_keepalive": True,
            "user_agent_extra": f"zae-limiter/{core_version()}",
        }
