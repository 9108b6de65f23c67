"""The options of a DynamoDB client."""

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, get_args

if TYPE_CHECKING:
    from .aws.handed import HandedIn

from ...values.versions import core_version

Transport = Literal["http", "sdk"]
TRANSPORTS: Final = get_args(Transport)
OPENING_SECONDS: Final = 30.0  # a provider of credentials may run a program, or ask another service
LEAST_SHARE: Final = 4  # of the time for an answer: sent with less, a write would hardly tell its outcome


class CredentialsOfBotocore(Protocol):
    """Credentials of botocore, such as ``Credentials`` or ``RefreshableCredentials``."""

    def get_frozen_credentials(self) -> Any:
        """Return the access key, the secret key and the token of now."""


class SessionWithCredentials(Protocol):
    """A session of boto3 or of botocore."""

    def get_credentials(self) -> Any:
        """Return its credentials."""


Handed = CredentialsOfBotocore | SessionWithCredentials


def region_in(table_name: str) -> str | None:
    """Return the region of a table that is named by its ARN; ``None`` of a plain name."""
    match table_name.split(":", 5):
        case ["arn", _, "dynamodb", region, _, _] if region:
            return region
    return None


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
    credentials: "HandedIn | None" = field(default=None, repr=False)
    connect_timeout: float = 1.0
    read_timeout: float = 2.0
    max_connections: int = 100

    @property
    def chosen_region(self) -> str | None:
        """The region that the program has chosen, by its name or by the ARN of the table."""
        return self.region or region_in(self.table_name)

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
