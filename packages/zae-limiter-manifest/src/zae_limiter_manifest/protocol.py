"""The answer of the Lambda, as a value that client and Lambda share."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final, Literal, Self, get_args

from attrs import field, frozen
from attrs.validators import deep_iterable, ge, in_, instance_of, optional

from .addresses import Address
from .bounds import Bounds, find_beyond
from .formats import reading
from .history import ApplyEntry
from .manifest import LimitsManifest
from .plan import Plan
from .problems import ManifestError, format_path
from .states import StateReport

Status = Literal["planned", "applied", "partial", "failed"]

MOST_BEYOND: Final = 100
"""The most places that an answer names."""

_TEXT: Final = instance_of(str)
_NO_PLAN: Final[Mapping[str, Any]] = {
    "serial": None,
    "manifest_hash": None,
    "changes": [],
    "created": 0,
    "updated": 0,
    "deleted": 0,
}


@frozen
class Failure:
    """One error: its code, its message, and the path in the manifest or the address that it concerns."""

    code: str = field(validator=_TEXT)
    message: str = field(validator=_TEXT)
    path: str | None = field(default=None, kw_only=True, validator=optional(_TEXT))
    address: Address | None = field(default=None, kw_only=True, validator=optional(instance_of(Address)))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back as an equal value."""
        place = self.address.to_dict() if self.address else {}
        return {"code": self.code, "message": self.message, **({"path": self.path} if self.path else {}), **place}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Return the failure in the plain values of `to_dict`; raises `FormatError`."""
        with reading("failure"):
            address = Address.from_dict(raw) if "level" in raw else None
            return cls(raw["code"], raw["message"], path=raw.get("path"), address=address)


def bounds_failures(manifest: LimitsManifest, bounds: Bounds) -> tuple[Failure, ...]:
    """Return one failure for each of the first places of a manifest that are beyond bounds."""
    found = islice(find_beyond(manifest, bounds), MOST_BEYOND)
    return tuple(Failure("beyond_bounds", str(each.message), path=format_path(each.path)) for each in found)


def manifest_failures(error: ManifestError) -> tuple[Failure, ...]:
    """Return one failure for each mistake of a manifest."""
    return tuple(Failure("invalid_manifest", each.message, path=each.path) for each in error.problems)


@frozen
class Answer:
    """The result of a request: status, changes planned or made, errors, number of changes left.

    The plan is None if the request was refused. The plan of an apply contains the changes made and the current serial
    of the state. `manifest` is the result of an export, `state` that of a state request, `history` has applies.
    `bounds` are those of the namespace's delegation, `beyond` what of a plan or of the live limits is beyond them.
    `namespace` is the plan's; without a plan it is the request's, and None if the request names none.
    """

    status: Status = field(validator=in_(get_args(Status)))
    plan: Plan | None = field(default=None, validator=optional(instance_of(Plan)))
    errors: tuple[Failure, ...] = field(
        default=(), kw_only=True, validator=deep_iterable(instance_of(Failure), instance_of(tuple))
    )
    remaining: int = field(default=0, kw_only=True, validator=[instance_of(int), ge(0)])
    manifest: LimitsManifest | None = field(default=None, kw_only=True, validator=optional(instance_of(LimitsManifest)))
    history: tuple[ApplyEntry, ...] | None = field(
        default=None, kw_only=True, validator=optional(deep_iterable(instance_of(ApplyEntry), instance_of(tuple)))
    )
    state: StateReport | None = field(default=None, kw_only=True, validator=optional(instance_of(StateReport)))
    bounds: Bounds | None = field(default=None, kw_only=True, validator=optional(instance_of(Bounds)))
    beyond: tuple[Failure, ...] = field(
        default=(), kw_only=True, validator=deep_iterable(instance_of(Failure), instance_of(tuple))
    )
    namespace: str | None = field(kw_only=True, validator=optional(_TEXT))

    @namespace.default
    def _namespace_of_the_plan(self) -> str | None:
        return self.plan.namespace if self.plan else None

    @classmethod
    def planned(cls, plan: Plan) -> Self:
        """Return the answer to a plan or a diff."""
        return cls("planned", plan)

    @classmethod
    def applied(cls, made: Plan, *, errors: Sequence[Failure] = (), remaining: int = 0) -> Self:
        """Return the answer to an apply; its status follows from the changes made and the errors."""
        status: Status = ("partial" if made.changes else "failed") if errors else "applied"
        return cls(status, made, errors=tuple(errors), remaining=remaining)

    @classmethod
    def failed(cls, errors: Sequence[Failure], plan: Plan | None = None, *, namespace: str | None = None) -> Self:
        """Return the answer to a request that changed nothing because it failed."""
        return cls("failed", plan, errors=tuple(errors), namespace=plan.namespace if plan else namespace)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back as an equal answer."""
        return {
            "status": self.status,
            **(self.plan.to_dict() if self.plan else {"namespace": self.namespace, **_NO_PLAN}),
            "errors": [failure.to_dict() for failure in self.errors],
            **({"remaining": self.remaining} if self.remaining else {}),
            **({"manifest": self.manifest.to_dict()} if self.manifest else {}),
            **({"state": self.state.to_dict()} if self.state else {}),
            **({} if self.history is None else {"history": [entry.to_dict() for entry in self.history]}),
            **({"bounds": self.bounds.to_dict()} if self.bounds else {}),
            **({"beyond": [failure.to_dict() for failure in self.beyond]} if self.beyond else {}),
        }

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Return the answer in the plain values of `to_dict`; other keys are ignored. Raises `FormatError`."""
        with reading("answer"):
            namespace = raw["namespace"]
            plan = None if raw["serial"] is None else Plan.from_dict(raw)
            errors = tuple(map(Failure.from_dict, raw["errors"]))
            manifest = LimitsManifest.from_dict(raw["manifest"], "answer") if "manifest" in raw else None
            state = StateReport.from_dict(raw["state"]) if "state" in raw else None
            kept = tuple(map(ApplyEntry.from_dict, raw["history"])) if "history" in raw else None
            left = raw.get("remaining", 0)
            return cls(
                raw["status"],
                plan,
                errors=errors,
                remaining=left,
                manifest=manifest,
                state=state,
                history=kept,
                bounds=Bounds.from_dict(raw["bounds"], "answer") if "bounds" in raw else None,
                beyond=tuple(map(Failure.from_dict, raw.get("beyond", ()))),
                namespace=namespace,
            )
