"""Translate store errors into the public errors that callers see."""

from typing import TypeVar

from ..exceptions import (
    CertificateError,
    ContentionError,
    InfrastructureError,
    InfrastructureNotFoundError,
    NoUpgradePathError,
    RateLimiterUnavailable,
    RepositoryClosedError,
    StoreRefusedError,
)
from ..operations.errors import OUTAGE, Closed, ForeignRecord, RaceLost, StoreError, TableMissing, Untrusted
from .steps import Flow

T = TypeVar("T")


def with_public_errors(stack: str, flow: Flow[T], *, failed: str = "") -> Flow[T]:
    """Run a flow and return its result. Raises each ``StoreError`` as an ``InfrastructureError``, with what has
    ``failed``.

    The table of another product raises ``NoUpgradePathError``.
    """
    try:
        return (yield from flow)
    except ForeignRecord as error:
        raise NoUpgradePathError(stack, str(error)) from error
    except StoreError as error:
        raise public_error(stack, error, failed=failed) from error


def public_error(stack: str, error: StoreError, *, failed: str = "") -> InfrastructureError:
    """Return the public error of a store error: ``RateLimiterUnavailable`` for an outage.

    ``failed`` names the action that failed, at the beginning of the message.
    """
    problem = ": ".join(filter(None, (failed, str(error) or type(error.__cause__ or error).__name__)))
    match error:
        case TableMissing():
            return InfrastructureNotFoundError(stack)
        case Closed():
            return RepositoryClosedError()
        case Untrusted():
            return CertificateError(error.host, error.reason)
        case RaceLost():
            return ContentionError(problem)
        case _ if isinstance(error, OUTAGE):
            return RateLimiterUnavailable(problem)
    return StoreRefusedError(problem)
