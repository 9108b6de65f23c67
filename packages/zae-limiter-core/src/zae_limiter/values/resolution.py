"""Resolve the limits that hold for an entity on a resource: the four levels, and the one that wins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from .limits import ConfigSource, Limit, OnUnavailable

OWN_LEVELS = ("entity", "entity_default")


@dataclass(frozen=True, slots=True)
class Config:
    """The limits that a process holds a bucket to, and the instant at which it read them (epoch ms).

    ``own``: they are the entity's own, so its bucket never expires. ``from_call``: the call passed them as ``limits=``;
    they hold now, whatever another process read. ``stored``: a level has them, so a limit that they do not name leaves
    the bucket. ``shadow`` names the limits that refuse nobody; ``limits`` are rules without that mark, because a
    bucket's shape does not depend on it.
    """

    limits: tuple[Limit, ...]
    read_at_ms: int
    own: bool = False
    from_call: bool = False
    stored: bool = False
    shadow: frozenset[str] = frozenset()
    by_name: Mapping[str, Limit] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for limit in self.limits:  # any() would cost more, and default limits come by here with each acquire
            if limit.shadow:
                self._take_marks()
                break
        object.__setattr__(self, "by_name", {limit.name: limit for limit in self.limits})

    def _take_marks(self) -> None:
        marked = frozenset(limit.name for limit in self.limits if limit.shadow)
        object.__setattr__(self, "shadow", self.shadow | marked)
        object.__setattr__(self, "limits", tuple(replace(limit, shadow=False) for limit in self.limits))

    @property
    def marked(self) -> tuple[Limit, ...]:
        """The limits as the caller or the level has them: those of ``shadow`` have the mark."""
        return tuple(replace(limit, shadow=limit.name in self.shadow) for limit in self.limits)

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


@dataclass(frozen=True, slots=True)
class Resolved:
    """Config, parent and policy that hold for an entity on a resource.

    They hold until ``valid_until_ms``, and as long as this process changes none of them after ``generation``. From
    ``ends_ms`` on, the end of an override, they do not hold even if the store does not answer.
    """

    config: Config
    source: ConfigSource | None
    on_unavailable: OnUnavailable | None
    parent_id: str | None
    cascade: bool
    valid_until_ms: int
    generation: int
    ends_ms: int | None = None

    def agrees_with(self, other: "Resolved") -> bool:
        """Return whether an acquire would use the same limits and the same parent with either."""
        mine = (self.config.limits, self.config.shadow, self.parent_id, self.cascade)
        return mine == (other.config.limits, other.config.shadow, other.parent_id, other.cascade)


class Level(NamedTuple):
    """One level: its name, and the limits stored there, if any."""

    source: ConfigSource
    limits: tuple[Limit, ...]


def winner(levels: Sequence[Level]) -> Level | None:
    """Return the first level that has limits; it wins as a whole."""
    return next((level for level in levels if level.limits), None)
