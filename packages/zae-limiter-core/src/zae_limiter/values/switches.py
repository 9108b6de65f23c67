"""Switches: what a level says of acquires beside its limits, and which level's word holds.

Limits win as a whole; each switch is looked up by itself, so that a resource can be closed to those who have limits of
their own, too.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from ..exceptions import ValidationError
from ..runtime.dataclass import dataclass
from .limits import ConfigSource

Cascading = Literal["on", "off", "inherit"]
"""Whether the acquires of an entity draw on its parents' buckets, whatever the entity's own ``cascade`` is."""

LONGEST_REASON: Final = 200
SETTERS: Final[Mapping[ConfigSource, str]] = {
    "entity": "its own config",
    "entity_default": "its own config on all resources",
    "tier": "the config of its tier",
    "tier_default": "the config of its tier on all resources",
    "resource": "the config of the resource",
    "pattern": "the config of a pattern of its resource",
    "system": "the system's config",
}
"""Each level in words, for a message that has named the entity."""


@dataclass(frozen=True, slots=True)
class Switches:
    """The switches of one level; ``None`` leaves a switch to the next level. Raises ``ValidationError``.

    ``disabled``: every acquire is refused. ``bypass``: every acquire is admitted and counted. ``cascade``: acquires
    draw on the parents' buckets (``"on"``), or do not (``"off"``); ``"inherit"`` stands for ``None``. ``reason`` says
    why, for the refused caller; without a switch there is none.
    """

    disabled: bool | None = None
    bypass: bool | None = None
    cascade: Cascading | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        if self.cascade == "inherit":
            object.__setattr__(self, "cascade", None)
        for name in ("disabled", "bypass"):
            value = getattr(self, name)
            if value is not None and type(value) is not bool:
                raise ValidationError(name, value, "must be True or False, or None for the word of the next level")
        if self.cascade not in ("on", "off", None):
            raise ValidationError("cascade", self.cascade, "must be 'on', 'off' or 'inherit'")
        if self.disabled and self.bypass:
            raise ValidationError("bypass", self.bypass, "contradicts disabled: choose one of them")
        if self.reason is not None:
            self._check_reason()

    def _check_reason(self) -> None:
        reason = self.reason
        if not isinstance(reason, str) or not reason.strip() or len(reason) > LONGEST_REASON:
            raise ValidationError("reason", reason, f"must be a text of 1 to {LONGEST_REASON} characters")
        if not reason.isprintable():
            raise ValidationError("reason", reason, "must be one line of printable characters")
        if not self:
            raise ValidationError("reason", reason, "is that of a switch: set disabled, bypass or cascade with it")

    def __bool__(self) -> bool:
        return not (self.disabled is None and self.bypass is None and self.cascade is None)


NO_SWITCHES: Final = Switches()


@dataclass(frozen=True, slots=True)
class SetSwitch:
    """The value of a switch that holds, and the level that set it, with its reason, and with its ``pattern``."""

    value: bool | Cascading
    source: ConfigSource
    reason: str | None = None
    pattern: str | None = None

    @property
    def setter(self) -> str:
        """Return the level in words, for a message that has named the entity."""
        return SETTERS[self.source] if self.pattern is None else f"the config of the pattern {self.pattern}"

    @property
    def because(self) -> str:
        """The reason as it follows the setter, with a space before it; empty without one."""
        return "" if self.reason is None else f" ({self.reason})"


@dataclass(frozen=True, slots=True)
class ResolvedSwitches:
    """The switches that hold for an entity on a resource, each of the first level that sets it; ``None``: no level."""

    disabled: SetSwitch | None = None
    bypass: SetSwitch | None = None
    cascade: SetSwitch | None = None

    @property
    def disables(self) -> bool:
        """Whether every acquire is refused: this comes before ``bypass``."""
        return self.disabled is not None and self.disabled.value is True

    @property
    def bypasses(self) -> bool:
        """Whether no limit refuses."""
        return self.bypass is not None and self.bypass.value is True and not self.disables


def resolve_switches(
    levels: Iterable[tuple[ConfigSource, Switches, str | None]],
) -> ResolvedSwitches | None:
    """Return the switches that hold, by those of the levels, the strongest first, each with its pattern if it is one;
    ``None`` if no level sets one.
    """
    found: dict[str, SetSwitch] = {}
    for source, switches, pattern in levels:
        for name in ("disabled", "bypass", "cascade") if switches else ():
            value = getattr(switches, name)
            if value is not None and name not in found:
                found[name] = SetSwitch(value, source, switches.reason, pattern)
    return ResolvedSwitches(**found) if found else None
