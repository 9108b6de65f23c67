"""Resolve the limits that hold for an entity on a resource: what each level says, and what they say together.

A level without limits of its own leaves the word to the next one. A level with limits replaces all below it; with
``extends`` it takes those of the levels below, and overrides those that it names. A level that is ``unlimited`` says
that there are none: it ends the search as limits do. ``compose`` is the only place that knows this.

Each pattern of a resource is a level of its own, the longest first.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Literal

from .. import values
from ..exceptions import ValidationError
from ..runtime.dataclass import dataclass, field, replace
from ..runtime.named_tuple import NamedTuple
from .limits import MAX_LIMITS, ConfigSource, Limit, OnUnavailable, Policy, check_limits
from .on_refused import OnRefused
from .switches import NO_SWITCHES, ResolvedSwitches, Switches
from .weights import NO_WEIGHTS, Weights

LevelMode = Literal["extends", "unlimited"]
EXTENDS: Final = "extends"
UNLIMITED: Final = "unlimited"
"""In place of limits: the level says that it has none, whatever the levels below have."""
NO_SOURCES: Mapping[str, ConfigSource] = MappingProxyType({})
NOTHING: Mapping[str, Limit] = MappingProxyType({})
NO_TIME: Mapping[str, float] = MappingProxyType({})
NO_SCHEDULE = -1
FOLLOWS = 1 << 62
LEAST_HELD = 2  # tokens: one of the write's own acquire, and one to hold
OWN_LEVELS = ("entity", "entity_default")
TIER_LEVELS = ("tier", "tier_default")
RESOURCE_LEVELS = ("entity", "tier", "resource")  # those whose limits are of one resource
LEVELS: tuple[ConfigSource, ...] = (
    "entity",
    "entity_default",
    "tier",
    "tier_default",
    "resource",
    "pattern",
    "system",
)
"""All levels, the strongest first."""
NO_NAMES: frozenset[str] = frozenset()


class Said(NamedTuple):
    """The limits that a level has, and its mode: ``extends``, ``unlimited``, or ``None``."""

    limits: tuple[Limit, ...] = ()
    mode: LevelMode | None = None

    def __bool__(self) -> bool:
        return bool(self.limits) or self.mode == UNLIMITED

    @classmethod
    def of(cls, limits: "LevelLimits") -> "Said":
        """Return what a level says, by its limits as a repository returns them."""
        return cls(tuple(limits), UNLIMITED if limits.unlimited else EXTENDS if limits.extends else None)


SAYS_NOTHING: Final = Said()


class LevelLimits(list[Limit]):
    """The limits of a level, which is ``unlimited``, or ``extends`` the next one."""

    def __init__(self, said: Said) -> None:
        super().__init__(said.limits)
        self.unlimited = said.mode == UNLIMITED
        self.extends = said.mode == EXTENDS


class LimitsInForce(list[Limit]):
    """The limits that hold; ``sources`` names the level of each, ``pattern`` the longest pattern of resources."""

    def __init__(
        self, limits: Iterable[Limit], sources: Mapping[str, ConfigSource], pattern: str | None = None
    ) -> None:
        super().__init__(limits)
        self.sources = sources
        self.pattern = pattern


def check_said(limits: Sequence[Limit | str], *, extends: bool = False) -> Said:
    """Return what a level is to say. Raises ``ValidationError`` for limits that are none, but ``UNLIMITED`` ones."""
    if type(extends) is not bool:
        raise ValidationError("extends", extends, "must be True or False")
    if isinstance(limits, str) and limits == UNLIMITED:
        if extends:
            raise ValidationError("extends", extends, "adds limits to those of the level below: give limits with it")
        return Said((), UNLIMITED)
    if isinstance(limits, Sequence) and not isinstance(limits, str) and not limits:
        raise ValidationError("limits", [], "give at least one limit, or UNLIMITED for a level that has none")
    return Said(check_limits("limits", limits), EXTENDS if extends else None)


def check_mode(mode: object, limits: Sequence[Limit]) -> LevelMode | None:
    """Return the mode of a level with these limits. Raises ``ValidationError``."""
    match mode:
        case None:
            return None
        case "unlimited" if not limits:
            return UNLIMITED
        case "extends" if limits:
            return EXTENDS
    raise ValidationError("mode", mode, "must be 'unlimited' without limits, 'extends' with limits, or None")


def lifted(own: Said, override: tuple[Limit, ...], *, extends: bool) -> Said:
    """Return what a level says while an override replaces its limits, or with ``extends`` adds to them."""
    if not extends:
        return Said(override)
    return Said(_over(override, own.limits), own.mode if own.limits else None if own else EXTENDS)


def _over(limits: Sequence[Limit], below: Iterable[Limit]) -> tuple[Limit, ...]:
    found = {**{limit.name: limit for limit in below}, **{limit.name: limit for limit in limits}}
    return tuple(found[name] for name in sorted(found))


class Level(NamedTuple):
    """One level: its name, and that of its ``pattern``, and what is there, as it was read at ``read_at_ms``.

    ``limits`` hold, by ``mode``; ``stored`` is what an override, which ends at ``ends_ms``, may have replaced.
    """

    source: ConfigSource
    limits: tuple[Limit, ...]
    stored: Said = SAYS_NOTHING
    ends_ms: int | None = None
    switches: Switches = NO_SWITCHES
    on_refused: OnRefused | None = None
    read_at_ms: int = 0
    mode: LevelMode | None = None
    pattern: str | None = None


class Composed(NamedTuple):
    """The limits that levels have together, sorted by name, each of the level that ``sources`` names.

    ``levels`` are those that the limits are of, the strongest first, with the one that is ``unlimited``; none if no
    level says anything.
    """

    limits: tuple[Limit, ...] = ()
    sources: Mapping[str, ConfigSource] = NO_SOURCES
    levels: Sequence[Level] = ()

    @property
    def source(self) -> ConfigSource | None:
        """The strongest level that says anything."""
        return self.levels[0].source if self.levels else None

    @property
    def pattern(self) -> str | None:
        """The longest pattern of which there are limits."""
        return next((level.pattern for level in self.levels if level.pattern is not None), None)


def compose(levels: Iterable[Level]) -> Composed:
    """Return the limits of levels, the strongest first: of each name those of the first level that has it, down to the
    first level that does not extend the next.
    """
    of: list[Level] = []
    for level in levels:
        if not level.limits and level.mode != UNLIMITED:
            continue
        of.append(level)
        if level.mode != EXTENDS:
            break
    if not of:
        return Composed()
    if len(of) == 1:  # most do not extend: the limits are the level's, as they are
        [level] = of
        return Composed(level.limits, {limit.name: level.source for limit in level.limits}, of)
    sources: dict[str, ConfigSource] = {}
    limits: tuple[Limit, ...] = ()
    for level in reversed(of):
        limits = _over(level.limits, limits)
        sources |= {limit.name: level.source for limit in level.limits}
    return Composed(limits, sources, of)


def no_room(place: str, limits: Sequence[Limit], sources: Mapping[str, ConfigSource]) -> ValidationError | None:
    """Return the problem of limits that come together from several levels and are too many for a bucket."""
    if len(limits) <= MAX_LIMITS:
        return None
    levels, held = ", ".join(each for each in LEVELS if each in sources.values()), f"a bucket has at most {MAX_LIMITS}"
    problem = f"{len(limits)} come together from the levels {levels}, and {held}: let one not extend the next"
    return ValidationError("limits", place, problem)


@dataclass(frozen=True, slots=True)
class Config:
    """The limits that a process holds a bucket to, and the instant of their birth (epoch ms), by which the newest shape
    the bucket: for stored limits that of the read, for others that at which this process began to pass them.

    ``read_at_ms``: when the store said that they hold, if that was later; ``FOLLOWS`` if it is not to be asked, also if
    the bucket has newer ones: the call passed them as ``limits=``, or they were just read for it.
    ``own``: they are the entity's own, and none is a total that expires, so its bucket never does. ``stored``: a level
    has them, so a limit that they do not name leaves the bucket. ``limits`` are the rules, as a bucket has them.
    ``shadow`` names the limits that never refuse. ``declared`` has the limits as the call or the level has them, if
    any differs from its rule. A limit with a schedule has the values of an instant (``at``), which hold since
    ``since_ms``: below 0 if no limit has one. The bucket of such a limit never expires, because a new one would begin
    full. ``prefetch``: the seconds for which a process may prefetch tokens, by limit, of the limits that allow it.
    """

    limits: tuple[Limit, ...]
    born_ms: int
    read_at_ms: int = 0
    own: bool = False
    stored: bool = False
    shadow: frozenset[str] = frozenset()
    declared: tuple[Limit, ...] = ()
    since_ms: int = NO_SCHEDULE
    by_name: Mapping[str, Limit] = field(init=False, repr=False, compare=False)
    prefetch: Mapping[str, float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for limit in self.limits:  # any() would cost more, and default limits come by here with each acquire
            if limit.shadow or limit.prefetch or limit.weights is not NO_WEIGHTS or limit.schedule:
                self._take_rules()
                break
        object.__setattr__(self, "by_name", {limit.name: limit for limit in self.limits})
        object.__setattr__(self, "prefetch", _prefetch_of(self.declared, self.limits) if self.declared else NO_TIME)

    def _take_rules(self) -> None:
        declared, rules, shadow = _rules_of(self.limits)
        object.__setattr__(self, "shadow", self.shadow | shadow)
        object.__setattr__(self, "declared", declared)
        object.__setattr__(self, "limits", rules)
        if any(limit.schedule for limit in declared):
            object.__setattr__(self, "since_ms", 0)
            object.__setattr__(self, "own", True)

    @property
    def is_unlimited(self) -> bool:
        """Whether a level says that there are no limits."""
        return self.stored and not self.limits

    def at(self, now_ms: int) -> "Config":
        """Return the same config with the values that the schedules of its limits have at an instant."""
        if self.since_ms < 0:
            return self
        scheduled = self.scheduled
        found = {name: values.timetables.timetable_of(limit).at(now_ms) for name, limit in scheduled.items()}
        since_ms = max(piece.begin_ms for piece in found.values())
        limits = tuple(found[limit.name].limit if limit.name in found else limit for limit in self.limits)
        if limits == self.limits and since_ms == self.since_ms:
            return self
        return replace(self, limits=limits, since_ms=since_ms)

    def only(self, names: Collection[str]) -> "Config":
        """Return the limits of these names alone."""
        limits, declared = (tuple(each for each in of if each.name in names) for of in (self.limits, self.declared))
        return replace(self, limits=limits, declared=declared)

    def with_rules(self, rules: Iterable[Limit]) -> "Config":
        """Return the limits with the rules that a bucket has for them."""
        known = {rule.name: rule for rule in rules}
        return replace(self, limits=tuple(known.get(limit.name, limit) for limit in self.limits))

    def has_values(self, rules: Iterable[Limit]) -> bool:
        """Return whether a bucket with these rules has values that the limits of this config have at any time."""
        known, scheduled = {rule.name: rule for rule in rules}, self.scheduled
        return all(
            known.get(name) in values.timetables.timetable_of(scheduled[name]).variants
            if name in scheduled
            else known.get(name) == limit
            for name, limit in self.by_name.items()
        )

    @property
    def scheduled(self) -> Mapping[str, Limit]:
        """The limits that have a schedule, by name, as they are declared."""
        return NOTHING if self.since_ms < 0 else {limit.name: limit for limit in self.declared if limit.schedule}

    def schedule_id(self, name: str) -> str:
        """Return what distinguishes the schedule of a limit from others; empty without one."""
        limit = self.scheduled.get(name)
        return "" if limit is None else values.timetables.schedule_id(limit)

    def most_milli(self, name: str) -> int:
        """Return the most millitokens that a limit ever holds, at whatever time of its schedule."""
        declared = self.scheduled.get(name)
        variants = (self.by_name[name],) if declared is None else values.timetables.timetable_of(declared).variants
        return max(each._ceiling_milli for each in variants)

    def until_ms(self, now_ms: int) -> int | None:
        """Return the next instant at which a schedule may change the values; ``None`` if there is no schedule."""
        return min(
            (values.timetables.timetable_of(limit).at(now_ms).end_ms for limit in self.scheduled.values()), default=None
        )

    @property
    def weights(self) -> Mapping[str, Weights]:
        """The weights by limit, of the limits that have some."""
        return {limit.name: Weights.check("weights", limit.weights) for limit in self.declared if limit.weights}

    @property
    def marked(self) -> tuple[Limit, ...]:
        """The limits as the caller or the level has them: those of ``shadow`` have the mark."""
        limits = self.declared or self.limits
        return tuple(replace(limit, shadow=limit.name in self.shadow) for limit in limits)

    @property
    def follows(self) -> bool:
        """Whether a bucket's newer limits are used, and nothing is read again."""
        return self.read_at_ms == FOLLOWS

    @property
    def enforced(self) -> Mapping[str, Limit]:
        """The limits that are not shadow limits, by name."""
        return {name: limit for name, limit in self.by_name.items() if name not in self.shadow}

    def born_at(self, born_ms: int, before: "Config | None") -> "Config":
        """Return the limits with another birth; those of ``before`` if they are the same, as most calls pass them."""
        if before is not None and born_ms == before.born_ms and self.limits == before.limits:
            mine, others = (self.read_at_ms, self.own, self.shadow), (before.read_at_ms, before.own, before.shadow)
            if mine == others and self.since_ms == before.since_ms and self.declared == before.declared:
                return before
        return replace(self, born_ms=born_ms)

    def is_newer_than(self, other: "Config") -> bool:
        """Return whether the same limits were born, or read, later than the other ones."""
        return (self.born_ms, self.read_at_ms) > (other.born_ms, other.read_at_ms)

    def born_after(self, instant_ms: int) -> "Config":
        """Return the same limits, as if read after an instant that may come from another process's clock."""
        return self if self.born_ms > instant_ms else replace(self, born_ms=instant_ms + 1)


@lru_cache(maxsize=1024)  # default limits come by here with each acquire
def _rules_of(limits: tuple[Limit, ...]) -> tuple[tuple[Limit, ...], tuple[Limit, ...], frozenset[str]]:
    """Return the limits, their rules, and the names of the shadow limits."""
    return limits, tuple(limit._rule for limit in limits), frozenset(limit.name for limit in limits if limit.shadow)


@lru_cache(maxsize=1024)
def _prefetch_of(declared: tuple[Limit, ...], rules: tuple[Limit, ...]) -> Mapping[str, float]:
    """Return the seconds for which tokens may be prefetched, by limit, of the limits of which they ever are.

    A write that prefetches tokens leaves to others what is minted in that time. If the usable burst is hardly more,
    none ever does: its acquires are those of a limit without ``prefetch``.
    """
    prefetch = {limit.name: limit.prefetch for limit in declared if limit.prefetch}
    return {
        rule.name: prefetch[rule.name]
        for rule in rules
        if rule.name in prefetch
        and (rule.burst - LEAST_HELD) * rule.refill_period > rule.refill_amount * prefetch[rule.name]
    }


@dataclass(frozen=True, slots=True)
class Resolved:
    """Config, parents and policy that hold for an entity on a resource.

    They hold until ``valid_until_ms``, and as long as this process changes none of them after ``generation``. From
    ``ends_ms`` on, the end of an override, they do not hold even if the store does not answer. ``further_ids``: who was
    above the parents when the entity got them, and probably still is: a hint of what to read with the parents.
    ``switches``: ``None`` if no level sets one; ``cascade`` goes by them. Limits that are disabled hold for no time:
    who is refused asks again as soon as what was read at ``seen_ms`` (epoch ms) is too old to refuse by.
    ``on_refused`` is that of the strongest level that has one, whichever level's limits hold. ``tier``: that of the
    entity, whether or not its limits hold. ``dropped``: the limits that other levels have and the winning level leaves
    out; it decided that they are not limited. ``sources``: the level of each limit. ``pattern``: the longest of those
    that its limits come from. ``by_override``: the limits end with overrides. ``is_plain``: a call without limits
    of its own is held to the config as it is: no schedule and no switch changes it, and a bucket has room for it.
    """

    config: Config
    source: ConfigSource | None
    on_unavailable: Policy | None
    parent_ids: tuple[str, ...]
    cascade: bool
    valid_until_ms: int
    generation: int
    ends_ms: int | None = None
    further_ids: tuple[str, ...] = ()
    switches: ResolvedSwitches | None = None
    seen_ms: int = 0
    on_refused: OnRefused | None = None
    tier: str | None = None
    dropped: frozenset[str] = NO_NAMES
    by_override: bool = False
    sources: Mapping[str, ConfigSource] = field(default_factory=dict, compare=False)
    pattern: str | None = None
    is_plain: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        plain = 0 < len(self.config.limits) <= MAX_LIMITS and self.config.since_ms < 0 and self.switches is None
        object.__setattr__(self, "is_plain", plain)

    @property
    def is_of_tokens_alone(self) -> bool:
        """Whether a call only takes tokens, of this bucket alone: no limit has slots, or anything beside its rule."""
        config = self.config
        if not self.is_plain or self.parent_ids or config.declared:
            return False
        for limit in config.limits:  # noqa: SIM110 - a generator costs more, and each first acquire comes by here
            if limit._has_slots:
                return False
        return True

    def is_recent(self, now_ms: int, staleness_ms: int) -> bool:
        """Return whether the limits were read so lately that they refuse without another look."""
        return abs(now_ms - self.seen_ms) < staleness_ms

    @property
    def disables(self) -> bool:
        """Whether every acquire is refused."""
        return self.switches is not None and self.switches.disables

    @property
    def disables_for_a_time(self) -> bool:
        """Whether an override has a capacity of 0 for each limit, which refuses as a disable does."""
        limits, shadow = self.config.limits, self.config.shadow
        return self.by_override and bool(limits) and not shadow and all(limit.blocks for limit in limits)

    def agrees_with(self, other: "Resolved") -> bool:
        """Return whether an acquire would use the same limits, the same switches and the same parents with either."""
        mine, others = self.config, other.config
        if mine.scheduled or others.scheduled:  # whose values may be those of different times
            same = mine.declared == others.declared
        else:
            same = (mine.limits, mine.shadow, mine.prefetch) == (others.limits, others.shadow, others.prefetch)
            same = same and mine.weights == others.weights
        same = same and self.switches == other.switches
        return same and (self.parent_ids, self.cascade) == (other.parent_ids, other.cascade)


class SystemDefaults(NamedTuple):
    """What is stored at the system level: its limits, and what calls do while the store is away, if that is set."""

    limits: LevelLimits
    on_unavailable: OnUnavailable | None


class ResolvedLimits(NamedTuple):
    """The limits that hold for an entity on a resource, and the strongest level that says so; ``None`` if none does.

    ``sources``: the level of each limit. ``on_unavailable`` is that of the system level, if it is set there.
    """

    limits: LimitsInForce
    on_unavailable: OnUnavailable | None
    source: ConfigSource | None

    @property
    def pattern(self) -> str | None:
        """The longest of the patterns of resources that they come from, if any do."""
        return self.limits.pattern

    @property
    def sources(self) -> Mapping[str, ConfigSource]:
        """The level of each limit, by name."""
        return self.limits.sources

    @property
    def unlimited(self) -> bool:
        """Whether a level says that there are no limits."""
        return self.source is not None and not self.limits
