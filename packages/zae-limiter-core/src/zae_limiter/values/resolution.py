"""Resolve the limits that hold for an entity on a resource: the four levels, and the one that wins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from .limits import ConfigSource, Limit, OnUnavailable
from .on_refused import OnRefused
from .weights import NO_WEIGHTS, Weights

OWN_LEVELS = ("entity", "entity_default")


@dataclass(frozen=True, slots=True)
class Config:
    """The limits that a process holds a bucket to, and the instant at which it read them (epoch ms).

    ``own``: they are the entity's own, so its bucket never expires. ``from_call``: the call passed them as ``limits=``;
    they hold now, whatever another process read. ``stored``: a level has them, so a limit that they do not name leaves
    the bucket. ``limits`` are the rules, as a bucket has them (``Limit.rule``). ``shadow`` names the limits that refuse
    nobody. ``declared`` has the limits as the call or the level has them, if any differs from its rule.
    """

    limits: tuple[Limit, ...]
    read_at_ms: int
    own: bool = False
    from_call: bool = False
    stored: bool = False
    shadow: frozenset[str] = frozenset()
    declared: tuple[Limit, ...] = ()
    by_name: Mapping[str, Limit] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for limit in self.limits:  # any() would cost more, and default limits come by here with each acquire
            if limit.shadow or limit.ahead or limit.weights is not NO_WEIGHTS:
                self._take_rules()
                break
        object.__setattr__(self, "by_name", {limit.name: limit for limit in self.limits})

    def _take_rules(self) -> None:
        declared, rules, shadow = _rules_of(self.limits)
        object.__setattr__(self, "shadow", self.shadow | shadow)
        object.__setattr__(self, "declared", declared)
        object.__setattr__(self, "limits", rules)

    @property
    def ahead(self) -> Mapping[str, float]:
        """The seconds for which a process may hold tokens ahead, by limit, of the limits that allow it."""
        return {limit.name: limit.ahead for limit in self.declared if limit.ahead}

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
    def enforced(self) -> Mapping[str, Limit]:
        """The limits that are no shadow limits, by name."""
        return {name: limit for name, limit in self.by_name.items() if name not in self.shadow}

    def is_newer_than(self, other: "Config") -> bool:
        """Return whether this config is newer: limits passed by a call are newer than any that were read."""
        return (self.from_call, self.read_at_ms) > (other.from_call, other.read_at_ms)

    def is_older_than(self, instant_ms: int) -> bool:
        """Return whether the limits were read before an instant; those that a call passed never are."""
        return self.read_at_ms < instant_ms and not self.from_call

    def read_again_after(self, instant_ms: int) -> "Config":
        """Return the same limits, as if read after an instant that may come from another process's clock."""
        return self if self.read_at_ms > instant_ms else replace(self, read_at_ms=instant_ms + 1)


@lru_cache(maxsize=1024)  # default limits come by here with each acquire
def _rules_of(limits: tuple[Limit, ...]) -> tuple[tuple[Limit, ...], tuple[Limit, ...], frozenset[str]]:
    """Return the limits, their rules, and the names of the shadow limits."""
    return limits, tuple(limit.rule for limit in limits), frozenset(limit.name for limit in limits if limit.shadow)


@dataclass(frozen=True, slots=True)
class Resolved:
    """Config, parents and policy that hold for an entity on a resource.

    They hold until ``valid_until_ms``, and as long as this process changes none of them after ``generation``. From
    ``ends_ms`` on, the end of an override, they do not hold even if the store does not answer. ``further_ids``: who was
    above the parents when the entity got them, and probably still is: a hint of what to read with the parents.
    ``on_refused`` is that of the strongest level that has one, whichever level's limits hold.
    """

    config: Config
    source: ConfigSource | None
    on_unavailable: OnUnavailable | None
    parent_ids: tuple[str, ...]
    cascade: bool
    valid_until_ms: int
    generation: int
    ends_ms: int | None = None
    further_ids: tuple[str, ...] = ()
    on_refused: OnRefused | None = None

    def agrees_with(self, other: "Resolved") -> bool:
        """Return whether an acquire would use the same limits and the same parents with either."""
        mine, others = self.config, other.config
        same = (mine.limits, mine.shadow, mine.ahead) == (others.limits, others.shadow, others.ahead)
        same = same and mine.weights == others.weights
        return same and (self.parent_ids, self.cascade) == (other.parent_ids, other.cascade)


class Level(NamedTuple):
    """One level: its name, and the limits stored there, if any."""

    source: ConfigSource
    limits: tuple[Limit, ...]


def winner(levels: Sequence[Level]) -> Level | None:
    """Return the first level that has limits; it wins as a whole."""
    return next((level for level in levels if level.limits), None)
