"""Render plans and answers as text for a terminal, with colours on request."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from textwrap import wrap
from typing import Final

from ..changes import Change
from ..plan import Plan
from ..problems import printable
from ..protocol import Answer
from ..states import StateReport
from . import words
from .views import EVERYTHING, Alike, View, by_level, cut_note, digested, narrowed

_COLORS: Final = {"+": "\x1b[32m", "~": "\x1b[33m", "-": "\x1b[31m"}
_SHOWN: Final = 20
_FACTS_WIDTH: Final = 72  # with their mark, 80 columns
_ROOM: Final = 12  # lines for kinds of changes: with all around, they fit a terminal of 24 lines
_MOST_LINES: Final = 6  # of one kind
_FEW_OVERRIDES: Final = 1
_RED: Final = "\x1b[31m"
_PLAIN: Final = "\x1b[0m"


def render_plan(*plans: Plan, color: bool = False, view: View = EVERYTHING) -> str:
    """Return each namespace's changes, `+ ~ -` with old -> new of every field, and their number; of a large plan the
    kinds of changes.
    """
    return _join((_plan(plan, view) for plan in plans), color=color)


def render_drift(*plans: Plan, color: bool = False, list_unmanaged: bool = False, view: View = EVERYTHING) -> str:
    """Return the items changed or deleted out of band, then the pending ones, with their live and declared limits; of
    many the kinds.
    """
    return _join((_drift(plan, view, list_unmanaged=list_unmanaged) for plan in plans), color=color)


def render_applied(*answers: Answer, color: bool = False) -> str:
    """Return the errors, and the number of changes made."""
    return _join((_applied(answer) for answer in answers), color=color)


def render_state(namespace: str, state: StateReport) -> str:
    """Return the managed items (the first twenty), the owner, and the apply under way."""
    return _join([_state(namespace, state)], color=False)


def _state(namespace: str, state: StateReport) -> Iterator[str]:
    managed = list(state.managed)
    applied = f"last applied {state.last_applied}" if state.last_applied else "never applied"
    yield f"Namespace {namespace}"
    yield f"  owner    {state.owner or 'none'}"
    yield f"  serial   {state.serial}, {applied}"
    if state.applied_hash:
        yield f"  manifest {state.applied_hash}"
    if state.share:
        yield f"  share    {state.share} of each limit"
    if lock := state.lock:
        yield f"  lock     {lock.lock_id}, held by {lock.owner} until {lock.expires_at} at most"
    if state.progress:
        yield f"  progress {state.progress.done:,} of {words.counted(state.progress.total, 'change')}"
    if state.stop:
        yield f"  stop     asked for by {state.stop}"
    yield f"Managed: {words.counted(len(managed), 'item')}."
    yield from (f"  {address}" for address in managed[:_SHOWN])
    if len(managed) > _SHOWN:
        yield f"  … and {len(managed) - _SHOWN} more."


def _plan(plan: Plan, view: View) -> Iterator[str]:
    yield from _heading(plan)
    changes = view.changes(plan.changes)
    if view.digests(plan):
        yield from _columns(by_level(changes))
        yield from _kinds(changes, lambda change: [*_change(change, cut_note(change)), *_beside(plan, change, view)])
    else:
        for change in changes:
            yield from _change(change)
            yield from _beside(plan, change, view)
    yield from _overrides(plan, view)
    yield words.plan_summary(plan)
    yield from words.remarks(plan)
    yield from narrowed(view, len(changes), len(plan.changes))


def _change(change: Change, note: str = "") -> Iterator[str]:
    yield f"  {words.MARKS[change.action]} {change.address}{words.notes(change)}{note}"
    parts = words.parts(change)
    yield from (f"      {part.mark} {part.name}: {part.text}" for part in parts)
    if not parts:
        yield from (f"      {line}" for line in words.unchanged(change))


def _beside(plan: Plan, change: Change, view: View) -> Iterator[str]:
    yield from _notes(plan, change, view)
    if risk := view.risk(plan.namespace, change):
        yield from _facts("!", risk)


def _facts(mark: str, facts: str) -> Iterator[str]:
    """Yield lines of whole facts, as far as they fit into 80 columns: so each one is found by grep."""
    lines = list[str]()
    for fact in facts.split("; "):
        if lines and len(lines[-1]) + len(fact) + 2 <= _FACTS_WIDTH:
            lines[-1] += f"; {fact}"
        else:
            lines += wrap(fact, _FACTS_WIDTH, break_long_words=False, break_on_hyphens=False)
    yield from map("".join, zip(chain((f"      {mark} ",), repeat(" " * 8)), lines, strict=False))


def _notes(plan: Plan, change: Change, view: View) -> Iterator[str]:
    for note in view.notes_on(plan.namespace, change):
        yield from _facts("=", note)


def _kinds(changes: Sequence[Change], lines_of: Callable[[Change], Iterable[str]]) -> Iterator[str]:
    """Yield what stands alone, then the kinds of the other changes, as many as fit a screen, each with its first."""
    digest, left, room = digested(changes), len(changes), _ROOM
    for each in digest.alone:
        yield from _kind(each, lines_of)
        left -= each.more + 1
    if digest.note:
        yield f"  {digest.note}"
    for kind in digest.kinds:
        lines = _kind(kind, lines_of)
        if len(lines) > room:
            break
        yield from lines
        room -= len(lines)
        left -= kind.more + 1
    if left:
        yield f"  … and {left:,} more of other kinds: --full shows each, --entity and --filter some"


def _kind(kind: Alike, lines_of: Callable[[Change], Iterable[str]]) -> list[str]:
    head, *rest = lines_of(kind.first)
    lines = [f"{head}{kind.note}", *rest]
    more = len(lines) - _MOST_LINES
    return [*lines[: _MOST_LINES - 1], f"      … {more + 1} more lines"] if more > 0 else lines


def _drift(plan: Plan, view: View, *, list_unmanaged: bool) -> Iterator[str]:
    yield from _heading(plan)
    changes = view.changes((*plan.drifted, *plan.pending))
    if view.digests(plan):
        yield from _kinds(changes, lambda change: [*_drifted(change), *_notes(plan, change, view)])
    else:
        for change in changes:
            yield from _drifted(change)
            yield from _notes(plan, change, view)
    yield from _overrides(plan, view)
    if list_unmanaged:
        yield from (f"  {address} (unmanaged)" for address in plan.unmanaged if view.shows(address))
    yield words.drift_summary(plan)
    yield from words.under_way(plan)
    yield from filter(None, [words.share_line(plan)])
    yield from narrowed(view, len(changes), len(plan.changes))


def _drifted(change: Change) -> Iterator[str]:
    yield f"  {_drift_mark(change)} {change.address}{words.notes(change, beside_drift=True)}"
    yield from (f"      {part}" for part in words.live_and_declared(change))


def _overrides(plan: Plan, view: View) -> Iterator[str]:
    overrides = view.overrides(plan.overrides)
    shown = overrides[:_FEW_OVERRIDES] if view.digests(plan) and len(overrides) > _FEW_OVERRIDES else overrides
    for override in shown:
        yield f"  = {override.address}{words.override_note(override)}"
        yield from (f"      {part.name}: {part.text}" for part in words.override_limits(override))
    if len(shown) < len(overrides):
        yield f"  … and {words.counted(len(overrides) - len(shown), 'more override')}: --full shows each"


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the rows of numbers behind their names, aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *numbers in rows:
        cells = (number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True))
        yield "  ".join(("  " + name.ljust(widths[0]), *cells))


def _applied(answer: Answer) -> Iterator[str]:
    if answer.plan:
        yield from _heading(answer.plan)
    yield from (f"  ! {words.failure_text(failure)}" for failure in answer.errors)
    yield words.applied_summary(answer)


def _heading(plan: Plan) -> Iterator[str]:
    yield f"Namespace {plan.namespace}"


def _drift_mark(change: Change) -> str:
    """Return what was done out of band; for a pending change, what an apply will do."""
    if not change.drift:
        return words.MARKS[change.action]
    return words.MARKS["delete" if change.before is None else "update"]


def _join(blocks: Iterable[Iterable[str]], *, color: bool) -> str:
    paint = _painted if color else printable
    return "\n\n".join("\n".join(map(paint, block)) for block in blocks) + "\n"


def _painted(line: str) -> str:
    text = printable(line)
    mark = text.lstrip()[:2]
    paint = _COLORS.get(mark[:1], _RED if mark == "! " else "") if mark[1:] == " " else ""
    return f"{paint}{text}{_PLAIN}" if paint else text
