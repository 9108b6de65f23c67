from typing import Any

import pytest

from zae_limiter.values import AuditEvent
from zae_limiter_cli.audit.changes import changes

RPM = {"capacity": 5, "burst": 5, "refill_amount": 5, "refill_period": 60}


def told(before: dict[str, Any] | None, after: dict[str, Any] | None) -> list[str]:
    return list(changes(AuditEvent("1", "e", "entity_updated", None, "2024-01-01T00:00:00.000Z", None, before, after)))


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (None, {"name": "A", "parent_id": None}, ['name "A"']),
        ({"name": "A"}, {"name": "B"}, ['name "A" -> "B"']),
        ({"name": "A"}, None, ['name "A" -> -']),
        ({"name": "A"}, {"name": None}, ['name "A" -> -']),
        ({"limits": {"rpm": RPM}}, {"limits": {"rpm": RPM | {"burst": 9}}}, ["limits.rpm 5/min -> 5/min burst 9"]),
        (None, {"override": {"limits": {"rpm": RPM}}}, ["override.limits.rpm 5/min"]),
        (
            {"limits": {"rpm": RPM | {"prefetch_ms": 1000, "shadow": True, "alert": "80,95"}}},
            None,
            ["limits.rpm 5/min prefetch 1s alert 80,95 shadow -> -"],
        ),
        (
            {"limits": {"usd": RPM | {"kind": "calendar", "window": "month", "weights": "output=4"}}},
            {"limits": {"usd": RPM | {"kind": "calendar", "window": "month", "schedule": "a: MON 9/min\x9b"}}},
            ["limits.usd.schedule a: MON 9/min\\x9b", "limits.usd.weights output=4 -> -"],
        ),
        ({"limits": {"rpm": {"burst": 1}}}, {"limits": {"rpm": {"burst": 2}}}, ["limits.rpm.burst 1 -> 2"]),
        ({"a": 1, "b": 1}, {"b": 2, "a": 2}, ["a 1 -> 2", "b 1 -> 2"]),
        ({"name": "A"}, {"name": "A"}, []),
        (None, None, []),
    ],
)
def test_only_what_is_different_is_told(before: Any, after: Any, words: list[str]) -> None:
    assert told(before, after) == words


def test_counters_that_rise_with_every_change_are_not_told_but_metadata_of_their_name_is() -> None:
    before = {"version": 1, "config_version": 1, "metadata": {"version": "1"}}
    after = {"version": 2, "config_version": 2, "metadata": {"version": "2"}}
    assert told(before, after) == ['metadata.version "1" -> "2"']


def test_a_line_break_in_a_name_breaks_no_line() -> None:
    assert told(None, {"name": "a\nb"}) == ['name "a\\nb"']


def test_a_name_controls_no_terminal() -> None:
    assert told(None, {"name": "a\x9b2Jb\u202eé"}) == ['name "a\\x9b2Jb\\u202eé"']
