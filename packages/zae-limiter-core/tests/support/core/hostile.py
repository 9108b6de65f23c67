"""A store whose answers are damaged on their way, as bytes, in both variants.

Lives here: answers as DynamoDB gives them, and the ways to damage one. Never: what is called (hostile_calls), a claim.
"""

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from zae_limiter.engines.dynamodb.faults import read_fault
from zae_limiter.engines.dynamodb.marshal import write_item
from zae_limiter.engines.dynamodb.protocol.answers import ErrorAnswer, read_response
from zae_limiter.engines.dynamodb.protocol.responses import Response
from zae_limiter.engines.dynamodb.render import read_answer, render_body
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.operations.errors import ConditionFailed, StoreError, TransactionCancelled
from zae_limiter.operations.values import BatchGet, BatchWrite, DescribeTable, Get, Item, Operation, Query, Scan, Update
from zae_limiter.stores import Store, SyncStore

MOST_REQUESTS: Final = 300  # of one call
DAMAGES: Final = 3

FORGED = "x\r\nError: all is well\x1b[2J\u202e"
TEXTS: Final = ["", "x", FORGED, "a#b", "_default_", "_", "é", "\ud800", "9" * 5000, "9999-12-31", "x" * 2000]
NUMBERS: Final = (
    *("", "x", "0", "-1", "1", "3", "64", "1.5", "NaN", "-Infinity", "1E+400"),
    *("9" * 38, "-" + "9" * 39, "\u0663"),
)
PLAIN: Final[list[Any]] = [None, True, 0, -1, 1.5, 10**30, "", "x", FORGED, [], {}, [[]], {"x": {}}, [None], "9" * 5000]


class Endless(Exception):
    """A call that asks, and asks again."""


class Damage:
    """What becomes of the answers from now on: the first ``good`` ones come as they are, some of the others damaged."""

    def __init__(self, random: Random, *, good: int = 0) -> None:
        self.random, self.good = random, good
        self.asked = 0

    def of(self, answer: Any) -> Any:
        """The answer, or what becomes of it."""
        self.asked += 1
        if self.asked > MOST_REQUESTS:
            raise Endless
        if self.asked <= self.good or (self.asked > self.good + 1 and self.random.random() < 0.7):
            return answer
        return damaged(answer, self.random)


class HostileTable:
    """A table whose answers are damaged while ``damage`` is set."""

    def __init__(self, table: MemoryTable) -> None:
        self.table = table
        self.damage: Damage | None = None

    def ask(self, operation: Operation[Any]) -> Any:
        """Return what the answer is read as. Raises ``StoreError``."""
        render_body(operation, "t")
        status, answer = answer_of(self.table, operation)
        if self.damage is not None:
            answer = self.damage.of(answer)
        try:
            read = read_response(Response(status, {}, json.dumps(answer).encode(), True))
        except ErrorAnswer as error:
            fault = read_fault(operation, error.response)
            if fault is None:
                return None
            raise fault from error
        return read_answer(operation, read)


class HostileStore(Store):
    """The table, without blocking."""

    def __init__(self, table: HostileTable) -> None:
        self.table = table

    async def perform(self, operation: Operation[Any]) -> Any:
        return self.table.ask(operation)

    async def close(self) -> None:
        pass


class SyncHostileStore(SyncStore):
    """The table, blocking."""

    def __init__(self, table: HostileTable) -> None:
        self.table = table

    def perform(self, operation: Operation[Any]) -> Any:
        return self.table.ask(operation)

    def close(self) -> None:
        pass


def answer_of(table: MemoryTable, operation: Operation[Any]) -> tuple[int, dict[str, Any]]:
    """The status and the body with which DynamoDB answers."""
    try:
        return 200, _body(operation, table.execute(operation))
    except ConditionFailed as failure:
        return 400, {"__type": "x#ConditionalCheckFailedException", "message": "no", **_stored(failure.item)}
    except TransactionCancelled as cancelled:
        reasons = [{"Code": reason.code or "None", **_stored(reason.item)} for reason in cancelled.reasons]
        return 400, {"__type": "x#TransactionCanceledException", "message": "no", "CancellationReasons": reasons}
    except (StoreError, LookupError, TypeError) as error:  # a damaged place to go on from, too
        return 400, {"__type": "x#ValidationException", "message": str(error)}


def _stored(item: Item | None) -> dict[str, Any]:
    return {} if item is None else {"Item": write_item(item)}


def _body(operation: Operation[Any], answer: Any) -> dict[str, Any]:
    match operation:
        case Get():
            return _stored(answer)
        case Update():
            return {"Attributes": write_item(answer)}
        case BatchGet():
            return {"Responses": {"t": [write_item(item) for item in answer.items.values()]}, "UnprocessedKeys": {}}
        case Query() | Scan():
            following = {} if answer.next is None else {"LastEvaluatedKey": write_item(answer.next)}
            return {"Items": [write_item(item) for item in answer.items], "Count": len(answer.items), **following}
        case BatchWrite():
            return {"UnprocessedItems": {}}
        case DescribeTable():
            return {"Table": {"TableStatus": answer}}
    return {}


def damaged(answer: Any, random: Random) -> Any:
    """The answer with up to three of its parts replaced, repeated, renamed or missing."""
    answer = copy.deepcopy(answer)
    for _ in range(random.randint(1, DAMAGES)):
        ways = list(_ways(answer))
        if not ways or random.random() < 0.03:
            return _chosen(PLAIN, random)
        *above, last = random.choice(ways)
        holder = answer
        for name in above:
            holder = holder[name]
        _damage(holder, last, random)
    return answer


def _damage(holder: Any, last: Any, random: Random) -> None:
    match random.choice(["replace", "replace", "attribute", "attribute", "drop", "add", "wrap"]):
        case "replace":
            holder[last] = _chosen([*TEXTS, *NUMBERS, *PLAIN], random)
        case "attribute":
            holder[last] = attribute(random)
        case "drop":
            del holder[last]
        case "wrap":
            holder[last] = [holder[last]]
        case "add" if isinstance(holder, dict):
            holder[random.choice([*TEXTS, "b_x_tk", "l_x_cp", "o_x_cp", "ttl", "deleted_at", "LastEvaluatedKey"])] = (
                attribute(random)
            )
        case _:
            holder.append(copy.deepcopy(holder[last])) if isinstance(holder, list) else holder.clear()


def attribute(random: Random) -> Any:
    """An ``AttributeValue``, or what looks like one."""
    kind = random.choice(["N", "N", "N", "S", "S", "S", "BOOL", "NULL", "L", "M", "B", "SS", "X", "deep"])
    match kind:
        case "N":
            return {"N": _chosen([*NUMBERS, *NUMBERS, *PLAIN], random)}
        case "S":
            return {"S": _chosen([*TEXTS, *TEXTS, *PLAIN], random)}
        case "deep":
            return _deep(random.choice([20, 31, 33, 100]))
        case "L" | "SS":
            return {kind: [random.choice([{"S": "x"}, {"N": "1"}, "x", 1, None])] * random.randint(0, 2)}
        case "M":
            return {"M": {"id": random.choice([{"S": "x"}, {"N": "1"}, "x"]), "e": {"L": [{"S": "r"}]}}}
    return {kind: _chosen(PLAIN, random)}


def _chosen(values: list[Any], random: Random) -> Any:
    """One of the values, which nothing shares with another answer."""
    return copy.deepcopy(random.choice(values))


def _deep(levels: int) -> Any:
    value: Any = {"S": "x"}
    for _ in range(levels):
        value = {"L": [value]}
    return value


def _ways(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in list(parts)[:200]:
        yield (*way, name)
        if len(way) < 12:
            yield from _ways(part, (*way, name))
