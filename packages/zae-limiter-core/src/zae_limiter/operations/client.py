"""The options of a DynamoDB client."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# The Date header of an answer, and the instants of request and answer, in ms of the monotonic clock.
OnAnswer = Callable[[str, float, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """The place of DynamoDB, and timeouts in seconds; ``None`` leaves an option to the SDK."""

    region: str | None = None
    endpoint_url: str | None = None
    profile: str | None = None
    connect_timeout: float = 1.0
    read_timeout: float = 2.0
    max_connections: int = 100

    def session(self) -> dict[str, Any]:
        """Return the arguments of a session."""
        return {"region_name": self.region, "profile_name": self.profile}

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
        }
