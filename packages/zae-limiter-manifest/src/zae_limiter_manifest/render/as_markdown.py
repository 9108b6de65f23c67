"""Render plans and answers as Markdown, for a comment on a pull request. Rows beyond its size limit are counted."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from ..addresses import Address
from ..changes import Change
from ..overrides import LiveOverride
from ..plan import Plan
from ..protocol import Answer
from . import words
from .sections import LONGEST, Section, code, code_in_table, document, fitting
from .views import EVERYTHING, Alike, View, by_level, cut_note, digested, narrowed

__all__ = ["LONGEST", "render_applied", "render_drift", "render_plan"]

_HEAD: Final = "| | item | limit | change |\n|---|---|---|---|"
_DIGEST: Final = 20_000  # characters for the kinds of changes of all namespaces
_KINDS_SHOWN: Final = 10
_MOST_ROWS: Final = 5  # of one kind
_DRIFT_HEAD: Final = "| item | live and declared |\n|---|---|"


def render_plan(*plans: Plan, view: View = EVERYTHING) -> str:
    """Return a section for each namespace with changes: their number, and a table of them.

    For a large plan, that table is folded, below a table of the kinds of changes.
    """
    return document([_plan_section(plan, view, _DIGEST // len(plans)) for plan in plans])


def render_drift(*plans: Plan, list_unmanaged: bool = False, view: View = EVERYTHING) -> str:
    """Return a section for each namespace with findings: the numbers of drifted and pending items, and a table of
    them; of many the kinds, as of a plan.
    """
    room = _DIGEST // len(plans)
    return document([_drift_section(plan, view, room, list_unmanaged=list_unmanaged) for plan in plans])


def render_applied(*answers: Answer) -> str:
    """Return a section for each changed namespace: the number of changes made, and a list of errors."""
    return document([_applied_section(answer) for answer in answers])


def _plan_section(plan: Plan, view: View, room: int) -> Section:
    changes = view.changes(plan.changes)
    rows = ["\n".join(_rows(change, _beside(plan, change, view))) for change in changes]
    rows += ["\n".join(_override_rows(override)) for override in view.overrides(plan.overrides)]
    remarks = [*words.remarks(plan, code), *narrowed(view, len(changes), len(plan.changes))]
    section = Section(plan.namespace, words.plan_summary(plan), remarks, _HEAD, rows)
    if not view.digests(plan):
        return section
    digest = _digest(changes, room, _HEAD, lambda kind: _kind_rows(plan, kind, view))
    return section._replace(digest=digest, folded="Each item")


def _digest(changes: Sequence[Change], room: int, head: str, show: Callable[[Alike], Iterable[str]]) -> str:
    """Return two tables: the numbers by level, and what stands alone with the kinds of the other changes."""
    names, *levels = by_level(changes)
    counts = [f"| {' | '.join(cells)} |" for cells in (names, ("---", *("---:" for _ in names[1:])), *levels)]
    found = digested(changes)
    kinds = [*found.alone, *found.kinds[:_KINDS_SHOWN]]
    rows, _ = fitting(["\n".join(show(kind)) for kind in kinds], room)
    left = len(changes) - sum(kind.more + 1 for kind in kinds[: len(rows)])
    more = [f"\n… and {left:,} more of other kinds."] if left else []
    among = [f"\n{found.note}."] if found.note else []
    return "\n".join([*counts, *(["", head, *rows] if rows else []), *among, *more])


def _kind_rows(plan: Plan, kind: Alike, view: View) -> Iterator[str]:
    note = f"{cut_note(kind.first)}{kind.note}{_beside(plan, kind.first, view)}"
    return islice(_rows(kind.first, note), _MOST_ROWS)


def _beside(plan: Plan, change: Change, view: View) -> str:
    risk = view.risk(plan.namespace, change)
    return f"{_notes(plan, change, view)}<br>**{risk}**" if risk else _notes(plan, change, view)


def _notes(plan: Plan, change: Change, view: View) -> str:
    return "".join(f"<br>{code_in_table(note)}" for note in view.notes_on(plan.namespace, change))


def _rows(change: Change, note: str = "") -> Iterator[str]:
    item = f"{_item(change.address)}{words.notes(change)}{note}"
    for part in words.parts(change):
        yield f"| `{part.mark}` | {item} | `{part.name}` | {code_in_table(part.text)} |"
        item = ""
    if item:
        yield f"| `{words.MARKS[change.action]}` | {item} | | {' '.join(words.unchanged(change))} |"


def _override_rows(override: LiveOverride) -> Iterator[str]:
    item = f"{_item(override.address)}{words.override_note(override)}"
    for part in words.override_limits(override):
        yield f"| `{part.mark}` | {item} | `{part.name}` | {code_in_table(part.text)} |"
        item = ""


def _drift_section(plan: Plan, view: View, room: int, *, list_unmanaged: bool) -> Section:
    unmanaged = filter(view.shows, plan.unmanaged if list_unmanaged else ())
    changes = view.changes((*plan.drifted, *plan.pending))
    rows = [
        *(_drift_row(change, _notes(plan, change, view)) for change in changes),
        *map(_drift_override, view.overrides(plan.overrides)),
        *(f"| {_item(address)} | unmanaged |" for address in unmanaged),
    ]
    remarks = [*words.remarks(plan, code), *narrowed(view, len(changes), len(plan.changes))]
    section = Section(plan.namespace, words.drift_summary(plan), remarks, _DRIFT_HEAD, rows)
    if not view.digests(plan):
        return section

    def kind_row(kind: Alike) -> list[str]:
        return [_drift_row(kind.first, _notes(plan, kind.first, view), kind.note)]

    return section._replace(digest=_digest(changes, room, _DRIFT_HEAD, kind_row), folded="Each item")


def _drift_override(override: LiveOverride) -> str:
    limits = "<br>".join(code_in_table(f"{part.name}: {part.text}") for part in words.override_limits(override))
    return f"| {_item(override.address)}{words.override_note(override)} | {limits} |"


def _drift_row(change: Change, note: str, more: str = "") -> str:
    notes = f"{words.notes(change, beside_drift=True)}{more}"
    lines = map(code_in_table, words.live_and_declared(change))
    return f"| {_item(change.address)}{notes} | {'<br>'.join(lines)}{note} |"


def _applied_section(answer: Answer) -> Section:
    failures = [f"- {code(words.failure_text(failure))}" for failure in answer.errors]
    return Section(answer.plan.namespace if answer.plan else None, words.applied_summary(answer), (), "", failures)


def _item(address: Address) -> str:
    target = f" {code_in_table(address.target)}" if address.target else ""
    return f"{address.level}{target}"
