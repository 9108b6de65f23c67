"""Declared limits and levels, as frozen values that are valid by construction; their fields state the rules."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, Self

from attrs import AttrsInstance, evolve, field, fields, frozen
from attrs.converters import optional

from .checks import enforce, keys_only
from .converter import (
    AHEAD,
    CONVERTER,
    PARENTS,
    SCHEDULE,
    SHADOW,
    WEIGHTS,
    parents_as_list,
    short_limits,
    spread_to_limits,
)
from .limit_text import write_limit
from .metadata import Metadata
from .naming import NameKind, in_nfc
from .on_refused import ON_REFUSED_STEPS, OnRefusedDecl
from .schedules import as_schedule
from .schedules import find_conflicts as find_schedule_conflicts
from .shapes import (
    DEFAULT_REFILL_PERIOD_SECONDS,
    Choice,
    Entries,
    Flag,
    Integer,
    JsonMap,
    Member,
    Name,
    NamedMap,
    Names,
    Record,
    Refill,
    Seconds,
    Text,
    Window,
    Zone,
    about,
    record_of,
)
from .sortedmap import SortedMap, freeze, freeze_names, values_are
from .switches import SWITCH_FIELDS, SWITCHES, SwitchesDecl, find_switch_conflicts
from .value_checks import ALREADY_CHECKED
from .weights import WEIGHTS_OF_KINDS, WeightsDecl, as_weights
from .windows import KINDS, LAST_START, UTC, find_conflicts

OnUnavailable = Literal["allow", "block", "share"]

MAX_AMOUNT: Final = 10**15
MAX_REFILL_PERIOD_SECONDS: Final = 3_153_600_000  # a hundred years
MAX_AHEAD_SECONDS: Final = 3600
MAX_EXPIRES: Final = 86_400
EXPIRES: Final = 60
MAX_LIMITS: Final = 32  # of one bucket
LONGEST_NAME: Final = 256

_AMOUNT: Final = Integer(MAX_AMOUNT)
_AMOUNT_OR_NONE: Final = Integer(MAX_AMOUNT, least=0)
_PERIOD: Final = Integer(MAX_REFILL_PERIOD_SECONDS)
_AHEAD: Final = Seconds(MAX_AHEAD_SECONDS)


def _in_seconds(value: float) -> float:
    """Return a whole number as a float; leave anything else to the checks."""
    return float(value) if type(value) is int and abs(value) <= MAX_AHEAD_SECONDS else value


@frozen
class LimitDecl:
    """One limit: capacity, burst and refill amount in tokens, refill period in seconds; raises `ManifestError`.

    The tokens of a limit with a `window` come when it begins, those of a `total` never come back. A `shadow` limit
    counts and decides like any other, but refuses nobody. A process may take tokens up to `ahead` seconds before it
    admits by them; in return every bucket holds at most the `usable_burst`. By its
    `weights` a lease settles what a language model has used. By its `schedule` it has other values at other times.
    """

    capacity: int = field(metadata=about(_AMOUNT_OR_NONE, "the nominal amount, in tokens; 0 blocks"))
    burst: int = field(
        kw_only=True,
        metadata=about(
            _AMOUNT_OR_NONE,
            "the largest number of tokens at once; at least the capacity, by default the capacity",
            at_least="capacity",
        ),
    )
    refill_amount: int = field(
        kw_only=True,
        metadata=about(
            _AMOUNT, "the tokens that come back in every period; by default the capacity, or 1 if that is 0"
        ),
    )
    refill_period: int = field(
        kw_only=True, default=DEFAULT_REFILL_PERIOD_SECONDS, metadata=about(_PERIOD, "the period, in seconds")
    )
    shadow: bool = field(
        kw_only=True, default=False, metadata=about(Flag(), "`true`: the limit counts, but refuses nobody")
    )
    ahead: float = field(
        kw_only=True,
        default=0,
        converter=_in_seconds,
        metadata=about(
            _AHEAD,
            "the seconds for which a process may hold tokens before it admits by them; 0: none",
            off=Refill("capacity", "burst", "refill_amount", "refill_period"),
        ),
    )

    window: str = field(
        kw_only=True,
        default="",
        metadata=about(
            Window(),
            "the calendar window at whose begin all tokens come: `minute`, `hour`, `day`, `week`, `month`, or a cron "
            "expression of five fields",
        ),
    )
    timezone: str = field(
        kw_only=True, default=UTC, metadata=about(Zone(), "the time zone by whose clocks the windows begin")
    )
    starts_on: int = field(
        kw_only=True,
        default=1,
        metadata=about(
            Integer(LAST_START["month"]), "the first day of a month, or of a week, whose days are 1 for Monday to 7"
        ),
    )
    kind: str = field(
        kw_only=True,
        metadata=about(
            Choice(KINDS),
            "how tokens come back; by default evenly, or by the `window`; a period after the `first_use`; never of a "
            "`total`; `concurrent` ones when the lease ends that holds them",
        ),
    )

    @kind.default
    def _kind_is_told_by_the_window(self) -> str:
        return "calendar" if self.window else "token_bucket"

    weights: WeightsDecl | None = field(
        kw_only=True,
        default=None,
        converter=as_weights,
        metadata=about(
            WEIGHTS_OF_KINDS, "how many tokens of the limit a token of each kind counts for, when usage settles a lease"
        ),
    )

    expires: int = field(
        kw_only=True,
        metadata=about(
            Integer(MAX_EXPIRES, least=0),
            "of `kind: concurrent`: the seconds, by default 60, after which slots of a lost holder begin to come back",
        ),
    )

    @expires.default
    def _expires_if_concurrent(self) -> int:
        return EXPIRES if self.kind == "concurrent" else 0

    schedule: tuple[str, ...] = field(
        kw_only=True,
        default=(),
        converter=as_schedule,
        metadata=about(
            Entries(),
            "other values at other times, each as a text `night: 00:00-06:00 Europe/Berlin 100/min`; the first that "
            "holds wins",
        ),
    )

    @burst.default
    def _burst_is_capacity(self) -> int:
        return self.capacity

    @refill_amount.default
    def _refill_is_capacity(self) -> int:
        return self.capacity or 1

    def __attrs_post_init__(self) -> None:
        values = {name: getattr(self, name) for name in LIMIT_FIELDS if name != "window" or self.window}
        if not self.schedule:
            del values[SCHEDULE]
        if self.weights is None or isinstance(self.weights, WeightsDecl):
            values[WEIGHTS] = ALREADY_CHECKED
        if self.kind == "concurrent" and self.weights is None:
            del values[WEIGHTS]
        enforce(LIMIT, values, "LimitDecl")

    @property
    def text(self) -> str | None:
        """The limit as one text: `10k/min burst 20k`; a manifest may have it in place of the map. None for a limit with
        a calendar window or without refill, with weights or a schedule: it has no such text.
        """
        if self.kind not in ("token_bucket", "first_use", "concurrent") or self.weights is not None or self.schedule:
            return None
        return write_limit({name: getattr(self, name) for name in LIMIT_FIELDS})

    def given(self) -> dict[str, Any]:
        """Return the plain values of the fields that differ from their defaults, and the capacity, in their order."""
        plain: dict[str, Any] = CONVERTER.unstructure(self)
        return {name: plain[name] for name in LIMIT_FIELDS if name in plain}

    @property
    def usable_burst(self) -> int:
        """The most tokens that a bucket holds: `burst`, less what comes within `ahead` seconds, rounded up."""
        if not self.ahead or not self.capacity:
            return self.burst
        return self.burst + -self.refill_amount * round(self.ahead * 1000) // (self.refill_period * 1000)


def _find_conflicts(limit: Mapping[object, object]) -> Iterator[tuple[object, str]]:
    yield from find_conflicts(limit)
    yield from find_schedule_conflicts(limit)


short_limits(LimitDecl)
LIMIT_FIELDS: Final = tuple(each.name for each in fields(LimitDecl))
LIMIT: Final = evolve(record_of(LimitDecl), conflicts=_find_conflicts, short={name: name for name in LIMIT_FIELDS})
_LIMITS: Final = about(
    NamedMap(NameKind.LIMIT, LIMIT, least=1, most=MAX_LIMITS),
    f"the limits, by name; at least one, at most {MAX_LIMITS}",
)


_ON_REFUSED: Final = about(ON_REFUSED_STEPS, "what follows a refusal; in place of what weaker levels say")


def _checked(on_refused: object) -> object:
    return ALREADY_CHECKED if isinstance(on_refused, OnRefusedDecl) else on_refused


@frozen
class SystemDecl(SwitchesDecl):
    """Defaults of a whole namespace; raises `ManifestError`."""

    on_unavailable: OnUnavailable | None = field(
        default=None,
        metadata=about(
            Choice(("allow", "block", "share")),
            "the policy of acquires while the table is unreachable; by default the client's",
        ),
    )
    limits: Mapping[str, LimitDecl] = field(
        default=SortedMap({}), converter=freeze, validator=values_are(LimitDecl), metadata=_LIMITS
    )
    on_refused: OnRefusedDecl | None = field(default=None, metadata=_ON_REFUSED)

    def __attrs_post_init__(self) -> None:
        values = {
            "on_unavailable": self.on_unavailable,
            "limits": keys_only(self.limits),
            "on_refused": _checked(self.on_refused),
            **self.switches,
        }
        enforce(
            SYSTEM, {key: value for key, value in values.items() if value is not None and value != {}}, "SystemDecl"
        )


@frozen
class ResourceDecl(SwitchesDecl):
    """The limits of one resource, its switches, or both; raises `ManifestError`."""

    limits: Mapping[str, LimitDecl] = field(
        default=SortedMap({}), converter=freeze, validator=values_are(LimitDecl), metadata=_LIMITS
    )
    on_refused: OnRefusedDecl | None = field(default=None, metadata=_ON_REFUSED)

    def __attrs_post_init__(self) -> None:
        limits = {"limits": keys_only(self.limits)} if self.limits or not self.switches else {}
        policy = {} if self.on_refused is None else {"on_refused": _checked(self.on_refused)}
        enforce(RESOURCE, {**limits, **policy, **self.switches}, "ResourceDecl")


def _level(model: type[AttrsInstance]) -> Record:
    """Return the shape of a level, which may also have one flag and one `ahead` for its limits: see `converter`."""
    record = record_of(model)
    flag = Member(Flag(), "`true` on all limits of this level; none of them may have `false`", spreads_to="limits")
    ahead = Member(_AHEAD, "`ahead` of the limits of this level that have none of their own", spreads_to="limits")
    first = {key: member for key, member in record.members.items() if key not in SWITCH_FIELDS}
    if model is ResourceDecl:
        first["limits"] = evolve(first["limits"], required=True, unless=SWITCHES)
    members = {**first, SHADOW: flag, AHEAD: ahead, **{key: record.members[key] for key in SWITCH_FIELDS}}
    return evolve(record, members=members, conflicts=find_switch_conflicts)


SYSTEM: Final = _level(SystemDecl)
RESOURCE: Final = _level(ResourceDecl)
spread_to_limits(SystemDecl)
spread_to_limits(ResourceDecl)


@frozen
class RecordDecl:
    """What is declared of an entity itself: its parent, whether its acquires take from the parent, name, metadata."""

    parent: str | None = field(
        default=None,
        converter=optional(in_nfc),
        metadata=about(Name(NameKind.ENTITY), "the entity above it, which the namespace's files declare, too"),
    )
    cascade: bool = field(
        default=False, metadata=about(Flag(), "`true`: an acquire of the entity also takes from its parent")
    )
    name: str | None = field(default=None, metadata=about(Text(LONGEST_NAME), "a name for people"))
    metadata: Metadata = field(
        default=Metadata(), metadata=about(JsonMap(), "what you want to know of it, by key: texts, or other JSON")
    )

    def to_plain(self) -> dict[str, Any]:
        """Return what differs from the defaults."""
        plain: dict[str, Any] = CONVERTER.unstructure(self)
        return plain


RECORD: Final = record_of(RecordDecl)


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
    parent: str | None = field(
        default=None, kw_only=True, converter=optional(in_nfc), metadata=fields(RecordDecl).parent.metadata
    )
    cascade: bool | None = field(default=None, kw_only=True, metadata=fields(RecordDecl).cascade.metadata)
    name: str | None = field(default=None, kw_only=True, metadata=fields(RecordDecl).name.metadata)
    metadata: Metadata = field(default=Metadata(), kw_only=True, metadata=fields(RecordDecl).metadata.metadata)

    def __attrs_post_init__(self) -> None:
        if self.cascade is False and (self.record != RecordDecl() or not self.resources):
            object.__setattr__(self, "cascade", None)  # it says no more than the rest
        said = {"parent": self.parent, "cascade": self.cascade, "name": self.name}
        values = {key: value for key, value in said.items() if value is not None}
        own = {"resources": keys_only(self.resources)} if self.resources else {}
        metadata = {} if self.metadata == Metadata() else {"metadata": self.metadata.to_dict()}
        enforce(ENTITY, {**own, **values, **metadata}, "EntityDecl")

    @property
    def record(self) -> RecordDecl:
        """What is declared of the entity itself, if anything is."""
        return RecordDecl(self.parent, bool(self.cascade), self.name, self.metadata)

    @property
    def says_record(self) -> bool:
        """Whether the section declares the entity itself, and not only its limits."""
        return not self.resources or self.cascade is not None or self.record != RecordDecl()

    @classmethod
    def of(cls, record: RecordDecl | None, resources: Mapping[str, ResourceDecl]) -> Self:
        """Return the section that declares exactly this, `record` None for the limits alone."""
        if record is None:
            return cls(resources)
        return cls(resources, parent=record.parent, cascade=record.cascade, name=record.name, metadata=record.metadata)


def _entity() -> Record:
    """Return the shape of an entity, whose parent may also be a list: see `converter`."""
    record = record_of(EntityDecl)
    parents = Member(Names(NameKind.ENTITY, most=1), "the same as a list, of one entity today")
    members = {key: record.members[key] for key in ("parent", "cascade", "name", "metadata", "resources")}
    return evolve(record, members={"parent": members.pop("parent"), PARENTS: parents, **members})


ENTITY: Final = _entity()
parents_as_list(EntityDecl)

Decl = SystemDecl | ResourceDecl | RecordDecl
"""The declaration of one address: of the system, of a resource, of an entity on a resource, or of an entity itself."""
