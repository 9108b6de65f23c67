"""Match records against the filter patterns of event source mappings.

https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventfiltering.html
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_ABSENT: Final = object()


def fits(pattern: Mapping[str, Any], value: Any) -> bool:
    """Return whether a record has what a pattern names: all of its keys, and for each key one of its alternatives."""
    return all(_fits_key(key, wanted, value) for key, wanted in pattern.items())


def _fits_key(key: str, wanted: Any, value: Any) -> bool:
    if key == "$or":
        return any(fits(alternative, value) for alternative in wanted)
    found = value.get(key, _ABSENT) if isinstance(value, Mapping) else _ABSENT
    if isinstance(wanted, Mapping):
        return fits(wanted, {} if found is _ABSENT else found)
    return any(_fits_one(rule, found) for rule in wanted)


def _fits_one(rule: Any, found: Any) -> bool:
    if isinstance(found, list):
        return any(_fits_one(rule, each) for each in found)
    if not isinstance(rule, Mapping):
        return found is not _ABSENT and bool(found == rule)
    ((kind, argument),) = rule.items()
    return _RULES[kind](argument, found)


def _exists(wanted: Any, found: Any) -> bool:
    return (found is not _ABSENT and not isinstance(found, Mapping)) is wanted


def _numeric(comparisons: Sequence[Any], found: Any) -> bool:
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        return False
    pairs = zip(comparisons[::2], comparisons[1::2], strict=True)
    return all(_COMPARE[sign](found, bound) for sign, bound in pairs)


def _anything_but(refused: Any, found: Any) -> bool:
    rules = refused if isinstance(refused, list) else [refused]
    return found is not _ABSENT and not any(_fits_one(rule, found) for rule in rules)


def _text(test: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    return lambda argument, found: isinstance(found, str) and test(found, argument)


_RULES: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "anything-but": _anything_but,
    "equals-ignore-case": _text(lambda found, wanted: found.lower() == wanted.lower()),
    "exists": _exists,
    "numeric": _numeric,
    "prefix": _text(str.startswith),
    "suffix": _text(str.endswith),
}
