"""The switches of a level as a manifest has them, beside its limits."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import field, frozen

from .converter import CASCADES
from .shapes import INHERIT, Cascading, Flag, Text, about

SWITCHES: Final = ("disabled", "bypass", "cascade")
REASON: Final = "reason"
SWITCH_FIELDS: Final = (*SWITCHES, REASON)
LONGEST_REASON: Final = 200

_WORDS: Final[Mapping[object, str]] = {True: "yes", False: "no", None: "inherit"}
_CASCADE_WORDS: Final[Mapping[object, str]] = {True: "on", False: "off", None: "inherit"}


def _as_cascade(value: object) -> object:
    """Return True for `on`, which YAML 1.1 reads as true, False for `off`, None for `inherit`."""
    return CASCADES.get(value, value) if isinstance(value, str) else value


@frozen
class SwitchesDecl:
    """What every level may say beside its limits; None leaves a switch to the next level."""

    disabled: bool | None = field(
        default=None,
        kw_only=True,
        metadata=about(Flag(), "`true`: every acquire is refused, and says so; `false`: none is for this"),
    )
    bypass: bool | None = field(
        default=None,
        kw_only=True,
        metadata=about(Flag(), "`true`: every acquire is admitted and counted; `false`: by the limits"),
    )
    cascade: bool | None = field(
        default=None,
        kw_only=True,
        converter=_as_cascade,
        metadata=about(
            Cascading(),
            "`on`: acquires draw on the parents' buckets, `off`: they do not, whatever the entity's own `cascade` is; "
            "`inherit`, as without the key: the next level says it",
        ),
    )
    reason: str | None = field(
        default=None, kw_only=True, metadata=about(Text(LONGEST_REASON), "why; it is in the error of each refused call")
    )

    @property
    def switches(self) -> dict[str, bool | str]:
        """The switches that are set, and their reason, as plain values by key."""
        values = ((name, getattr(self, name)) for name in SWITCH_FIELDS)
        return {name: value for name, value in values if value is not None}


def find_switch_conflicts(level: Mapping[object, object]) -> Iterator[tuple[object, str]]:
    """Yield the keys of a level's switches that do not go together, and why."""
    if level.get("disabled") is True and level.get("bypass") is True:
        yield "bypass", "contradicts `disabled: true` on the same level: leave one of them out"
    reason = level.get(REASON)
    if not isinstance(reason, str):
        return
    if not reason.strip() or not reason.isprintable():
        yield REASON, "must be one line of printable characters, and not empty"
    if all(level.get(name) in (None, INHERIT) for name in SWITCHES):
        yield REASON, "is that of a switch: set `disabled`, `bypass` or `cascade` with it"


def switch_word(name: str, value: Any) -> str | None:
    """Return the value of a switch in words: `yes`, `no`, `on`, `off` or `inherit`; a reason as it is."""
    if name == REASON:
        return None if value is None else str(value)
    return (_CASCADE_WORDS if name == "cascade" else _WORDS)[value]
