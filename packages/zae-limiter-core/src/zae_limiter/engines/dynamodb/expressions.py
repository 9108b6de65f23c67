"""Write the texts of expressions, with placeholders for all names and values.

No name and no value of a caller gets into a text. ``render`` builds the whole request.
"""

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from ...operations.values import UNCONDITIONAL, Conditions, Query, Update, Value
from ...runtime.dataclass import dataclass, replace
from .marshal import write_value

_NUMBERS: Final = frozenset((int,))
LAST_CHARACTER: Final = "\U0010ffff"  # sorts after every character of a name


class Placeholders:
    """Allocates placeholders: one for each attribute name, and a new one for each value."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._values: list[str] = []

    def name(self, attribute: str) -> str:
        """Return the placeholder of an attribute, the same one each time."""
        return self._names.setdefault(attribute, f"#a{len(self._names)}")

    def value(self) -> str:
        """Return a placeholder for the next value."""
        self._values.append(f":v{len(self._values)}")
        return self._values[-1]

    def names(self) -> dict[str, str]:
        """Return the attribute behind each placeholder."""
        return {placeholder: attribute for attribute, placeholder in self._names.items()}

    def values(self) -> tuple[str, ...]:
        """Return the placeholders of the values, in the order of their allocation."""
        return tuple(self._values)


@dataclass(frozen=True, slots=True)
class Texts:
    """The expressions of one kind of write: ``names`` are filled in, ``values`` are the placeholders in order.

    ``json`` has all of it as members of a JSON object, with a ``%d`` for each value: a body for numbers alone.
    """

    update: str
    condition: str
    names: dict[str, str]
    values: tuple[str, ...]
    json: str


def fill(texts: Texts, values: Iterable[Value]) -> dict[str, Any]:
    """Return the request parameters for these expressions and ``values``, without empty ones."""
    parameters: dict[str, Any] = {}
    if texts.update:
        parameters["UpdateExpression"] = texts.update
    if texts.condition:
        parameters["ConditionExpression"] = texts.condition
        parameters["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"  # a failed write returns the true state
    if texts.names:
        parameters["ExpressionAttributeNames"] = texts.names.copy()
    if texts.values:
        # Nearly all values are numbers: no function call for them.
        parameters["ExpressionAttributeValues"] = {
            placeholder: {"N": str(value)} if type(value) is int else write_value(value)
            for placeholder, value in zip(texts.values, values, strict=True)
        }
    return parameters


def update_parameters(update: Update) -> dict[str, Any]:
    """Return the request parameters for an update and its conditions."""
    return fill(*_of_update(update))


def update_json(update: Update) -> str | None:
    """Return ``update_parameters`` as members of a JSON object, ``None`` without any, or if a value is not a number."""
    texts, values = _of_update(update)
    if not texts.json or not _NUMBERS.issuperset(map(type, values)):
        return None
    return texts.json % tuple(values)


def _of_update(update: Update) -> tuple[Texts, list[Value]]:
    add, values, when = update.add, update.set, update.when
    texts = _texts(
        tuple(add),
        tuple(values),
        update.remove,
        when.exists,
        when.absent,
        tuple(when.equals),
        tuple(when.at_least),
        tuple(when.at_most),
        tuple(when.below),
    )
    return texts, [*add.values(), *values.values(), *_compared(when)]


def condition_parameters(when: Conditions) -> dict[str, Any]:
    """Return the request parameters for the conditions of any other write."""
    if when is UNCONDITIONAL:
        return {}
    names = tuple(when.equals), tuple(when.at_least), tuple(when.at_most), tuple(when.below)
    return fill(_texts((), (), (), when.exists, when.absent, *names), _compared(when))


def query_parameters(query: Query, pk: str, sk: str) -> dict[str, Any]:
    """Return the key condition of a query whose keys are the attributes ``pk`` and ``sk``."""
    range_text, range_values = _range(query)
    return {
        "KeyConditionExpression": f"#pk = :pk{range_text}",
        "ExpressionAttributeNames": {"#pk": pk, **({"#sk": sk} if range_text else {})},
        "ExpressionAttributeValues": {name: {"S": value} for name, value in ((":pk", query.pk), *range_values.items())},
    }


def _range(query: Query) -> tuple[str, dict[str, str]]:
    prefix, after = query.begins_with, query.after
    if after is None:
        return (" AND begins_with(#sk, :low)", {":low": prefix}) if prefix else ("", {})
    if not prefix:
        return " AND #sk > :low", {":low": after}
    # A key condition has room for one comparison, so both together are a range: no name has the last character.
    # After the last key with the prefix, the range is one string that is not a key.
    low = max(prefix, after + "\0")
    return " AND #sk BETWEEN :low AND :high", {":low": low, ":high": max(low, prefix + LAST_CHARACTER)}


def _compared(when: Conditions) -> list[Value]:
    return [*when.equals.values(), *when.at_least.values(), *when.at_most.values(), *when.below.values()]


# A process sends few kinds of writes, each of them very often.
@lru_cache(maxsize=2_048)
def _texts(
    add: tuple[str, ...],
    set_: tuple[str, ...],
    remove: tuple[str, ...],
    exists: tuple[str, ...],
    absent: tuple[str, ...],
    equals: tuple[str, ...],
    at_least: tuple[str, ...],
    at_most: tuple[str, ...],
    below: tuple[str, ...],
) -> Texts:
    holders = Placeholders()
    clauses = (
        ("ADD", [f"{holders.name(name)} {holders.value()}" for name in add]),
        ("SET", [f"{holders.name(name)} = {holders.value()}" for name in set_]),
        ("REMOVE", [holders.name(name) for name in remove]),
    )
    update = " ".join(f"{clause} {', '.join(changes)}" for clause, changes in clauses if changes)
    condition = " AND ".join(
        [
            *(f"attribute_exists({holders.name(name)})" for name in exists),
            *(f"attribute_not_exists({holders.name(name)})" for name in absent),
            *(f"{holders.name(name)} = {holders.value()}" for name in equals),
            *_bounds(holders, at_least, at_most),
            *(
                f"(attribute_not_exists({holders.name(name)}) OR {holders.name(name)} < {holders.value()})"
                for name in below
            ),
        ]
    )
    texts = Texts(update, condition, holders.names(), holders.values(), "")
    members = json.dumps(fill(texts, [0] * len(texts.values)), separators=(",", ":"))[1:-1]
    return replace(texts, json=members.replace("%", "%%").replace('{"N":"0"}', '{"N":"%d"}'))


def _bounds(holders: Placeholders, at_least: tuple[str, ...], at_most: tuple[str, ...]) -> Iterable[str]:
    lows = {name: holders.value() for name in at_least}
    highs = {name: holders.value() for name in at_most}
    for name, low in lows.items():
        placeholder = holders.name(name)
        yield f"{placeholder} BETWEEN {low} AND {highs[name]}" if name in highs else f"{placeholder} >= {low}"
    for name, high in highs.items():
        if name not in lows:
            yield f"{holders.name(name)} <= {high}"
