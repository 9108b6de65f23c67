"""Render plans and answers as text for a terminal, with colours on request."""

from collections.abc import Iterable, Iterator
from typing import Final

from ..changes import Change
from ..plan import Plan
from ..problems import printable
from ..protocol import Answer
from ..states import StateReport
from . import words

_COLORS: Final = {"+": "\x1b[32m", "~": "\x1b[33m", "-": "\x1b[31m"}
_SHOWN: Final = 20
_RED: Final = "\x1b[31m"
_PLAIN: Final = "\x1b[0m"


def render_plan(*plans: Plan, color: bool = False) -> str:
    """Return each namespace's changes, `+ ~ -` with old -> new of every field, and their number."""
    return _join((_plan(plan) for plan in plans), color=color)


def render_drift(*plans: Plan, color: bool = False, list_unmanaged: bool = False) -> str:
    """Return the items changed or deleted out of band, then the pending ones, with their live and declared limits."""
    return _join((_drift(plan, list_unmanaged=list_unmanaged) for plan in plans), color=color)


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
    yield f"  owner    {state.owner or 'nobody'}"
    yield f"  serial   {state.serial}, {applied}"
    if state.applied_hash:
        yield f"  manifest {state.applied_hash}"
    if lock := state.lock:
        yield f"  lock     {lock.lock_id}, held by {lock.owner} until {lock.expires_at} at most"
    yield f"Managed: {words.counted(len(managed), 'item')}."
    yield from (f"  {address}" for address in managed[:_SHOWN])
    if len(managed) > _SHOWN:
        yield f"  … and {len(managed) - _SHOWN} more."


def _plan(plan: Plan) -> Iterator[str]:
    yield from _heading(plan)
    for change in plan.changes:
        yield f"  {words.MARKS[change.action]} {change.address}{words.notes(change)}"
        parts = words.parts(change)
        yield from (f"      {part.mark} {part.name}: {part.text}" for part in parts)
        if not parts:
            yield from (f"      {line}" for line in words.unchanged(change))
    yield from _overrides(plan)
    yield words.plan_summary(plan)
    yield from words.remarks(plan)


def _drift(plan: Plan, *, list_unmanaged: bool) -> Iterator[str]:
    yield from _heading(plan)
    for change in (*plan.drifted, *plan.pending):
        yield f"  {_drift_mark(change)} {change.address}{words.notes(change, beside_drift=True)}"
        yield from (f"      {part}" for part in words.live_and_declared(change))
    yield from _overrides(plan)
    if list_unmanaged:
        yield from (f"  {address} (unmanaged)" for address in plan.unmanaged)
    yield words.drift_summary(plan)


def _overrides(plan: Plan) -> Iterator[str]:
    for override in plan.overrides:
        yield f"  = {override.address}{words.override_note(override)}"
        yield from (f"      {part.name}: {part.text}" for part in words.override_limits(override))


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
