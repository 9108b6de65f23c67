"""What users see of an error of the store.

Lives here: that translation. Never: what is done about the error (acquire, commit).
"""

from typing import TypeVar

from ..exceptions import (
    ContentionError,
    InfrastructureError,
    InfrastructureNotFoundError,
    RateLimiterUnavailable,
    RepositoryClosedError,
    StoreRefusedError,
)
from ..operations.errors import OUTAGE, Closed, RaceLost, StoreError, TableMissing
from .steps import Flow

T = TypeVar("T")


def with_public_errors(stack: str, flow: Flow[T]) -> Flow[T]:
    """The flow's result. Raises an ``InfrastructureError`` where the store fails."""
    try:
        return (yield from flow)
    except StoreError as error:
        raise public_error(stack, error) from error


def public_error(stack: str, error: StoreError, *, failed: str = "") -> InfrastructureError:
    """The exception that a user sees: ``RateLimiterUnavailable`` for an outage, else what is wrong.

    ``failed`` says what the request was for, where that is not plain.
    """
    problem = ": ".join(filter(None, (failed, str(error) or type(error.__cause__ or error).__name__)))
    match error:
        case TableMissing():
            return InfrastructureNotFoundError(stack)
        case Closed():
            return RepositoryClosedError()
        case RaceLost():
            return ContentionError(problem)
        case _ if isinstance(error, OUTAGE):
            return RateLimiterUnavailable(problem)
    return StoreRefusedError(problem)
