"""What a level says beside its limits: that it has none, or that they add to those of the next level."""

from collections.abc import Iterator, Mapping, Sized

from attrs import field, frozen

from .converter import EXTENDS, UNLIMITED
from .shapes import Flag, about
from .switches import SwitchesDecl


@frozen
class UnlimitedDecl(SwitchesDecl):
    """What every level may say: that it has no limits, whatever the next level has."""

    unlimited: bool = field(default=False, kw_only=True, metadata=about(Flag(), "`limits: unlimited`"))


@frozen
class ExtendsDecl(UnlimitedDecl):
    """What every level but the system may say: that its limits add to those of the next level."""

    extends: bool = field(
        default=False,
        kw_only=True,
        metadata=about(
            Flag(), "`true`: the limits add to those of the next level, and override those of the same name"
        ),
    )


def find_mode_conflicts(level: Mapping[object, object]) -> Iterator[tuple[object, str]]:
    """Yield what does not go with the limits of a level, and why."""
    limits = level.get("limits")
    if level.get(EXTENDS) is True and not (isinstance(limits, Sized) and limits and limits != UNLIMITED):
        yield EXTENDS, "adds limits to those of the next level: give `limits` with it"
