"""What the provisioner remembers of a namespace between two runs.

Lives here: that state as values that check themselves. Never: how it is stored (schema), what is made of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .exceptions import ValidationError
from .naming import check_identifier, check_resource


@dataclass(frozen=True, slots=True)
class ProvisionerLock:
    """Who is applying: the id that frees the lock, its owner, and until when (epoch milliseconds) it holds."""

    lock_id: str
    owner: str
    expires_at_ms: int

    def __post_init__(self) -> None:
        _check_text("lock_id", self.lock_id)
        _check_text("owner", self.owner)
        _check_count("expires_at_ms", self.expires_at_ms)


@dataclass(frozen=True, slots=True)
class ProvisionerState:
    """What a manifest manages of a namespace; the state of one that none was ever applied to has ``serial`` 0.

    ``managed_entities`` maps an entity to the resources (or ``_default_``) of its limits. ``last_applied`` is an ISO
    time, ``applied_hash`` that of the manifest; ``serial`` counts the writes. Raises ``ValidationError``.
    """

    managed_system: bool = False
    managed_resources: Sequence[str] = ()
    managed_entities: Mapping[str, Sequence[str]] = field(default_factory=dict)
    last_applied: str | None = None
    applied_hash: str | None = None
    serial: int = 0
    owner: str | None = None
    lock: ProvisionerLock | None = None

    def __post_init__(self) -> None:
        if type(self.managed_system) is not bool:
            raise ValidationError("managed_system", self.managed_system, "must be true or false")
        for name in ("last_applied", "applied_hash", "owner"):
            if getattr(self, name) is not None:
                _check_text(name, getattr(self, name))
        _check_count("serial", self.serial)
        if self.lock is not None and not isinstance(self.lock, ProvisionerLock):
            raise ValidationError("lock", self.lock, "must be a ProvisionerLock")
        # sorted, so that two states that say the same are equal
        object.__setattr__(self, "managed_resources", _resources("managed_resources", self.managed_resources))
        object.__setattr__(self, "managed_entities", _entities(self.managed_entities))


def _entities(entities: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    checked = {}
    for entity in sorted(entities, key=lambda entity: check_identifier("managed_entities", entity)):
        checked[entity] = _resources("managed_entities", entities[entity], allow_default=True)
        if not checked[entity]:
            raise ValidationError("managed_entities", entity, "must name at least one resource")
    return checked


def _resources(name: str, resources: Sequence[str], *, allow_default: bool = False) -> tuple[str, ...]:
    if isinstance(resources, str):
        raise ValidationError(name, resources, "must be a list of resources")
    return tuple(sorted({check_resource(name, each, allow_default=allow_default) for each in resources}))


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not 1 <= len(value) <= 2048:
        raise ValidationError(name, value, "must be a string of 1 to 2048 characters")


def _check_count(name: str, value: object) -> None:
    if type(value) is not int or value < 0:
        raise ValidationError(name, value, "must be a whole number, at least 0")
