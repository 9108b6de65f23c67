"""Plans and answers as Markdown, for a comment on a pull request.
Never longer than such a comment may be: what does not fit is counted."""

from collections.abc import Iterable, Iterator
from typing import Final

from ..changes import Change
from ..plan import Plan
from ..problems import printable
from ..protocol import Answer
from . import words

LONGEST: Final = 60_000
"""GitHub takes comments of up to 65,536 characters."""

_AROUND: Final = 2_000  # for what stands around the rows
_HEAD: Final = "| | item | limit | change |\n|---|---|---|---|"
_DRIFT_HEAD: Final = "| item | live and declared |\n|---|---|"


def render_plan(*plans: Plan) -> str:
    """A section for each namespace: how many changes there are, and a table of them."""
    room = LONGEST // max(len(plans), 1)
    return "\n".join(_section(plan, words.plan_summary(plan), _HEAD, _plan_rows(plan), room) for plan in plans)


def render_drift(*plans: Plan) -> str:
    """A section for each namespace: how much has drifted, and a table of it."""
    room = LONGEST // max(len(plans), 1)
    return "\n".join(_section(plan, words.drift_summary(plan), _DRIFT_HEAD, _drift_rows(plan), room) for plan in plans)


def render_applied(*answers: Answer) -> str:
    """A section for each namespace: how many changes were made, and a list of what went wrong."""
    room = LONGEST // max(len(answers), 1)
    return "\n".join(_applied(answer, room) for answer in answers)


def _section(plan: Plan, summary: str, head: str, rows: Iterator[str], room: int) -> str:
    kept = _fitting(rows, room - _AROUND)
    table = ["", head, *kept] if kept else []
    remarks = [line for remark in words.remarks(plan, _code) for line in ("", remark)]
    return "\n".join([_title(plan.namespace), "", summary, *remarks, *table]) + "\n"


def _plan_rows(plan: Plan) -> Iterator[str]:
    for change in plan.changes:
        yield "\n".join(_rows(change))


def _rows(change: Change) -> Iterator[str]:
    item = f"{_item(change)}{words.notes(change)}"
    for part in words.parts(change):
        yield f"| `{part.mark}` | {item} | `{part.name}` | {part.text} |"
        item = ""
    if item:
        yield f"| `{words.MARKS[change.action]}` | {item} | | {words.UNCHANGED} |"


def _drift_rows(plan: Plan) -> Iterator[str]:
    for change in plan.drifted:
        yield f"| {_item(change)}{words.notes(change)} | {'<br>'.join(words.drifted_parts(change))} |"


def _applied(answer: Answer, room: int) -> str:
    failures = _fitting((f"- {_code(words.failure_text(failure))}" for failure in answer.errors), room - _AROUND)
    namespace = answer.plan.namespace if answer.plan else None
    return (
        "\n".join([_title(namespace), "", words.applied_summary(answer), *([""] if failures else []), *failures]) + "\n"
    )


def _fitting(rows: Iterable[str], room: int) -> list[str]:
    """The rows from the first that fit into so many characters, and how many more there are."""
    kept: list[str] = []
    more = 0
    for row in rows:
        room -= len(row) + 1
        if room >= 0 and not more:
            kept.append(row)
        else:
            more += 1
    return [*kept, "", f"… and {more} more."] if more else kept


def _title(namespace: str | None) -> str:
    return f"### Limits of {_code(namespace)}" if namespace else "### Limits"


def _item(change: Change) -> str:
    target = f" {_code(change.address.target)}" if change.address.target else ""
    return f"{change.address.level}{target}"


def _code(text: str) -> str:
    return f"`{printable(text).replace('`', chr(39))}`"
