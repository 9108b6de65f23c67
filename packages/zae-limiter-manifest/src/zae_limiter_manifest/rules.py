"""What a manifest may hold, stated once: for text, for plain values and for the constructors of the models.
Never reads text and never builds a model."""

from collections.abc import Iterator, Mapping
from typing import Final

from .checks import Finding, Rule, choice, filled, integer, name, record, table
from .naming import NameKind
from .problems import Path

MAX_AMOUNT: Final = 10**15
MAX_REFILL_PERIOD_SECONDS: Final = 3_153_600_000  # a hundred years
DEFAULT_REFILL_PERIOD_SECONDS: Final = 60


def _burst_covers_capacity(path: Path, limit: object) -> Iterator[Finding]:
    if not isinstance(limit, Mapping):
        return
    capacity, burst = limit.get("capacity"), limit.get("burst")
    if type(capacity) is int and type(burst) is int and 0 < burst < capacity <= MAX_AMOUNT:
        yield Finding((*path, "burst"), f"must be at least the capacity: {burst} < {capacity}")


LIMIT: Final[Rule] = record(
    {
        "capacity": integer(MAX_AMOUNT),
        "burst": integer(MAX_AMOUNT),
        "refill_amount": integer(MAX_AMOUNT),
        "refill_period": integer(MAX_REFILL_PERIOD_SECONDS),
    },
    required=["capacity"],
    whole=_burst_covers_capacity,
)
LIMITS: Final[Rule] = filled(table(NameKind.LIMIT, LIMIT))
SYSTEM: Final[Rule] = record({"on_unavailable": choice("allow", "block"), "limits": LIMITS})
RESOURCE: Final[Rule] = record({"limits": LIMITS}, required=["limits"])
ENTITY: Final[Rule] = record(
    {"resources": filled(table(NameKind.RESOURCE_OR_DEFAULT, RESOURCE))}, required=["resources"]
)
MANIFEST: Final[Rule] = record(
    {
        "namespace": name(NameKind.NAMESPACE),
        "system": SYSTEM,
        "resources": table(NameKind.RESOURCE, RESOURCE),
        "entities": table(NameKind.ENTITY, ENTITY),
    },
    required=["namespace"],
)
