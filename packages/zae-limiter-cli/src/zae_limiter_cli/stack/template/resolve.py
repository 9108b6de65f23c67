"""Resolve parameters and conditions as CloudFormation would."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

NOTHING: Final = object()
_USED: Final = re.compile(r'(?:"Ref": "|"Fn::If": \["|\$\{)(\w+)')

Values = Mapping[str, Any]


class _Open(Exception):
    """A condition on a parameter without a value."""


def resolve(template: Mapping[str, Any], values: Values, decided: Values | None = None) -> dict[str, Any]:
    """Return the template without the parameters and conditions that the values answer; ``values`` has those of
    parameters and pseudo parameters.

    With ``decided``, these values decide the conditions, and only ``values`` are filled in: the other parameters stay,
    as far as something refers to them. So does a condition on a parameter that neither has. References to resources, or
    to a pseudo parameter without a value here, stay as they are.
    """
    conditions = _conditions(template["Conditions"], values if decided is None else decided)
    rest = {name: part for name, part in template.items() if name not in {"Parameters", "Conditions"}}
    for section in ("Resources", "Outputs"):
        rest[section] = {name: part for name, part in rest[section].items() if conditions[part.get("Condition")]}
    resolved: dict[str, Any] = _resolved(rest, values, conditions)
    for part in (*resolved["Resources"].values(), *resolved["Outputs"].values()):
        part.pop("Condition", None)
    used = set(_USED.findall(json.dumps(resolved)))
    asked = {name: part for name, part in template["Conditions"].items() if name in used}
    used |= set(_USED.findall(json.dumps(asked)))
    named = {name: part for name, part in template["Parameters"].items() if name in used}
    return {**resolved, **({"Parameters": named} if named else {}), **({"Conditions": asked} if asked else {})}


def _conditions(declared: Mapping[str, Any], values: Values) -> dict[str | None, bool]:
    """Return whether each condition holds, without those that ask for a parameter without a value; one may refer to
    those before it. No condition (``None``) always holds.
    """
    known: dict[str | None, bool] = {None: True}
    for name, condition in declared.items():
        with suppress(_Open):
            known[name] = _holds(condition, values, known)
    return known


def _holds(condition: Mapping[str, Any], values: Values, known: Mapping[str | None, bool]) -> bool:
    match condition:
        case {"Condition": str(name)} if name in known:
            return known[name]
        case {"Condition": _}:
            raise _Open
        case {"Fn::Equals": [one, other]}:
            return _compared(one, values, known) == _compared(other, values, known)
        case {"Fn::Not": [inner]}:
            return not _holds(inner, values, known)
        case {"Fn::And": parts}:
            return all(_holds(part, values, known) for part in parts)
    raise ValueError(f"no condition of this template: {condition}")


def _compared(value: Any, values: Values, known: Mapping[str | None, bool]) -> str:
    found = _resolved(value, values, known)
    if isinstance(found, dict):
        raise _Open
    return _text(found)


def _resolved(value: Any, values: Values, conditions: Mapping[str | None, bool]) -> Any:
    match value:
        case {"Ref": "AWS::NoValue"}:
            return NOTHING
        case {"Ref": str(name)} if name in values:
            return values[name]
        case {"Fn::If": [str(name), then, otherwise]} if name in conditions:
            return _resolved(then if conditions[name] else otherwise, values, conditions)
        case {"Fn::If": [str(name), *both]}:
            found = [_resolved(each, values, conditions) for each in both]
            return {"Fn::If": [name, *({"Ref": "AWS::NoValue"} if each is NOTHING else each for each in found)]}
        case {"Fn::Split": [str(separator), inner]}:
            found = _resolved(inner, values, conditions)
            return found.split(separator) if isinstance(found, str) else {"Fn::Split": [separator, found]}
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
