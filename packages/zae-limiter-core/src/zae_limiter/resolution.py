"""Which limits hold for an entity on a resource.

Lives here: the four levels and which one wins, as values. Never: how the levels are read (flows.configs).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from .limits import ConfigSource, Limit, OnUnavailable

OWN_LEVELS = ("entity", "entity_default")


@dataclass(frozen=True, slots=True)
class Config:
    """The limits that a process holds a bucket to, and when it read them (epoch ms).

    ``own`` is set where they are the entity's own: such a bucket never expires. ``given`` is set where the call gave
    them: they hold now, whatever another process's clock said of the bucket's limits. ``stored`` is set where a level
    has them: what it does not name leaves the bucket.
    """

    limits: tuple[Limit, ...]
    read_at_ms: int
    own: bool = False
    given: bool = False
    stored: bool = False
    by_name: Mapping[str, Limit] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {limit.name: limit for limit in self.limits})

    def is_newer_than(self, other: "Config") -> bool:
        """Whether it says more of a bucket: one that was given holds now, whatever was read."""
        return (self.given, self.read_at_ms) > (other.given, other.read_at_ms)

    def read_again_after(self, instant_ms: int) -> "Config":
        """The same limits, known to be read later than an instant that another process's clock gave."""
        return self if self.read_at_ms > instant_ms else replace(self, read_at_ms=instant_ms + 1)


@dataclass(frozen=True, slots=True)
class Resolved:
    """All that an acquire has to know of an entity on a resource before it looks at the bucket.

    It holds until ``valid_until_ms``, and only while nothing of it has changed since the cache's ``generation``.
    """

    config: Config
    source: ConfigSource | None
    on_unavailable: OnUnavailable | None
    parent_id: str | None
    cascade: bool
    valid_until_ms: int
    generation: int

    def agrees_with(self, other: "Resolved") -> bool:
        """Whether an acquire would do the same with either."""
        mine = (self.config.limits, self.parent_id, self.cascade)
        return mine == (other.config.limits, other.parent_id, other.cascade)


class Level(NamedTuple):
    """One level of the hierarchy: the limits stored there, none where nothing is."""

    source: ConfigSource
    limits: tuple[Limit, ...]


def winner(levels: Sequence[Level]) -> Level | None:
    """The first level that has limits; it wins as a whole."""
    return next((level for level in levels if level.limits), None)
