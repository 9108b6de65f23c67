"""Declared limits and levels, as frozen values that are valid by construction; their fields state the rules."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, Self

from attrs import AttrsInstance, evolve, field, fields, frozen

from .checks import ALREADY_CHECKED, enforce, keys_only
from .converter import (
    CONVERTER,
    EXTENDS,
    PARENT,
    PARENTS,
    PREFETCH,
    SHADOW,
    UNLIMITED,
    one_parent_or_several,
    spread_to_limits,
)
from .level_modes import ExtendsDecl, UnlimitedDecl, find_mode_conflicts
from .limit_declarations import LIMITS, PREFETCH_SECONDS, LimitDecl
from .metadata import Metadata
from .naming import NameKind, in_nfc
from .on_refused import ON_REFUSED_STEPS, OnRefusedDecl
from .shapes import (
    Choice,
    Flag,
    JsonMap,
    Member,
    Name,
    NamedMap,
    Names,
    Record,
    Text,
    about,
    record_of,
)
from .sortedmap import SortedMap, freeze, freeze_names, values_are
from .switches import SWITCH_FIELDS, SWITCHES, find_switch_conflicts

OnUnavailable = Literal["allow", "block", "share"]

LONGEST_NAME: Final = 256

_ON_REFUSED: Final = about(ON_REFUSED_STEPS, "what follows a refusal; in place of what weaker levels say")


def _checked(on_refused: object) -> object:
    return ALREADY_CHECKED if isinstance(on_refused, OnRefusedDecl) else on_refused


def _limits(level: UnlimitedDecl) -> object:
    """Return the limits of a level as its checks take them."""
    limits: Mapping[str, LimitDecl] = level.limits  # type: ignore[attr-defined]  # both models have some
    return UNLIMITED if level.unlimited and not limits else keys_only(limits)


@frozen
class SystemDecl(UnlimitedDecl):
    """Defaults of a whole namespace; raises `ManifestError`."""

    on_unavailable: OnUnavailable | None = field(
        default=None,
        metadata=about(
            Choice(("allow", "block", "share")),
            "the policy of acquires while the table is unreachable; by default the client's",
        ),
    )
    limits: Mapping[str, LimitDecl] = field(
        default=SortedMap({}), converter=freeze, validator=values_are(LimitDecl), metadata=LIMITS
    )
    on_refused: OnRefusedDecl | None = field(default=None, metadata=_ON_REFUSED)

    def __attrs_post_init__(self) -> None:
        values = {
            "on_unavailable": self.on_unavailable,
            "limits": _limits(self),
            "on_refused": _checked(self.on_refused),
            **self.switches,
        }
        enforce(
            SYSTEM, {key: value for key, value in values.items() if value is not None and value != {}}, "SystemDecl"
        )


@frozen(cache_hash=True)
class ResourceDecl(ExtendsDecl):
    """The limits of one resource, its switches, or both; raises `ManifestError`."""

    limits: Mapping[str, LimitDecl] = field(
        default=SortedMap({}), converter=freeze, validator=values_are(LimitDecl), metadata=LIMITS
    )
    on_refused: OnRefusedDecl | None = field(default=None, metadata=_ON_REFUSED)

    def __attrs_post_init__(self) -> None:
        limits = {"limits": _limits(self)} if self.limits or self.unlimited or not self.switches else {}
        mode = {EXTENDS: True} if self.extends else {}
        policy = {} if self.on_refused is None else {"on_refused": _checked(self.on_refused)}
        enforce(RESOURCE, {**limits, **mode, **policy, **self.switches}, "ResourceDecl")


def _find_conflicts(level: Mapping[object, object]) -> Iterator[tuple[object, str]]:
    yield from find_switch_conflicts(level)
    yield from find_mode_conflicts(level)


def _level(model: type[AttrsInstance]) -> Record:
    """Return the shape of a level, which may also have one flag and one `prefetch` for its limits: see `converter`."""
    record = record_of(model)
    flag = Member(Flag(), "`true` on all limits of this level; none of them may have `false`", spreads_to="limits")
    prefetch = Member(
        PREFETCH_SECONDS, "`prefetch` of the limits of this level that have none of their own", spreads_to="limits"
    )
    first = {key: member for key, member in record.members.items() if key not in (*SWITCH_FIELDS, UNLIMITED, EXTENDS)}
    if EXTENDS in record.members:
        first = {EXTENDS: record.members[EXTENDS], **first}
    if model is ResourceDecl:
        first["limits"] = evolve(first["limits"], required=True, unless=SWITCHES)
    members = {**first, SHADOW: flag, PREFETCH: prefetch, **{key: record.members[key] for key in SWITCH_FIELDS}}
    return evolve(record, members=members, conflicts=_find_conflicts, recurs=True)


SYSTEM: Final = _level(SystemDecl)
RESOURCE: Final = _level(ResourceDecl)
spread_to_limits(SystemDecl)
spread_to_limits(ResourceDecl)


MOST_PARENTS: Final = 4
_NO_METADATA: Final = Metadata()


def _names(values: Iterable[str]) -> tuple[str, ...]:
    return (in_nfc(values),) if isinstance(values, str) else tuple(map(in_nfc, values))


def _with_parent(record: Record, *order: str) -> Record:
    """Return the shape of plain values that may also name one parent alone: see `converter`."""
    parent = Member(Name(NameKind.ENTITY), "the entity above it, which the namespace's files declare, too")
    return evolve(record, members={PARENT: parent, **{key: record.members[key] for key in order}})


@frozen
class RecordDecl:
    """What is declared of an entity itself: its parents, whether its acquires take from them, name, metadata."""

    parents: tuple[str, ...] = field(
        default=(),
        converter=_names,
        metadata=about(Names(NameKind.ENTITY, most=MOST_PARENTS), "the same for several, each once"),
    )
    cascade: bool = field(
        default=False, metadata=about(Flag(), "`true`: an acquire of the entity also takes from its parents")
    )
    name: str | None = field(default=None, metadata=about(Text(LONGEST_NAME), "a name for people"))
    metadata: Metadata = field(
        default=_NO_METADATA, metadata=about(JsonMap(), "what you want to know of it, by key: texts, or other JSON")
    )
    tier: str | None = field(
        default=None,
        metadata=about(Name(NameKind.TIER), "the tier whose limits it has where it has none of its own"),
    )

    def to_plain(self) -> dict[str, Any]:
        """Return what differs from the defaults."""
        plain: dict[str, Any] = CONVERTER.unstructure(self)
        return plain


RECORD: Final = _with_parent(record_of(RecordDecl), "parents", "tier", "cascade", "name", "metadata")
one_parent_or_several(RecordDecl)


@frozen
class EntityDecl:
    """One entity: itself, and its limits; raises `ManifestError`.

    `cascade` is None unless it is said. The entity itself is declared if anything is said of it, or if it has no
    limits: one that only has limits stays as it is (see `LimitsManifest.declared`).
    """

    resources: Mapping[str, ResourceDecl] = field(
        default=SortedMap({}),
        converter=freeze_names,
        validator=values_are(ResourceDecl),
        metadata=about(
            NamedMap(NameKind.RESOURCE_OR_DEFAULT, RESOURCE, least=1),
            "its limits by resource, `_default_` for all others; at least one",
        ),
    )
    parents: tuple[str, ...] = field(
        default=(), kw_only=True, converter=_names, metadata=fields(RecordDecl).parents.metadata
    )
    cascade: bool | None = field(default=None, kw_only=True, metadata=fields(RecordDecl).cascade.metadata)
    name: str | None = field(default=None, kw_only=True, metadata=fields(RecordDecl).name.metadata)
    metadata: Metadata = field(default=_NO_METADATA, kw_only=True, metadata=fields(RecordDecl).metadata.metadata)
    tier: str | None = field(default=None, kw_only=True, metadata=fields(RecordDecl).tier.metadata)

    def __attrs_post_init__(self) -> None:
        if self.cascade is False and (self._describes_it or not self.resources):
            object.__setattr__(self, "cascade", None)  # it says no more than the rest
        said = {"cascade": self.cascade, "name": self.name, "tier": self.tier}
        values: dict[str, object] = {key: value for key, value in said.items() if value is not None}
        if self.parents:
            values[PARENTS] = list(self.parents)
        own = {"resources": keys_only(self.resources)} if self.resources else {}
        metadata = {} if self.metadata == _NO_METADATA else {"metadata": self.metadata.to_dict()}
        enforce(ENTITY, {**own, **values, **metadata}, "EntityDecl")

    @property
    def record(self) -> RecordDecl:
        """What is declared of the entity itself, if anything is."""
        return RecordDecl(self.parents, bool(self.cascade), self.name, self.metadata, self.tier)

    @property
    def says_record(self) -> bool:
        """Whether the section declares the entity itself, and not only its limits."""
        return not self.resources or self.cascade is not None or self._describes_it

    @property
    def _describes_it(self) -> bool:
        """Whether the section says more of the entity itself than whether it cascades."""
        return bool(self.parents) or (self.name, self.tier, self.metadata) != (None, None, _NO_METADATA)

    @classmethod
    def of(cls, record: RecordDecl | None, resources: Mapping[str, ResourceDecl]) -> Self:
        """Return the section that declares exactly this, `record` None for the limits alone."""
        if record is None:
            return cls(resources)
        return cls(
            resources,
            parents=record.parents,
            cascade=record.cascade,
            name=record.name,
            metadata=record.metadata,
            tier=record.tier,
        )


ENTITY: Final = _with_parent(record_of(EntityDecl), "parents", "tier", "cascade", "name", "metadata", "resources")
one_parent_or_several(EntityDecl)


def _tier_level() -> Record:
    """Return the shape of a tier on a resource: limits, and what follows a refusal; a tier has no switches."""
    members = {key: member for key, member in RESOURCE.members.items() if key not in SWITCH_FIELDS}
    members["limits"] = evolve(members["limits"], unless=())
    text = "The limits of a tier on one resource."
    return evolve(RESOURCE, title="tier_level", text=text, members=members, conflicts=find_mode_conflicts)


_TIER_LEVEL: Final = _tier_level()


@frozen
class TierDecl:
    """A tier: limits that many entities have, by resource; raises `ManifestError`."""

    resources: Mapping[str, ResourceDecl] = field(
        converter=freeze_names,
        validator=values_are(ResourceDecl),
        metadata=about(
            NamedMap(NameKind.RESOURCE_OR_DEFAULT, _TIER_LEVEL, least=1),
            "its limits by resource, `_default_` for all others; at least one",
        ),
    )

    def __attrs_post_init__(self) -> None:
        enforce(TIER, {"resources": keys_only(self.resources)}, "TierDecl")


TIER: Final = record_of(TierDecl)

Decl = SystemDecl | ResourceDecl | RecordDecl
"""The declaration of one address: of the system, of a resource, of an entity on a resource, or of an entity itself."""
