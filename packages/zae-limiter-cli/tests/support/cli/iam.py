"""What IAM decides about a request, by the policies of an identity and of a resource.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html

Lives here: the elements and operators that the stack's policies use; any other one is an error. `just iam` compares its
decisions with those of a simulator of IAM. Never: an expectation.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from string import Template
from typing import Any, Final

Document = Mapping[str, Any]
Matches = Callable[[str, str], bool]

ALL_VALUES: Final = "ForAllValues:"
ELEMENTS: Final = {"Sid", "Effect", "Action", "Resource", "Condition", "Principal"}


@dataclass(frozen=True, slots=True)
class Request:
    """A request as IAM sees it: ``context`` has the values of the keys that the request has."""

    action: str
    resource: str
    context: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


def is_allowed(identity: Iterable[Document], request: Request, *, resource: Document | None = None) -> bool:
    """Return whether some policy allows the request, and none denies it; all of one account."""
    every = [*identity, *([resource] if resource else [])]
    effects = {each["Effect"] for policy in every for each in policy["Statement"] if _applies(each, request)}
    return effects == {"Allow"}


def is_allowed_across(identity: Iterable[Document], request: Request, resource: Document) -> bool:
    """Return whether a request of another account is allowed: by its own policies, and by that of the resource."""
    return is_allowed(identity, request) and is_allowed([], request, resource=resource)


def _applies(statement: Document, request: Request) -> bool:
    assert statement.keys() <= ELEMENTS, statement
    return (
        _is_for(statement.get("Principal", "*"), request)
        and any(_is_like(request.action.lower(), each.lower()) for each in listed(statement["Action"]))
        and any(_is_like(request.resource, _filled(each, request)) for each in listed(statement["Resource"]))
        and all(
            _holds(operator, key, listed(wanted), request)
            for operator, keys in statement.get("Condition", {}).items()
            for key, wanted in keys.items()
        )
    )


def _is_for(principal: Any, request: Request) -> bool:
    """Return whether a statement is for everybody, or for an account of its list."""
    if principal in ("*", {"AWS": "*"}):
        return True
    assert principal.keys() == {"AWS"}, principal
    return request.context["aws:PrincipalAccount"][0] in listed(principal["AWS"])


def _holds(operator: str, key: str, wanted: Sequence[str], request: Request) -> bool:
    """Return whether one key meets its condition; a key that the request lacks meets those on all values."""
    found = request.context.get(key, ())
    if operator == "Null":
        return wanted == [str(not found).lower()]
    matches, is_negated = OPERATORS[operator.removeprefix(ALL_VALUES)]
    if not operator.startswith(ALL_VALUES):
        assert len(found) < 2, f"{operator} is for one value, and {key} has {len(found)}"
        if not found:
            return is_negated
    patterns = [_filled(each, request) for each in wanted]
    return all(is_negated is not any(matches(value, each) for each in patterns) for value in found)


class _Variables(Template):
    """Texts with ``${aws:PrincipalTag/name}`` in them."""

    braceidpattern = r"[A-Za-z][A-Za-z0-9:/_.-]*"


def _filled(pattern: str, request: Request) -> str:
    """Return the pattern with the values of its variables; one without a value matches nothing."""
    values = {key: found[0] for key, found in request.context.items() if len(found) == 1}
    try:
        return _Variables(pattern).substitute(values)
    except KeyError:
        return ""


def _is_like(value: str, pattern: str) -> bool:
    return bool(pattern) and fnmatchcase(value, pattern.replace("[", "[[]"))


def _is(value: str, pattern: str) -> bool:
    return value == pattern


OPERATORS: Final[Mapping[str, tuple[Matches, bool]]] = {
    "StringLike": (_is_like, False),
    "StringNotLike": (_is_like, True),
    "StringEquals": (_is, False),
    "Bool": (_is, False),
    "ArnLike": (_is_like, False),
}


def listed(value: Any) -> list[str]:
    """Return one or several as a list."""
    return list(value) if isinstance(value, list) else [value]
