"""The stack of a command, its AWS, and the clients for it. No AWS library is imported before the first request."""

import os
import re
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from .errors import CommandError

CONNECT_SECONDS: Final = 5
READ_SECONDS: Final = 60
ATTEMPTS: Final = 3


@dataclass(frozen=True)  # without slots: the session is made once
class Connection:
    """A stack's name, and the AWS to look for it in; ``None`` leaves it to the SDK's environment."""

    name: str
    region: str | None = None
    profile: str | None = None
    endpoint_url: str | None = None

    def __post_init__(self) -> None:
        if self.endpoint_url is not None and not re.fullmatch(r"https?://[^\s/]+(/\S*)?", self.endpoint_url):
            raise CommandError(f"endpoint URL {self.endpoint_url!r}: must be an address like http://localhost:4566")

    def client(self, service: str, *, read_seconds: int = READ_SECONDS, attempts: int = ATTEMPTS) -> Any:
        """Return a client of an AWS service. Raises errors of botocore where there is no region or no such profile."""
        from botocore.config import Config

        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=read_seconds,
            retries={"total_max_attempts": attempts, "mode": "standard"},
            tcp_keepalive=True,  # a NAT ends connections on which nothing comes for some minutes
        )
        return self.session.client(service, endpoint_url=self.endpoint_url, config=config)

    @cached_property
    def session(self) -> Any:
        """The SDK's session; a local endpoint needs neither credentials nor a region."""
        import boto3

        self._prepare()
        region = self.region or os.environ.get("AWS_REGION")  # boto3 reads AWS_DEFAULT_REGION alone, core reads both
        return boto3.Session(region_name=region, profile_name=self.profile)

    def no_stack(self) -> str:
        """Return the beginning of an error message: the missing stack, and the region where it was looked for."""
        return f"there is no stack {self.name} in {self.session.region_name}"

    def store_options(self) -> dict[str, Any]:
        """Return the arguments of ``SyncRepository.open`` for this stack."""
        self._prepare()
        return {
            "stack": self.name,
            "region": self.region,
            "profile": self.profile,
            "endpoint_url": self.endpoint_url,
        }

    def _prepare(self) -> None:
        if self.endpoint_url is not None and is_local(self.endpoint_url):
            fill_in_what_local_endpoints_ignore()


def is_local(url: str) -> bool:
    """Return whether the host is this machine: a loopback address or a name that stands for one."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def fill_in_what_local_endpoints_ignore() -> None:
    """Set fake credentials and a region where none are set: the SDK sends nothing without them, and an emulator takes
    any.
    """
    import boto3

    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    session = boto3.Session()
    if session.region_name is None:
        os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
    if session.get_credentials() is None:
        os.environ.update(AWS_ACCESS_KEY_ID="local", AWS_SECRET_ACCESS_KEY="local")
