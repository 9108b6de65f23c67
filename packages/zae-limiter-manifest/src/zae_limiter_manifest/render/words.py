"""The phrases that text and Markdown share, without layout or colour."""

from collections.abc import Callable
from itertools import groupby, islice
from typing import Final, NamedTuple

from ..changes import MODE, USABLE_BURST, Action, Change, FieldChange
from ..converter import PREFETCH, SCHEDULE, WEIGHTS
from ..declarations import RecordDecl
from ..limit_declarations import LimitDecl
from ..limit_text import write_limit
from ..money import show_amount
from ..overrides import LiveOverride
from ..plan import Plan
from ..problems import show
from ..protocol import Answer, Failure
from ..shares import WHOLE

NO_CHANGES: Final = "No changes."
NO_DRIFT: Final = "No drift."
MARKS: Final[dict[Action, str]] = {"create": "+", "update": "~", "delete": "-"}
_AMOUNTS: Final = ("capacity", "burst", "refill_amount", USABLE_BURST)
_SHOWN: Final = 5  # adopted items
UNCHANGED: Final = "limits stay as they are"


class Part(NamedTuple):
    """One limit of a change, or a policy of its level: its mark, its name, and its fields as text."""

    mark: str
    name: str
    text: str


def notes(change: Change, *, beside_drift: bool = False) -> str:
    """Return a note on a change, such as ` (changed out of band)`; mostly empty. With `beside_drift`, other changes are
    `pending`.
    """
    found = []
    if change.drift:
        found.append("deleted out of band" if change.before is None else "changed out of band")
    elif beside_drift:
        found.append("pending")
    if change.adopted:
        found.append("adopted")
    if change.reaches is not None:
        found.append(f"reaches {change.reaches:,} {'entity' if change.reaches == 1 else 'entities'}")
    return f" ({', '.join(found)})" if found else ""


def parts(change: Change) -> list[Part]:
    """Return the differences, limit by limit: `capacity 500 -> 600`; a limit that comes or goes is its text."""
    grouped = groupby(change.fields(), key=lambda each: each.limit or each)
    return [_part(change, limit if isinstance(limit, str) else None, list(fields)) for limit, fields in grouped]


def _part(change: Change, limit: str | None, fields: list[FieldChange]) -> Part:
    if limit is None:
        (policy,) = fields
        return Part(_mark(policy.before, policy.after), policy.field, _step(policy))
    before, after = _sides(change, limit)
    only = after if before is None else before if after is None else None
    unit = _unit(before, after)
    return Part(
        _mark(before, after),
        limit,
        ", ".join(_said(each, unit) for each in fields) if only is None else _whole(only),
    )


def _sides(change: Change, limit: str) -> tuple[LimitDecl | None, LimitDecl | None]:
    """Return a limit before and after a change."""
    sides = (None if isinstance(side, RecordDecl) else side for side in (change.before, change.after))
    before, after = (side.limits.get(limit) if side else None for side in sides)
    return before, after


def _unit(before: LimitDecl | None, after: LimitDecl | None) -> str:
    """Return the currency of both sides of a limit, of one if the other is missing; empty for tokens."""
    units = {side.unit for side in (before, after) if side is not None}
    return units.pop() if len(units) == 1 else ""


def _mark(before: object, after: object) -> str:
    if before is None:
        return MARKS["create"]
    return MARKS["delete" if after is None else "update"]


def _said(each: FieldChange, unit: str) -> str:
    """Return a difference as text: `capacity 500 -> 600`; the words of a mode need no name."""
    return _step(each) if each.field == MODE else f"{_name(each.field)} {_step(each, unit)}"


def _name(field: str) -> str:
    return "usable burst" if field == USABLE_BURST else field


def _step(each: FieldChange, unit: str = "") -> str:
    return " -> ".join(_value(each.field, side, unit) for side in (each.before, each.after) if side is not None)


def _value(field: str, value: object, unit: str = "") -> str:
    """Return a value of a field as text: `1.5 s` for seconds, `$5.50` for money."""
    if unit and field in _AMOUNTS and isinstance(value, int):
        return show_amount(value, unit)
    if isinstance(value, bool):
        return str(value).lower()
    if field == "name":
        return show(value)
    return f"{value:g} s" if field == PREFETCH else str(value)


def mode_changes(plan: Plan) -> list[str]:
    """Return the limits that become shadow limits, or enforced ones: `resource gpt-4: rpm shadow -> enforced`."""
    return [
        f"{change.address}: {each.limit} {_step(each)}"
        for change in plan.changes
        for each in change.fields()
        if each.field == MODE and each.before and each.after
    ]


def live_and_declared(change: Change) -> list[str]:
    """Return the differences between live and declared, limit by limit: `rpm: capacity is 400, declared 500`."""
    grouped = groupby(change.fields(), key=lambda each: each.limit or each)
    found = []
    for limit, fields in grouped:
        unit = _unit(*_sides(change, limit)) if isinstance(limit, str) else ""
        said = "; ".join(_apart(each, unit) for each in fields)
        found.append(f"{limit}: {said}" if isinstance(limit, str) else said)
    return found or unchanged(change)


def unchanged(change: Change) -> list[str]:
    """Return the line on a change without differences: of limits, or of an entity itself that is adopted."""
    if not change.address.is_record:
        return [UNCHANGED]
    return ["stays as it is"] if change.action == "update" else []


def _apart(each: FieldChange, unit: str) -> str:
    live = "absent" if each.before is None else _value(each.field, each.before, unit)
    declared = "not declared" if each.after is None else f"declared {_value(each.field, each.after, unit)}"
    return f"{_name(each.field)} is {live}, {declared}"


def override_note(override: LiveOverride) -> str:
    """Return the note on an override: ` (override until 2026-11-27T18:00:00Z)`."""
    return f" (override until {override.until})"


def override_limits(override: LiveOverride) -> list[Part]:
    """Return the limits of an override, each as its text: `2k/min`."""
    limits = sorted(override.decl.limits.items())
    return [Part("=", name, limit_text(limit)) for name, limit in limits]


def _whole(limit: LimitDecl) -> str:
    """Return a limit that comes or goes, with the usable burst, which no manifest has."""
    return f"{limit_text(limit)}, usable burst {limit.usable_burst}" if limit.prefetch else limit_text(limit)


def limit_text(limit: LimitDecl) -> str:
    """Return a limit as its text, `10k/min burst 20k`, with its weights and its schedule."""
    said = write_limit(limit.values)
    weighed = f"{said}, {WEIGHTS} {limit.weights}" if limit.weights else said
    return f"{weighed}, {SCHEDULE} {'; '.join(limit.schedule)}" if limit.schedule else weighed


def plan_summary(plan: Plan) -> str:
    """Return the summary of a plan: `Plan: 1 to create, 0 to update, 0 to delete.`, or `No changes.`"""
    if not plan.changes:
        return NO_CHANGES
    return f"Plan: {_counts(plan, 'to create', 'to update', 'to delete')}."


def applied_summary(answer: Answer) -> str:
    """Return the summary of an apply: `Applied: 2 created, 1 updated, 0 deleted.`, with the numbers of failed and
    remaining changes; after a first apply that found items, the number of all that it manages from then on.
    """
    made = answer.plan
    if answer.status == "failed":
        return f"Failed: {counted(len(answer.errors), 'error')}, nothing was applied."
    if made is None or not (made.changes or answer.errors or answer.remaining):
        return f"{NO_CHANGES}{_managed(answer)}"
    failed = f" {len(answer.errors):,} failed." if answer.errors else ""
    left = f" {answer.remaining:,} left to do." if answer.remaining else ""
    return f"Applied: {_counts(made, 'created', 'updated', 'deleted')}.{failed}{left}{_managed(answer)}"


def _managed(answer: Answer) -> str:
    """Return how many items a manifest manages after its first apply, where it has not created them all."""
    made = answer.plan
    if made is None or made.managed or answer.errors or answer.remaining or made.created == made.declared:
        return ""
    return f" The manifest manages {counted(made.declared, 'item')} from now on." if made.declared else ""


def drift_summary(plan: Plan) -> str:
    """Return the numbers of drifted, pending and unmanaged items."""
    drifted, pending, unmanaged = len(plan.drifted), len(plan.pending), len(plan.unmanaged)
    found = [f"Drift: {counted(drifted, 'item')}." if drifted else NO_DRIFT]
    if pending:
        found.append(f"Pending: {counted(pending, 'change')} not applied yet.")
    if unmanaged:
        found.append(f"Unmanaged: {counted(unmanaged, 'item')}.")
    return " ".join(found)


def remarks(plan: Plan, quoted: Callable[[str], str] = str) -> list[str]:
    """Return the remarks on a plan besides its changes; `quoted` formats foreign text."""
    found = under_way(plan, quoted)
    if line := share_line(plan):
        found.append(line)
    if plan.taken_from:
        found.append(f"Takes the namespace over from {quoted(plan.taken_from)}.")
    if plan.forgotten:
        found.append(f"{counted(len(plan.forgotten), 'managed item')} already gone: only the state is corrected.")
    if guard := plan.why_guarded():
        found.append(f"This plan {guard}.")
    return found + cleared(plan, quoted)


def cleared(plan: Plan, quoted: Callable[[str], str] = str) -> list[str]:
    """Return the line on what the adopted items lose, because the manifest does not declare it; none without that."""
    losses = {change.address: _losses(change) for change in plan.changes if change.adopted}
    lost = {address: names for address, names in losses.items() if names}
    if not lost:
        return []
    first = "; ".join(f"{quoted(str(address))}: {', '.join(names)}" for address, names in islice(lost.items(), _SHOWN))
    more = f"; and {len(lost) - _SHOWN:,} more" if len(lost) > _SHOWN else ""
    return [f"Adoption clears what {counted(len(lost), 'item')} had and the manifest does not declare: {first}{more}."]


def _losses(change: Change) -> list[str]:
    kept = getattr(change.after, "limits", {})
    gone = (each for each in change.fields() if each.after is None and each.limit not in kept)
    return list(dict.fromkeys(each.limit or each.field for each in gone))


def share_line(plan: Plan) -> str:
    """Return the line on the share of this region, empty if it has the whole: `Share of this region: 60% -> 40% of
    each limit.`
    """
    sides = [share or WHOLE for share in ((plan.share_before, plan.share) if plan.moves_share else (plan.share,))]
    return f"Share of this region: {' -> '.join(sides)} of each limit." if plan.share or plan.share_before else ""


def under_way(plan: Plan, quoted: Callable[[str], str] = str) -> list[str]:
    """Return the line on another apply that was under way; none without one."""
    apply = plan.under_way
    if apply is None:
        return []
    since = f" since {apply.began_at}" if apply.began_at else ""
    who = f"by {quoted(apply.owner)}, until {apply.expires_at} at most"
    return [f"Another apply is under way{since}, {who}: this may be out of date."]


def failure_text(failure: Failure) -> str:
    """Return one failure on one line."""
    place = failure.address or failure.path
    return f"{place}: {failure.message}" if place else failure.message


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 item`, `2,000 items`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _counts(plan: Plan, *words: str) -> str:
    numbers = (plan.created, plan.updated, plan.deleted)
    return ", ".join(f"{number:,} {word}" for number, word in zip(numbers, words, strict=True))
