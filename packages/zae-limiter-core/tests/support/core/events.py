"""Events as observers get them.

Lives here: events to be given to an observer. Never: a claim.
"""

from typing import Any

from zae_limiter import Limit, LimitStatus
from zae_limiter.observers import AcquireEvent, LeaseEvent

RPM, TPM = Limit.per_minute("rpm", 60), Limit.per_minute("tpm", 1000)


def acquire_event(**changes: Any) -> AcquireEvent:
    """An admitted acquire of a tenth of a second, with changes."""
    fields: dict[str, Any] = {
        "namespace": "prod",
        "entity_id": "key-1",
        "resource": "gpt-4",
        "call": "acquire",
        "amounts": {"rpm": 1},
        "outcome": "admitted",
        "seconds": 0.1,
    }
    return AcquireEvent(**fields | changes)


def lease_event(**changes: Any) -> LeaseEvent:
    """The settled end of a block of two seconds, with changes."""
    fields: dict[str, Any] = {
        "namespace": "prod",
        "entity_id": "key-1",
        "resource": "gpt-4",
        "consumed": {"rpm": 1, "tpm": 700},
        "ending": "settled",
        "degraded": False,
        "seconds": 2.0,
    }
    return LeaseEvent(**fields | changes)


def refusal(*short: Limit, entity_id: str = "key-1") -> AcquireEvent:
    """A refused acquire of two limits, of which some were short."""
    statuses = tuple(
        LimitStatus(entity_id, "gpt-4", limit.name, limit, 0, 1, limit in short, 1.5 if limit in short else 0.0)
        for limit in (RPM, TPM)
    )
    return acquire_event(outcome="refused", statuses=statuses, reason="rate")
