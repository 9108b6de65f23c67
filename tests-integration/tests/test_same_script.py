"""What lives here: the proof that both variants, on every target, do the same with the same script.
What never does: what a step has to do.
"""

import json
from typing import Any

import pytest

from support.integration.clocks import START_MS
from support.integration.harness import Harness
from support.integration.script import Step, play, script
from zae_limiter import Limit
from zae_limiter.operations.values import Item
from zae_limiter.schema.attributes import REFUSED, REFUSED_ASK, REFUSED_BELOW, WRITE_TOKENS
from zae_limiter.schema.items import WRITES
from zae_limiter.testing import ManualClock

pytestmark = [pytest.mark.needs("atomic"), pytest.mark.differs]

LENGTH = 120
CACHE_LIFE = 5
Run = tuple[list[Any], list[Item]]


async def run(harness: Harness, steps: list[Step]) -> Run:
    """The outcomes, and the items at the end; the id of the namespace, which is random, has a name."""
    clock = ManualClock(START_MS)
    limiter = await harness.open(clock=clock, config_cache_ttl=CACHE_LIFE)
    await limiter.set_system_defaults([Limit.per_minute("rpm", 20), Limit.per_hour("tpm", 100)])
    outcomes = await play(steps, limiter, clock)
    # two give-backs of a lease may share a write or not: it is a matter of which thread runs first
    # An engine may count usage itself; of others the aggregator does.
    # The id of an audit event is random; how many writes a rollback takes is the variant's own.
    # Refusals are written within five seconds of real time: a slow machine has some of them in the table already.
    items = [{name: value for name, value in item.items() if not _by_real_time(name)} for item in harness.items()]
    items = [item for item in items if not item["SK"].startswith("#USAGE#")]
    # An engine without hot keys has no suffixes in its indexes.
    items = [{name: value for name, value in item.items() if name not in ("GSI2PK", "GSI4PK")} for item in items]
    items = [item | {"SK": "", "GSI4SK": "", "event_id": ""} if "event_id" in item else item for item in items]
    return outcomes, json.loads(json.dumps(items).replace(harness.namespace_id, "NAMESPACE"))


def _by_real_time(attribute: str) -> bool:
    return attribute in {WRITES, REFUSED_ASK, REFUSED_BELOW, *WRITE_TOKENS} or attribute.startswith(REFUSED)


@pytest.mark.long(keep=4)
@pytest.mark.parametrize("seed", range(3))
async def test_a_script_has_the_same_outcomes_and_leaves_the_same_items(
    harness: Harness, seed: int, first_runs: dict[int, Run]
) -> None:
    outcomes, items = await run(harness, steps := script(seed, LENGTH))
    expected_outcomes, expected_items = first_runs.setdefault(seed, (outcomes, items))
    for step, outcome, expected in zip(steps, outcomes, expected_outcomes, strict=True):
        assert outcome == expected, step
    assert items == expected_items


@pytest.fixture(scope="session")
def first_runs() -> dict[int, Run]:
    """What the first run of each seed gave; every other one is held against it."""
    return {}
