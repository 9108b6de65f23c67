"""The named warnings of a manifest: what is not a mistake in it, and may not be meant."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import field, frozen

from .problems import Path, Problem, format_path

LEFT_OUT: Final = "left-out"
LOOK_ALIKE: Final = "look-alike"
BARE_MONEY: Final = "bare-money"
OPEN_DAY: Final = "open-day"
CHILD_ABOVE_PARENT: Final = "child-above-parent"
OVERSUBSCRIBED: Final = "oversubscribed"
PARENT_WITHOUT_CASCADE: Final = "parent-without-cascade"
PARENT_WITHOUT_LIMITS: Final = "parent-without-limits"
UNUSED_TIER: Final = "unused-tier"
UNNAMED_RESOURCE: Final = "unnamed-resource"
LONE_LIMIT: Final = "lone-limit"

NAMES: Final = (
    LEFT_OUT,
    LOOK_ALIKE,
    BARE_MONEY,
    OPEN_DAY,
    CHILD_ABOVE_PARENT,
    OVERSUBSCRIBED,
    PARENT_WITHOUT_CASCADE,
    PARENT_WITHOUT_LIMITS,
    UNUSED_TIER,
    UNNAMED_RESOURCE,
    LONE_LIMIT,
)
"""The names of all warnings, which `ignore` takes."""


OVERSUBSCRIBE: Final = 10
"""How many times their parent's limit those of children may be together, unless the file says."""

MOST_OVERSUBSCRIBED: Final = 1_000_000


@frozen
class Warned:
    """A warning: its name, the place in the manifest, and the text about it.

    `names` has further paths by name, such as the levels that have each limit. `place` has the file, the line and the
    column; None if the manifest was not read from text.
    """

    name: str
    namespace: str
    at: Path
    text: str
    names: Mapping[str, Sequence[str]] = {}
    place: Problem | None = field(default=None, eq=False)

    @property
    def path(self) -> str:
        """The place in the manifest, as text."""
        return format_path(self.at)

    @property
    def message(self) -> str:
        """The warning on one line, without its name and its line."""
        return f"{self.namespace}: {self.path} {self.text}"

    def __str__(self) -> str:
        where = "" if self.place is None else f"{self.place.where}: "
        return f"{where}{self.message} [{self.name}]"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, with the message and the place."""
        names = {name: list(paths) for name, paths in self.names.items()}
        placed = {key: getattr(self.place, key, None) for key in ("file", "line", "column")}
        said = {"name": self.name, "namespace": self.namespace, "path": self.path, "names": names}
        return {**said, "message": self.message, **placed}
