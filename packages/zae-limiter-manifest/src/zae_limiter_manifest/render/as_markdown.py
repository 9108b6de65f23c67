"""Render plans and answers as Markdown, for a comment on a pull request. Rows beyond its size limit are counted."""

from collections.abc import Iterator
from typing import Final

from ..addresses import Address
from ..changes import Change
from ..overrides import LiveOverride
from ..plan import Plan
from ..protocol import Answer
from . import words
from .sections import LONGEST, Section, code, code_in_table, document

__all__ = ["LONGEST", "render_applied", "render_drift", "render_plan"]

_HEAD: Final = "| | item | limit | change |\n|---|---|---|---|"
_DRIFT_HEAD: Final = "| item | live and declared |\n|---|---|"


def render_plan(*plans: Plan) -> str:
    """Return a section for each namespace with changes: their number, and a table of them."""
    return document([_plan_section(plan) for plan in plans])


def render_drift(*plans: Plan, list_unmanaged: bool = False) -> str:
    """Return a section for each namespace with findings: the numbers of drifted and pending items, and a table of
    them.
    """
    return document([_drift_section(plan, list_unmanaged=list_unmanaged) for plan in plans])


def render_applied(*answers: Answer) -> str:
    """Return a section for each changed namespace: the number of changes made, and a list of errors."""
    return document([_applied_section(answer) for answer in answers])


def _plan_section(plan: Plan) -> Section:
    rows = ["\n".join(_rows(change)) for change in plan.changes]
    rows += ["\n".join(_override_rows(override)) for override in plan.overrides]
    return Section(plan.namespace, words.plan_summary(plan), words.remarks(plan, code), _HEAD, rows)


def _rows(change: Change) -> Iterator[str]:
    item = f"{_item(change.address)}{words.notes(change)}"
    for part in words.parts(change):
        text = code_in_table(part.text) if change.address.is_record else part.text
        yield f"| `{part.mark}` | {item} | `{part.name}` | {text} |"
        item = ""
    if item:
        yield f"| `{words.MARKS[change.action]}` | {item} | | {' '.join(words.unchanged(change))} |"


def _override_rows(override: LiveOverride) -> Iterator[str]:
    item = f"{_item(override.address)}{words.override_note(override)}"
    for part in words.override_limits(override):
        yield f"| `{part.mark}` | {item} | `{part.name}` | {part.text} |"
        item = ""


def _drift_section(plan: Plan, *, list_unmanaged: bool) -> Section:
    unmanaged = plan.unmanaged if list_unmanaged else ()
    rows = [
        *map(_drift_row, (*plan.drifted, *plan.pending)),
        *map(_drift_override, plan.overrides),
        *(f"| {_item(address)} | unmanaged |" for address in unmanaged),
    ]
    return Section(plan.namespace, words.drift_summary(plan), words.remarks(plan, code), _DRIFT_HEAD, rows)


def _drift_override(override: LiveOverride) -> str:
    limits = "<br>".join(f"{part.name}: {part.text}" for part in words.override_limits(override))
    return f"| {_item(override.address)}{words.override_note(override)} | {limits} |"


def _drift_row(change: Change) -> str:
    notes = words.notes(change, beside_drift=True)
    lines = words.live_and_declared(change)
    shown = map(code_in_table, lines) if change.address.is_record else lines
    return f"| {_item(change.address)}{notes} | {'<br>'.join(shown)} |"


def _applied_section(answer: Answer) -> Section:
    failures = [f"- {code(words.failure_text(failure))}" for failure in answer.errors]
    return Section(answer.plan.namespace if answer.plan else None, words.applied_summary(answer), (), "", failures)


def _item(address: Address) -> str:
    target = f" {code_in_table(address.target)}" if address.target else ""
    return f"{address.level}{target}"
