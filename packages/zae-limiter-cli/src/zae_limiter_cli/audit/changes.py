"""Show the values that a change has changed, in few words."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from zae_limiter import AuditEvent

COUNTERS: Final = {"version", "config_version"}  # that rise with every change


def changes(event: "AuditEvent") -> Iterator[str]:
    """Yield ``name value`` for a new value, ``name value -> value``, and ``name value -> -`` for a removed one; by
    name.

    A limit that stays and changes its mode is ``limits.rpm shadow -> enforced``, or the reverse; one that changes its
    seconds ahead is ``limits.rpm.ahead 0 s -> 1 s``, and its weights ``limits.rpm.weights none -> input=1,output=4``.
    """
    credited = event.action == "bucket_credited"  # ``after`` has only the credit: nothing is gone
    before, after = dict(_flat(None if credited else event.before)), dict(_flat(event.after))
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        limit, _, field = name.rpartition(".")
        if old == new:
            continue
        if field in _OF_LIMITS and f"{limit}.capacity" in before.keys() & after.keys():
            shown, said = _OF_LIMITS[field]
            yield f"{limit}{shown} {said(old)} -> {said(new)}"
        else:
            yield f"{name} {_word(new)}" if old is None else f"{name} {_word(old)} -> {_word(new)}"


def _flat(value: Mapping[str, Any] | None, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value with its path, such as ``limits.rpm.capacity``."""
    for name, inner in (value or {}).items():
        if isinstance(inner, Mapping):
            yield from _flat(inner, f"{path}{name}.")
        elif path or name not in COUNTERS:
            yield path + name, inner


def _mode(shadow: Any) -> str:
    return "shadow" if shadow else "enforced"


def _seconds(milliseconds: Any) -> str:
    return f"{(milliseconds or 0) / 1000:g} s"


def _words(text: Any) -> str:
    return str(text or "none")


_OF_LIMITS: Final[Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "shadow": ("", _mode),
    "ahead_ms": (".ahead", _seconds),
    "weights": (".weights", _words),
    "schedule": (".schedule", _words),
    "alert": (".alert", _words),
}


def _word(value: Any) -> str:
    from zae_limiter_manifest.problems import printable

    return "-" if value is None else printable(json.dumps(value, ensure_ascii=False))
