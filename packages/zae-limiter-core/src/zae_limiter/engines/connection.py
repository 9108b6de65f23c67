"""The connection of an engine: which store, where it is, and how long to wait for it."""

import os
from typing import TYPE_CHECKING, Any

from ..exceptions import ValidationError
from ..runtime.dataclass import dataclass, field
from ..values.whole import check_flag, check_number, check_whole
from .dynamodb.options import TRANSPORTS, Handed, Transport, check_handed, is_session, place_in, transport_of
from .meter import Meter

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_STACK = "zae-limiter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """The options that only an engine needs; times in seconds.

    ``stack``: its name, or the ARN of a table of another account. If ``None``, ``ZAEL_STACK`` of the environment, else
    ``zae-limiter``.
    ``store``: the URL of a file, like ``sqlite:///limits.db``; if ``None``, ``ZAEL_STORE`` of the environment, unless
    ``stack``, ``region``, ``endpoint_url``, ``profile`` or ``credentials`` is given, which is for DynamoDB.
    ``transport``: the way to DynamoDB: ``http``, the client of this package, or ``sdk``, aioboto3 and boto3. If
    ``None``, ``ZAEL_TRANSPORT`` of the environment, else ``http``.
    ``count_units``: whether to ask the store for the capacity units of each request, for observers.
    """

    stack: str | None = None
    store: str | None = None
    region: str | None = None
    """The AWS region; ``None`` leaves it to the SDK."""
    endpoint_url: str | None = None
    """The URL of DynamoDB; for local stores."""
    profile: str | None = None
    """The profile of the AWS configuration; ``None`` leaves it to the SDK."""
    connect_timeout: float = 1.0
    """Seconds for a connection."""
    read_timeout: float = 2.0
    """Seconds for an answer."""
    max_connections: int = 100
    """The most connections to the store."""
    transport: Transport | None = None
    count_units: bool = False
    credentials: Handed | None = field(default=None, repr=False)
    """Credentials of botocore, or a session of boto3 or botocore; ``None`` leaves them to botocore's chain."""

    def __post_init__(self) -> None:
        for name in ("connect_timeout", "read_timeout"):
            check_number(name, getattr(self, name), at_least=0.001)
        check_whole("max_connections", self.max_connections, at_least=1)
        for name in ("stack", "region", "endpoint_url", "profile"):
            if not isinstance(getattr(self, name), str | None):
                raise ValidationError(name, getattr(self, name), "must be a string")
        check_flag("count_units", self.count_units)
        if self.transport is not None:
            _check_transport("transport", self.transport)
        of_table, _ = place_in(self.stack_name)
        if of_table is not None and self.region not in (None, of_table):
            raise ValidationError("region", self.region, f"leave it out: by its ARN, the table is in {of_table}")
        _ = self.file  # which checks the URL
        if self.credentials is None:
            return
        kind = type(check_handed(self.credentials)).__name__  # the value may show a secret
        if self.store is not None:
            raise ValidationError("credentials", kind, f"are for DynamoDB, and the store {self.store} is a file")
        if self.profile is not None and is_session(self.credentials):
            raise ValidationError("profile", self.profile, "leave it out: the session in `credentials` has its own")

    @property
    def stack_name(self) -> str:
        """The name of the stack and of its table."""
        return self.stack or os.environ.get("ZAEL_STACK") or DEFAULT_STACK

    @property
    def file(self) -> "Path | None":
        """The path of the file that is the store; ``None`` for DynamoDB. Raises ``ValidationError`` for a bad
        ``ZAEL_STORE``.
        """
        name, url = "store", self.store
        if url is None:
            is_of_aws = any((self.stack, self.region, self.endpoint_url, self.profile)) or self.credentials is not None
            name, url = "ZAEL_STORE", None if is_of_aws else os.environ.get("ZAEL_STORE") or None
        if url is None:
            return None
        from .sqlite.place import path_of  # it loads sqlite3, which DynamoDB does not need

        return path_of(url, field=name)

    @property
    def operation_timeout(self) -> float:
        """The most seconds that one request takes."""
        return self.connect_timeout + self.read_timeout

    def store_options(self) -> dict[str, Any]:
        """Return the options of a DynamoDB store. Raises ``ValidationError`` for a bad ``ZAEL_TRANSPORT``."""
        _check_transport("ZAEL_TRANSPORT", transport_of(self.transport))
        names: tuple[str, ...] = ("region", "endpoint_url", "profile", "credentials", "connect_timeout", "read_timeout")
        names += ("max_connections", "transport")
        return {name: getattr(self, name) for name in names} | ({"meter": Meter()} if self.count_units else {})

    def file_options(self) -> dict[str, Any]:
        """Return the options of a store in a file."""
        return {"meter": Meter() if self.count_units else None}


def _check_transport(field: str, name: str) -> None:
    if name not in TRANSPORTS:
        raise ValidationError(field, name, f"must be one of {', '.join(TRANSPORTS)}")
