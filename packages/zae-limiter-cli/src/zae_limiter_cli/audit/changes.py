"""Show the values that a change has changed, in few words."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from zae_limiter.values import AuditEvent

COUNTERS: Final = {"version", "config_version"}  # that go up with every change
BESIDE_THE_TEXT: Final = ("weights", "schedule")  # of a limit


def changes(event: "AuditEvent") -> Iterator[str]:
    """Yield ``name value`` for a new value, ``name value -> value``, and ``name value -> -`` for a removed one; by
    name.

    A limit is its text, ``limits.rpm 100/min -> 200/min``, and beside it its weights and its schedule, if they change.
    """
    before, after = dict(_flat(_shown(event, event.before))), dict(_flat(_shown(event, event.after)))
    if event.action == "bucket_credited" and "available" not in (event.after or {}):
        before = {}  # of an older release, which wrote the credit alone: nothing is gone
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name, "-")
        if old != new:
            yield f"{name} {new}" if old is None else f"{name} {old} -> {new}"


def plain_event(event: "AuditEvent") -> dict[str, Any]:
    """Return an event for programs. A change of a tier has its name as ``tier``, and no entity."""
    from zae_limiter.maintenance import tier_of_subject

    plain, tier = asdict(event), tier_of_subject(event.entity_id)
    return plain if tier is None else {**plain, "entity_id": None, "tier": tier}


def of_subject(subject: str) -> str:
    """Return the subject of changes in words: `tier gold`, `resource gpt-4`, `the system`, or an entity by its id."""
    from zae_limiter.maintenance import audit_resource, audit_system, tier_of_subject

    if (tier := tier_of_subject(subject)) is not None:
        return f"tier {tier}"
    if subject == audit_system():
        return "the system"
    before = audit_resource("")
    return f"resource {subject.removeprefix(before)}" if subject.startswith(before) else subject


def _shown(event: "AuditEvent", values: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the values of an event on a bucket with money as text; others as they are."""
    units = (event.after or {}).get("units")
    if not event.action.startswith("bucket_") or not isinstance(units, Mapping) or values is None:
        return values
    from zae_limiter.values.money import show_amount

    return {
        group: {name: show_amount(amount, units[name]) if name in units else amount for name, amount in each.items()}
        if group in ("available", "credited")
        else each
        for group, each in values.items()
        if group != "units"
    }


def _flat(value: Mapping[str, Any] | None, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each value in words, with its path, such as ``metadata.team``."""
    from zae_limiter.maintenance import is_plain_limit

    for name, inner in (value or {}).items():
        if isinstance(inner, Mapping):
            if is_plain_limit(inner):
                yield path + name, _text(inner)
                yield from ((f"{path}{name}.{each}", _plain(inner[each])) for each in BESIDE_THE_TEXT if each in inner)
            else:
                yield from _flat(inner, f"{path}{name}.")
        elif inner is not None and (path or name not in COUNTERS):
            is_money = path in ("available.", "credited.") and isinstance(inner, str)
            yield path + name, _plain(inner if is_money else json.dumps(inner, ensure_ascii=False))


def _text(limit: Mapping[str, Any]) -> str:
    """Return the text of a limit that has its fields as an event has them."""
    from zae_limiter.maintenance import plain_text

    return _plain(plain_text(limit))


def _plain(text: str) -> str:
    from zae_limiter_manifest.problems import printable

    return printable(text)
