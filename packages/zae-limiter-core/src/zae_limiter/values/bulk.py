"""The result of a change of many limits."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from ..exceptions import InfrastructureError
from ..runtime.dataclass import dataclass, field

P = TypeVar("P", bound=tuple[str | None, str | None])  # a place of limits: entity_id, resource


@dataclass(frozen=True, slots=True)
class BulkResult(Generic[P]):
    """The places, as ``(entity_id, resource)``, that were changed as asked, and those that were not, with the
    reason.
    """

    done: tuple[P, ...]
    """The places that are as they were asked to be."""
    failed: Mapping[P, InfrastructureError] = field(hash=False)
    """The error of each other place."""
