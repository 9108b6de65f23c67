"""The stack of a command with its AWS, or the file. No library is imported before the first request."""

import os
import re
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote, urlsplit

from .errors import CommandError
from .skipped import listen

if TYPE_CHECKING:
    from zae_limiter import SyncRepository
    from zae_limiter.stores import Meter, SyncSQLiteStore

CONNECT_SECONDS: Final = 5
ATTEMPTS: Final = 3
TIMEOUT: Final = 30.0  # of who looks while the machine is busy; a service's calls have 2 s


@dataclass(frozen=True)  # without slots: the session is made once
class Connection:
    """A stack's name, and the AWS to look for it in; ``None`` leaves it to the SDK's environment.

    With a ``file`` there is no AWS, and ``name`` is the file's URL, which is the same in every directory. A request
    that is not answered in half of ``timeout`` seconds is sent once more.
    """

    name: str
    region: str | None = None
    profile: str | None = None
    endpoint_url: str | None = None
    file: Path | None = None
    timeout: float = TIMEOUT

    @classmethod
    def of_store(cls, url: str, *, source: str) -> Self:
        """Return the connection to a URL like ``sqlite:///limits.db``, of an option or a variable, ``source``. Raises
        ``CommandError``.
        """
        from zae_limiter import Options, ValidationError

        try:
            file = Options(store=url, namespace="default").file
        except ValidationError as error:
            raise CommandError(f"{source} {url!r}: {error.problem}") from error
        assert file is not None  # of a store that is set
        return cls(f"sqlite:///{quote(str(file.absolute()))}", file=file)

    def __post_init__(self) -> None:
        if self.endpoint_url is not None and not re.fullmatch(r"https?://[^\s/]+(/\S*)?", self.endpoint_url):
            raise CommandError(f"endpoint URL {self.endpoint_url!r}: must be an address like http://localhost:4566")
        if self.file is None and not re.fullmatch(r"[A-Za-z0-9_.-]*", self.name):  # it is in commands to paste
            raise CommandError(
                f"stack name {self.name!r}: may have letters, digits, hyphens, dots and underscores only"
            )

    def client(self, service: str, *, read_seconds: float | None = None, attempts: int = ATTEMPTS) -> Any:
        """Return a client of an AWS service; by default its answers have ``timeout`` seconds. Raises errors of botocore
        where there is no region or no such profile.
        """
        from botocore.config import Config

        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=self.timeout if read_seconds is None else read_seconds,
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

    @property
    def option(self) -> str:
        """The option that names the stack or the file, for the commands in messages."""
        return option_of(self.name)

    @property
    def could_be_made(self) -> bool:
        """Return whether there is no file yet, but a folder for it."""
        return self.file is not None and not self.file.exists() and self.file.absolute().parent.is_dir()

    def check_there(self) -> None:
        """Raise ``CommandError`` for a missing file: a command that looks for something must not make it."""
        if self.file is not None and not self.file.exists():
            makes_it = "a program that opens it makes it, and so does `zae-limiter limits apply`"
            raise CommandError(f"there is no file {self.file}: check --store; {makes_it}")

    def open_file(self, meter: "Meter | None" = None) -> "SyncSQLiteStore":
        """Return the store in the file, which its first operation makes if it is missing; as with ``store_options``."""
        listen()
        from zae_limiter.stores import SyncSQLiteStore

        assert self.file is not None  # only a store is opened so
        return SyncSQLiteStore(self.file, meter=meter)

    def open_table(self) -> "SyncRepository":
        """Return a repository for what belongs to no namespace. It opens none: `default` may be deleted, and stays
        so.
        """
        from zae_limiter import Options, maintenance

        options = Options(check_version=False, **self.store_options())
        return maintenance.open_table(options)

    def store_options(self) -> dict[str, Any]:
        """Return the arguments of ``SyncRepository.open`` for this stack or file; lists report what they skip."""
        listen()
        connect = min(CONNECT_SECONDS, self.timeout / 6)
        seconds = {"connect_timeout": connect, "read_timeout": self.timeout / 2 - connect}  # core asks twice
        if self.file is not None:
            return {"store": self.name, **seconds}
        self._prepare()
        return {
            **seconds,
            "stack": self.name,
            "region": self.region,
            "profile": self.profile,
            "endpoint_url": self.endpoint_url,
        }

    def _prepare(self) -> None:
        if self.endpoint_url is not None and is_local(self.endpoint_url):
            fill_in_what_local_endpoints_ignore()


def option_of(name: str) -> str:
    """Return the option that names a stack, or a file by its URL."""
    return f"--store {name}" if ":" in name else f"--name {name}"


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
