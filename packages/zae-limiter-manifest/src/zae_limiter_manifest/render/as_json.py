"""Render plans, answers and problems as JSON, for programs. A key keeps its meaning within a schema version."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import evolve

from ..history import ApplyEntry
from ..naming import TIER_SUBJECT
from ..plan import Plan, plans_hash
from ..problems import Problem
from ..protocol import Answer
from ..states import StateReport
from ..warned import Warned
from .views import EVERYTHING, View, digested

SCHEMA_VERSION: Final = 1
_INSTANTS: Final = frozenset({"at", "last_applied", "expires_at", "began_at", "until"})
_TO_THE_SECOND: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)Z")
_LISTS: Final = frozenset({"changes", "overrides", "unmanaged"})


def render_plan(*plans: Plan, view: View = EVERYTHING, warnings: Iterable[Warned] = ()) -> str:
    """Return `{"schema_version", "kind": "plan", "namespaces": [...], "hash", "warnings": [...]}`: each plan with its
    hash and its fields, and the warnings of the manifests.

    The counts are of the whole plan, the lists have what the view shows.
    """
    namespaces, found = [_plan(plan, view) for plan in plans], [each.to_dict() for each in warnings]
    return _document("plan", namespaces=namespaces, hash=plans_hash(plans), warnings=found)


def render_drift(*plans: Plan, view: View = EVERYTHING) -> str:
    """Return `"kind": "drift"`: for each namespace the `drifted` and the `pending` changes and the `unmanaged`
    items.
    """
    return _document("drift", namespaces=[_drift(plan, view) for plan in plans])


def render_applied(*answers: Answer) -> str:
    """Return `"kind": "applied"`: each answer of the Lambda, with the fields of the changes that were made."""
    return _document("applied", namespaces=[_applied(answer) for answer in answers])


def render_state(namespace: str, state: StateReport, applies: Iterable[ApplyEntry] | None = None, **more: Any) -> str:
    """Return `"kind": "state"`: the namespace and its `state`, as the Lambda reports it, and the `applies` if given."""
    listed = {} if applies is None else {"applies": _applies(applies)}
    return _document("state", namespace=namespace, state=state.to_dict(), **listed, **more)


def render_history(namespace: str, entries: Iterable[ApplyEntry]) -> str:
    """Return `"kind": "history"`: the namespace and its `applies`, the last one first, each with its `outcome`."""
    return _document("history", namespace=namespace, applies=_applies(entries))


def _applies(entries: Iterable[ApplyEntry]) -> list[dict[str, Any]]:
    return [{**each.to_dict(), "outcome": each.outcome} for each in entries]


def render_problems(problems: Iterable[Problem], warnings: Iterable[Warned] = ()) -> str:
    """Return `"kind": "problems"`: each with file, line, column, path and message; and the `warnings`, each with its
    name, place, path and message.
    """
    keys = ("file", "line", "column", "path", "message")
    found = [each.to_dict() for each in warnings]
    return _document(
        "problems", problems=[{key: getattr(each, key) for key in keys} for each in problems], warnings=found
    )


def _plan(plan: Plan, view: View) -> dict[str, Any]:
    whole = {**plan.to_dict(), "changes_hash": plan.changes_hash(), "guarded": plan.why_guarded()}
    shown = _shown(plan, view)
    document = _with_fields({**whole, **{key: value for key, value in shown.to_dict().items() if key in _LISTS}}, shown)
    alone = {each.first.address for each in digested(shown.changes).alone} if view.digests(plan) else ()
    for change, entry in zip(shown.changes, document["changes"], strict=True):
        if change.address in alone:
            entry["stands_alone"] = True
        if risk := view.risk(plan.namespace, change):
            entry["risk"] = risk
    return _with_notes(document, shown, view)


def _with_notes(document: dict[str, Any], plan: Plan, view: View) -> dict[str, Any]:
    for change, entry in zip(plan.changes, document["changes"], strict=True):
        if notes := view.notes_on(plan.namespace, change):
            entry["notes"] = list(notes)
    return document


def _shown(plan: Plan, view: View) -> Plan:
    """Return the plan with what the view shows in its lists."""
    changes, overrides = tuple(view.changes(plan.changes)), tuple(view.overrides(plan.overrides))
    return evolve(plan, changes=changes, overrides=overrides, unmanaged=tuple(filter(view.shows, plan.unmanaged)))


def _drift(whole: Plan, view: View) -> dict[str, Any]:
    plan = _shown(whole, view)
    document = _with_notes(_with_fields(plan.to_dict(), plan), plan, view)
    return {
        "namespace": plan.namespace,
        "serial": plan.serial,
        "manifest_hash": plan.manifest_hash,
        "drifted": [change for change in document["changes"] if change["drift"]],
        "pending": [change for change in document["changes"] if not change["drift"]],
        "unmanaged": [address.to_dict() for address in plan.unmanaged],
        "overrides": [override.to_dict() for override in plan.overrides],
        **({"under_way": document["under_way"]} if plan.under_way else {}),
    }


def _applied(answer: Answer) -> dict[str, Any]:
    document = {**answer.to_dict(), "remaining": answer.remaining}
    return _with_fields(document, answer.plan) if answer.plan else document


def _with_fields(document: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    entries = zip(document["changes"], plan.changes, strict=True)
    changes = [{**entry, "fields": [each._asdict() for each in change.fields()]} for entry, change in entries]
    return {**document, "changes": changes}


def _document(kind: str, **content: Any) -> str:
    return json.dumps({"schema_version": SCHEMA_VERSION, "kind": kind, **_for_programs(content)}) + "\n"


def _for_programs(value: Any, key: str = "") -> Any:
    """Return plain values of the Lambda's protocol as documents have them: a tier by its name and not in the place of
    an entity, and instants in one form, to the millisecond. Metadata stays as it is.
    """
    if key in _INSTANTS and isinstance(value, str):
        return _TO_THE_SECOND.sub(r"\1.000Z", value)
    if isinstance(value, list | tuple):
        return [_for_programs(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    plain = {name: each if name == "metadata" else _for_programs(each, name) for name, each in value.items()}
    if "level" in plain and (tier := _tier_in(plain.get("entity"))) is not None:
        return {**plain, "entity": None, "tier": tier}
    if key in ("managed", "intended"):
        found = {_tier_in(name): own for name, own in plain["entities"].items() if _tier_in(name) is not None}
        entities = {name: own for name, own in plain["entities"].items() if _tier_in(name) is None}
        return {**plain, "entities": entities, "tiers": found}
    return plain


def _tier_in(entity: str | None) -> str | None:
    return entity.removeprefix(TIER_SUBJECT) if entity is not None and entity.startswith(TIER_SUBJECT) else None
