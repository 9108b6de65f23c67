"""Check the caller's own side: region, credentials, and the clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from ..connection import Connection
from .findings import Finding, refused

SKEW_WARNS: Final = 2.0  # seconds; core corrects its own time by the store's dates, signatures do not
SKEW_FAILS: Final = 240.0  # AWS refuses a signature that is five minutes old
READ_SECONDS: Final = 5

NO_CREDENTIALS: Final = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or pass --profile"
REFUSED: Final = frozenset(
    (
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    )
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, as STS says, and the time of its answer beside ours."""

    arn: str
    account: str
    skew_seconds: float | None


def client(connection: Connection, service: str) -> Any:
    """Return a client that waits for no second attempt."""
    return connection.client(service, read_seconds=READ_SECONDS, attempts=1)


def check_region(connection: Connection) -> Finding:
    """Return the region in which the stack is looked for."""
    region = connection.session.region_name
    if region is None:
        return Finding("region", "fail", "there is none", "pass --region, or set AWS_REGION")
    return Finding("region", "ok", region, details={"region": region})


def ask_sts(connection: Connection) -> Caller:
    """Return who the caller is. Raises errors of botocore."""
    sent = datetime.now(UTC)
    answer = client(connection, "sts").get_caller_identity()
    middle = sent + (datetime.now(UTC) - sent) / 2
    return Caller(answer["Arn"], answer["Account"], _skew(answer, middle))


def credentials_of(caller: Caller) -> Finding:
    """Return that there are credentials, and whose."""
    return Finding("credentials", "ok", caller.arn, details={"arn": caller.arn, "account": caller.account})


def without_credentials(error: Exception) -> Finding | None:
    """Return the finding of an error that says that the credentials are missing or refused; ``None`` for others."""
    from botocore.exceptions import NoCredentialsError, PartialCredentialsError, ProfileNotFound

    if isinstance(error, (NoCredentialsError, PartialCredentialsError)):
        return Finding("credentials", "fail", str(error), NO_CREDENTIALS)
    if isinstance(error, ProfileNotFound):
        there_are = ("aws configure list-profiles",)
        return Finding("credentials", "fail", str(error), "pass one of the profiles that there are", commands=there_are)
    if (code := refused(error)) in REFUSED:
        return Finding("credentials", "fail", f"AWS refuses them: {code}", "sign in again, or renew the keys")
    return None


def check_clock(caller: Caller) -> Finding:
    """Return how far the clock of this machine is from that of AWS."""
    skew = caller.skew_seconds
    if skew is None:
        return Finding("clock", "unknown", "the answer of AWS has no date")
    told = f"{abs(skew):.1f} s {'fast' if skew > 0 else 'slow'} beside AWS, exact to a second"
    state = "fail" if abs(skew) >= SKEW_FAILS else "warn" if abs(skew) >= SKEW_WARNS else "ok"
    fix = "" if state == "ok" else "set the clock by NTP: AWS refuses requests that are five minutes off"
    return Finding("clock", state, told, fix, {"skew_seconds": round(skew, 1)})  # type: ignore[arg-type]  # a State


def _skew(answer: Mapping[str, Any], middle: datetime) -> float | None:
    """Return the seconds by which our clock is fast; a date of HTTP has whole seconds, so half a one is added."""
    try:
        date = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
    except (KeyError, TypeError, ValueError):
        return None
    return (middle - date).total_seconds() - 0.5
