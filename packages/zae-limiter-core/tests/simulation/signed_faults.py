"""Deliberate faults of writes that are sent again by their tokens.

Lives here: tokens left out, bounds and proofs that are none. Never: which history finds them (mutants).
"""

from collections.abc import Mapping
from typing import Any, Final
from unittest.mock import patch

from zae_limiter.flows.bucket.doubts import Doubts
from zae_limiter.operations.errors import ConditionFailed
from zae_limiter.operations.values import NOTHING, Operation, Update


def token_unset(operation: Operation[Any]) -> Operation[Any]:
    """A write asks for its slot, and leaves it as it is."""
    if isinstance(operation, Update):
        kept = {name: value for name, value in operation.set.items() if name not in operation.when.below}
        return operation._replace(set=kept)
    return operation


def slot_unasked(operation: Operation[Any]) -> Operation[Any]:
    """A write sets its token, whatever the slot has."""
    if isinstance(operation, Update):
        return operation._replace(when=operation.when._replace(below=NOTHING))
    return operation


def _any_item(self: Doubts, error: Any, decision: Any) -> Any:
    """Any failed condition of a repeat proves that the first copy was applied."""
    return error.item if self.again is not None and isinstance(error, ConditionFailed) else None


SIGNED_FAULTS: Final[Mapping[str, tuple[Any, int]]] = {
    "any failed condition taken for a proof": (patch.object(Doubts, "settles", _any_item), 1),
}
