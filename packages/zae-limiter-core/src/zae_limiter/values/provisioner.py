"""What the provisioner remembers of a namespace between two runs, what it finds and leaves there, and what it keeps of
its applies, as values.

``schema`` stores them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ..exceptions import ValidationError
from ..runtime.dataclass import dataclass, field
from .entities import Json, check_parent_ids
from .limits import Limit, PolicyText, check_limits, check_on_unavailable
from .naming import TIER_SUBJECT, check_identifier, check_resource, check_tier
from .on_refused import OnRefused
from .overrides import Override
from .resolution import LevelMode, Said, check_mode
from .switches import NO_SWITCHES, Switches
from .whole import check_flag, check_whole

EVENTS_REMEMBERED: Final = 20


@dataclass(frozen=True, slots=True)
class ApplyProgress:
    """How far an apply is: ``done`` of ``total`` changes, from ``began_at_ms`` until ``at_ms`` (epoch milliseconds)."""

    done: int
    total: int
    began_at_ms: int
    at_ms: int

    def __post_init__(self) -> None:
        for name in ("done", "total", "began_at_ms", "at_ms"):
            check_whole(name, getattr(self, name), at_least=0)


@dataclass(frozen=True, slots=True)
class ApplyRecord:
    """One apply: who, from where, when (ISO time), which manifest, what it did. Raises ``ValidationError``.

    ``serial`` is that of the state that the apply leaves. ``ended`` is false while it is under way, and stays so if it
    was killed. ``created``, ``updated`` and ``deleted`` count the changes made, ``failed`` and ``left`` the others.
    ``targets`` are the patterns of the addresses that it was for, none for all.
    """

    serial: int
    at: str
    owner: str
    manifest_hash: str
    principal: str | None = None
    source: str | None = None
    created: int = 0
    updated: int = 0
    deleted: int = 0
    failed: int = 0
    left: int = 0
    targets: Sequence[str] = ()
    ended: bool = False

    def __post_init__(self) -> None:
        for name in ("serial", "created", "updated", "deleted", "failed", "left"):
            check_whole(name, getattr(self, name), at_least=0)
        for name in ("at", "owner", "manifest_hash", "principal", "source"):
            value = getattr(self, name)
            if value is None and name in {"principal", "source"}:
                continue
            if not isinstance(value, str) or not value:
                raise ValidationError(name, value, "must be a text that is not empty")
        if isinstance(self.targets, str) or not all(isinstance(each, str) for each in self.targets):
            raise ValidationError("targets", self.targets, "must be a list of patterns")
        object.__setattr__(self, "targets", tuple(self.targets))
        check_flag("ended", self.ended)


ConfigPlace = tuple[str | None, str | None]
"""An entity and a resource; no entity: a resource; neither: the system. A tier is in the entity's place, by the name
that audit events have for it: ``$TIER:gold``.
"""


@dataclass(frozen=True, slots=True)
class StoredConfig:
    """What is stored at one place: limits, switches, and ``on_unavailable`` at the system alone. Raises
    ``ValidationError``.

    ``fingerprint`` is that of what the provisioner wrote there last, ``None`` if it never did. Limits that do not fit
    it were set by hand since. ``override`` is the one in force of an entity, which may have no other limits.
    ``on_refused`` is stored beside limits; at the system also without them. ``mode``: the level is ``"unlimited"``, or
    ``"extends"`` the next one.
    """

    limits: tuple[Limit, ...]
    on_unavailable: PolicyText | None = None
    fingerprint: str | None = None
    override: Override | None = None
    switches: Switches = NO_SWITCHES
    on_refused: OnRefused | None = None
    mode: LevelMode | None = None

    def __post_init__(self) -> None:
        check_mode(self.mode, self.limits)
        if not isinstance(self.switches, Switches):
            raise ValidationError("switches", self.switches, "must be Switches")
        if self.on_refused is not None:
            OnRefused.check("on_refused", self.on_refused)
        if self.on_unavailable is not None:
            check_on_unavailable(self.on_unavailable)
        if self.override is not None and not isinstance(self.override, Override):
            raise ValidationError("override", self.override, "must be an Override")
        if self.limits or not (self.mode or self.has_policy or self.override or self.switches):
            object.__setattr__(self, "limits", check_limits("limits", self.limits))
        if self.fingerprint is not None:
            _check_text("fingerprint", self.fingerprint)

    @property
    def said(self) -> Said:
        """What the level says of limits."""
        return Said(self.limits, self.mode)

    @property
    def has_policy(self) -> bool:
        """Whether it has a policy beside limits and overrides: ``on_unavailable``, ``on_refused``."""
        return self.on_unavailable is not None or self.on_refused is not None


@dataclass(frozen=True, slots=True)
class StoredEntity:
    """What is stored of an entity itself: its place in the tree, its name, its metadata, its tier.

    ``parent_id`` is the first of the ``parent_ids``; either may be given. ``fingerprint`` is that of what the
    provisioner wrote there last, ``None`` if it never did. ``children`` is the number of entities that have it among
    their parents; a write ignores it. Raises ``ValidationError``.
    """

    parent_id: str | None = None
    cascade: bool = False
    name: str | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict, hash=False)
    fingerprint: str | None = None
    children: int = 0
    tier: str | None = None
    parent_ids: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._check_parents()
        check_flag("cascade", self.cascade)
        if self.tier is not None:
            check_tier("tier", self.tier)
        if self.cascade and self.parent_id is None:
            raise ValidationError("cascade", self.cascade, "needs a parent_id to cascade to")
        if self.fingerprint is not None:
            _check_text("fingerprint", self.fingerprint)

    def _check_parents(self) -> None:
        first = None if self.parent_id is None else check_identifier("parent_id", self.parent_id)
        if isinstance(self.parent_ids, str) or not isinstance(self.parent_ids, Iterable):
            raise ValidationError("parent_ids", self.parent_ids, "must be a list of entity ids")
        parents = check_parent_ids(self.parent_ids) or (() if first is None else (first,))
        if first not in (None, *parents[:1]):
            raise ValidationError("parent_ids", self.parent_ids, f"must begin with the parent_id {first}")
        object.__setattr__(self, "parent_id", parents[0] if parents else None)
        object.__setattr__(self, "parent_ids", parents)


@dataclass(frozen=True, slots=True)
class HandledEvent:
    """An event that the provisioner has handled, and whether all went well. If it comes again, there is nothing to
    do.
    """

    event_id: str
    ok: bool

    def __post_init__(self) -> None:
        _check_text("event_id", self.event_id)
        check_flag("ok", self.ok)


@dataclass(frozen=True, slots=True)
class ProvisionerLock:
    """The lock of one apply: its id, its owner, and the instant (epoch milliseconds) at which it expires."""

    lock_id: str
    owner: str
    expires_at_ms: int

    def __post_init__(self) -> None:
        _check_text("lock_id", self.lock_id)
        _check_text("owner", self.owner)
        check_whole("expires_at_ms", self.expires_at_ms, at_least=0)


@dataclass(frozen=True, slots=True)
class ProvisionerState:
    """What a manifest manages in a namespace; ``serial`` 0 means that no manifest was ever applied.

    ``managed_entities`` maps an entity, or a tier as ``$TIER:gold``, to the resources (or ``_default_``) of its limits;
    ``managed_records`` names the entities whose own records are managed. ``intended_…`` is what an apply under way, or
    one that was cut short, means to manage besides. ``last_applied`` is an ISO time,
    ``applied_hash`` that of the manifest; ``share`` is the region's share of each limit, such as ``60%``, ``None`` for
    the whole; ``serial`` counts the writes. ``handled`` keeps the last twenty events.
    ``progress`` and ``stop``, who has asked for it, are of the apply under way: a write of the state drops them. Raises
    ``ValidationError``.
    """

    managed_system: bool = False
    managed_resources: Sequence[str] = ()
    managed_entities: Mapping[str, Sequence[str]] = field(default_factory=dict, hash=False)
    intended_system: bool = False
    intended_resources: Sequence[str] = ()
    intended_entities: Mapping[str, Sequence[str]] = field(default_factory=dict, hash=False)
    last_applied: str | None = None
    applied_hash: str | None = None
    serial: int = 0
    owner: str | None = None
    lock: ProvisionerLock | None = None
    handled: Sequence[HandledEvent] = ()
    managed_records: Sequence[str] = ()
    intended_records: Sequence[str] = ()
    progress: ApplyProgress | None = None
    stop: str | None = None
    share: str | None = None

    def __post_init__(self) -> None:
        for name in ("last_applied", "applied_hash", "owner", "stop", "share"):
            if getattr(self, name) is not None:
                _check_text(name, getattr(self, name))
        check_whole("serial", self.serial, at_least=0)
        if self.lock is not None and not isinstance(self.lock, ProvisionerLock):
            raise ValidationError("lock", self.lock, "must be a ProvisionerLock")
        if self.progress is not None and not isinstance(self.progress, ApplyProgress):
            raise ValidationError("progress", self.progress, "must be an ApplyProgress")
        if not (isinstance(self.handled, Iterable) and all(isinstance(event, HandledEvent) for event in self.handled)):
            raise ValidationError("handled", self.handled, "must be HandledEvents")
        object.__setattr__(self, "handled", tuple(self.handled)[-EVENTS_REMEMBERED:])
        # sorted, so that two states that say the same are equal
        for kind in ("managed", "intended"):
            check_flag(f"{kind}_system", getattr(self, f"{kind}_system"))
            for name, checked in (
                (f"{kind}_resources", _resources),
                (f"{kind}_entities", _entities),
                (f"{kind}_records", _records),
            ):
                object.__setattr__(self, name, checked(name, getattr(self, name)))


def _entities(name: str, entities: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    if not isinstance(entities, Mapping):
        raise ValidationError(name, entities, "must map entities to resources")
    checked: dict[str, tuple[str, ...]] = {}
    pairs: list[tuple[str, Sequence[str]]] = []
    for entity, own in entities.items():
        if isinstance(entity, str) and entity.startswith(TIER_SUBJECT):
            pairs.append((f"{TIER_SUBJECT}{check_tier(name, entity.removeprefix(TIER_SUBJECT))}", own))
        else:
            pairs.append((check_identifier(name, entity), own))
    for entity, resources in sorted(pairs, key=lambda pair: pair[0]):
        if entity in checked:
            raise ValidationError(name, entity, "is there already, in another spelling of Unicode: leave one out")
        checked[entity] = _resources(name, resources, allow_default=True)
        if not checked[entity]:
            raise ValidationError(name, entity, "must name at least one resource")
    return checked


def _records(name: str, entities: Sequence[str]) -> tuple[str, ...]:
    if isinstance(entities, str) or not isinstance(entities, Iterable):
        raise ValidationError(name, entities, "must be a list of entities")
    return tuple(sorted({check_identifier(name, each) for each in entities}))


def _resources(name: str, resources: Sequence[str], *, allow_default: bool = False) -> tuple[str, ...]:
    if isinstance(resources, str) or not isinstance(resources, Iterable):
        raise ValidationError(name, resources, "must be a list of resources")
    checked = (
        check_resource(name, each, allow_default=allow_default, allow_pattern=not allow_default) for each in resources
    )
    return tuple(sorted(set(checked)))


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not 1 <= len(value) <= 2048:
        raise ValidationError(name, value, "must be a string of 1 to 2048 characters")
