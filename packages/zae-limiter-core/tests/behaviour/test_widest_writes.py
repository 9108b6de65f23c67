"""No write exceeds what DynamoDB takes of expressions, however many limits a bucket has, whatever their names."""

import re
from typing import Any

import pytest

from support.core.widest import CASES, Case
from zae_limiter.engines.dynamodb.render import render
from zae_limiter.engines.effects import MAX_ITEM_BYTES
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.flows.process.refusals import MOST_IN_A_WRITE
from zae_limiter.flows.process.write_tokens import WriteTokens
from zae_limiter.operations.sizes import item_size
from zae_limiter.operations.values import Get, Put, Transact, Update
from zae_limiter.schema.attributes import late_counts_of

MAX_EXPRESSION_BYTES = 4096
MAX_OPERATORS = 300
MAX_NAMES_AND_VALUES_BYTES = 2 * 1024 * 1024
# Counted more strictly than need be: an AND inside BETWEEN, and each function.
OPERATOR = re.compile(r"BETWEEN|AND|OR|NOT|>=|<=|<>|[=<>+]|attribute_\w+")

case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))


def signed(case: Case) -> Put | Update | Transact:
    """The write of a case, with a token if it may have one."""
    write = case.make()
    assert isinstance(write, Put | Update | Transact)
    return WriteTokens(2**32 - 1).sign(write, {}, 2 * 10**12) if isinstance(write, Update) else write


def written(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The single writes of a rendered request."""
    if "TransactItems" not in request:
        return [request]
    return [write for item in request["TransactItems"] for write in item.values()]


@case
def test_no_expression_is_longer_than_dynamodb_takes(case: Case) -> None:
    for write in written(render(signed(case), "t")[1]):
        for kind in ("UpdateExpression", "ConditionExpression"):
            assert len(write.get(kind, "").encode()) <= MAX_EXPRESSION_BYTES, kind
            operators = OPERATOR.findall(write.get(kind, "")) if kind == "ConditionExpression" else []
            assert len(operators) <= MAX_OPERATORS, kind
        placed = {name: write.get(name) for name in ("ExpressionAttributeNames", "ExpressionAttributeValues")}
        assert len(str(placed)) < MAX_NAMES_AND_VALUES_BYTES


@case
def test_it_is_applied_and_leaves_an_item_that_is_far_from_too_large(case: Case) -> None:
    table, operation = MemoryTable(), signed(case)
    if case.before is not None:
        table.execute(Put(case.before))
    table.execute(operation)
    writes = operation.writes if isinstance(operation, Transact) else (operation,)
    for write in writes:
        assert isinstance(write, (Put, Update))
        key = write.key if isinstance(write, Update) else None
        item = table.execute(Get(key)) if key is not None else write.item  # type: ignore[union-attr]
        assert item_size(item) < MAX_ITEM_BYTES // 8


def test_writes_carry_as_many_counts_of_refusals_as_they_may() -> None:
    counts = [late_counts_of(write.add) for case in CASES if isinstance(write := case.make(), Update)]
    assert max(map(len, counts)) == MOST_IN_A_WRITE
    assert sum(map(bool, counts)) > len(counts) // 2


def test_the_cases_are_as_wide_as_they_claim() -> None:
    widest = {case.name: len(written(render(signed(case), "t")[1])[0].get("UpdateExpression", "")) for case in CASES}
    assert max(widest.values()) > 3_500, widest
