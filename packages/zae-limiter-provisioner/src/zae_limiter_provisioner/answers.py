"""What lives here: the Lambda's answer, in the shape that its callers read.
What never does: a decision about what to write.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypedDict

from zae_limiter import Limit
from zae_limiter_manifest import ManifestError

from .changes import Address, Change

DEFAULT_REFILL_PERIOD_SECONDS = 60


class Failure(TypedDict, total=False):
    """One thing that went wrong: ``code`` and ``message`` always, then the place it concerns."""

    code: str
    message: str
    path: str
    level: str
    entity: str | None
    resource: str | None
    target: str | None


class Answer(TypedDict):
    """What became of a request: ``changes`` were written, ``errors`` says what was not; ``partial`` is both."""

    status: Literal["applied", "partial", "failed"]
    namespace: str | None
    manifest_hash: str | None
    changes: list[dict[str, Any]]
    created: int
    updated: int
    deleted: int
    errors: list[Failure]


def answer(
    *,
    written: Sequence[Change] = (),
    errors: Sequence[Failure] = (),
    namespace: str | None = None,
    manifest_hash: str | None = None,
) -> Answer:
    """The answer; its status and its counts follow from what was written and what went wrong."""
    actions = [change.action for change in written]
    return {
        "status": ("partial" if written else "failed") if errors else "applied",
        "namespace": namespace,
        "manifest_hash": manifest_hash,
        "changes": [_told(change) for change in written],
        "created": actions.count("create"),
        "updated": actions.count("update"),
        "deleted": 0,
        "errors": list(errors),
    }


def failure(code: str, error: object, address: Address | None = None) -> Failure:
    """What went wrong, and where if it concerns one address."""
    told: Failure = {"code": code, "message": str(error)}
    return told if address is None else {**told, **_place(address)}


def manifest_failures(error: ManifestError) -> list[Failure]:
    """One failure for each mistake of a manifest."""
    return [
        {"code": "invalid_manifest", "message": problem.message, "path": problem.path} for problem in error.problems
    ]


def _told(change: Change) -> dict[str, Any]:
    told = {
        "action": change.action,
        **_place(change.address),
        "limits": _limits(change.after.limits),
        "before": _limits(change.before.limits) if change.action == "update" else None,
    }
    if change.address.level == "system":
        told["on_unavailable"] = change.after.on_unavailable
        told["before_on_unavailable"] = change.before.on_unavailable
    return told


def _place(address: Address) -> Failure:
    target = address.resource if address.entity is None else f"{address.entity}/{address.resource}"
    return {"level": address.level, "entity": address.entity, "resource": address.resource, "target": target}


def _limits(limits: Iterable[Limit]) -> dict[str, dict[str, int]]:
    return {limit.name: _short(limit) for limit in limits}


def _short(limit: Limit) -> dict[str, int]:
    """As a manifest has it: without what equals its default."""
    short = {"capacity": limit.capacity}
    for name, default in (
        ("burst", limit.capacity),
        ("refill_amount", limit.capacity),
        ("refill_period", DEFAULT_REFILL_PERIOD_SECONDS),
    ):
        value = getattr(limit, name)
        if value != default:
            short[name] = value
    return short
