"""Resolve parameters and conditions as CloudFormation would."""

import re
from collections.abc import Mapping
from typing import Any, Final

NOTHING: Final = object()

Values = Mapping[str, Any]


def resolve(template: Mapping[str, Any], values: Values) -> dict[str, Any]:
    """Return the template without parameters, rules and conditions; ``values`` has those of parameters and pseudo
    parameters.

    References to resources, or to a pseudo parameter without a value here, stay as they are.
    """
    conditions = _conditions(template["Conditions"], values)
    rest = {name: part for name, part in template.items() if name not in {"Parameters", "Rules", "Conditions"}}
    for section in ("Resources", "Outputs"):
        rest[section] = {name: part for name, part in rest[section].items() if conditions[part.get("Condition")]}
    resolved: dict[str, Any] = _resolved(rest, values, conditions)
    for part in (*resolved["Resources"].values(), *resolved["Outputs"].values()):
        part.pop("Condition", None)
    return resolved


def _conditions(declared: Mapping[str, Any], values: Values) -> dict[str | None, bool]:
    """Return whether each condition holds; one may refer to those before it. No condition (``None``) always holds."""
    known: dict[str | None, bool] = {None: True}
    for name, condition in declared.items():
        known[name] = _holds(condition, values, known)
    return known


def _holds(condition: Mapping[str, Any], values: Values, known: Mapping[str | None, bool]) -> bool:
    match condition:
        case {"Condition": str(name)}:
            return known[name]
        case {"Fn::Equals": [one, other]}:
            return _text(_resolved(one, values, known)) == _text(_resolved(other, values, known))
        case {"Fn::Not": [inner]}:
            return not _holds(inner, values, known)
        case {"Fn::And": parts}:
            return all(_holds(part, values, known) for part in parts)
    raise ValueError(f"no condition of this template: {condition}")


def _resolved(value: Any, values: Values, conditions: Mapping[str | None, bool]) -> Any:
    match value:
        case {"Ref": "AWS::NoValue"}:
            return NOTHING
        case {"Ref": str(name)} if name in values:
            return values[name]
        case {"Fn::If": [str(name), then, otherwise]}:
            return _resolved(then if conditions[name] else otherwise, values, conditions)
        case {"Fn::Sub": str(template)}:
            return _substituted(template, values)
        case dict():
            parts = {name: _resolved(part, values, conditions) for name, part in value.items()}
            return {name: part for name, part in parts.items() if part is not NOTHING}
        case list():
            return [part for each in value if (part := _resolved(each, values, conditions)) is not NOTHING]
    return value


def _substituted(template: str, values: Values) -> Any:
    filled = re.sub(r"\$\{([^{}!]+)\}", lambda found: _text(values.get(found[1], found[0])), template)
    return {"Fn::Sub": filled} if "${" in filled else filled


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
