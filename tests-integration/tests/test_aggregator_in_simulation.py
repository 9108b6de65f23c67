"""What lives here: the aggregator in simulated histories of the limiter, on a stream that is delivered badly.
What never does: what the limiter itself must hold (core's own simulation).
"""

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from simulation.kernel import Violation
from simulation.seams import requests
from support.integration.aggregated import simulate_many
from zae_limiter.operations.values import Operation, Update


@cache
def done_from(first: int) -> Counter[str]:
    """What was done in 10 histories, each of which is checked."""
    return simulate_many(range(first, first + 10))


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("first", range(1, 61, 10))
def test_usage_equals_consumption_and_no_token_is_made_or_lost(first: int) -> None:
    assert done_from(first)


@pytest.mark.long
def test_the_histories_are_worth_something() -> None:
    done = sum((done_from(first) for first in range(1, 61, 10)), Counter[str]())
    assert done["snapshots"] > 100
    assert min(done["refills"], done["given up"], done["hourly"], done["daily"], done["removals"]) > 10
    assert done["splits"] > 0


def anchors_that_lose(operation: Operation[Any]) -> Operation[Any]:
    """A new anchor comes with a millitoken less than was minted."""
    if isinstance(operation, Update) and "rf" in operation.set and "cv" not in operation.set:
        less = {name: amount - name.endswith("_tk") for name, amount in operation.add.items()}
        return operation._replace(add=less)
    return operation


def acquires_that_do_not_count(operation: Operation[Any]) -> Operation[Any]:
    """Where two acquires share a write, it counts one."""
    if isinstance(operation, Update) and operation.add.get("ev", 0) > 1:
        return operation._replace(add={**operation.add, "ev": 1})
    return operation


@pytest.mark.parametrize(
    ("fault", "told"),
    [(anchors_that_lose, "a new anchor alone lost 1 "), (acquires_that_do_not_count, "were admitted")],
)
def test_a_deliberate_fault_is_found(fault: Callable[[Operation[Any]], Operation[Any]], told: str) -> None:
    with pytest.raises(Violation, match=told):
        simulate_many(range(1, 101), seams=requests(fault))
