"""What lives here: deliberate faults of the aggregator, each of which a simulated history has to find.
What never does: what a history is, or a fault of the limiter itself (core's own simulation).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from simulation.kernel import Violation
from support.integration import aggregated
from support.integration.aggregated import simulate
from zae_limiter.flows.bucket import anchors as anchoring
from zae_limiter.flows.records import usage as counting
from zae_limiter.flows.records.usage import Use
from zae_limiter.flows.retry import with_retries
from zae_limiter.flows.steps import Flow
from zae_limiter.operations.errors import ConditionFailed
from zae_limiter.operations.values import UNCONDITIONAL, Conditions, Update
from zae_limiter.schema.attributes import bucket_attributes
from zae_limiter.schema.items import ONE_WRITE, WRITES, BucketState
from zae_limiter.schema.usage import SnapshotId, counted_attribute
from zae_limiter_aggregator import batch_jobs
from zae_limiter_aggregator.held import PendingUse

SEEDS = range(1, 31)
RARE = range(1, 151)  # one history in thirty finds it

real_write, real_anchor, real_jobs = counting._counting, anchoring.reanchored, batch_jobs.usage_jobs


class Fault(NamedTuple):
    """What is made wrong, and where."""

    name: str
    module: Any
    attribute: str
    instead: Callable[..., Any]
    seeds: range = SEEDS


def unconditional(*args: Any, **spread: Any) -> Update:
    """A snapshot adds whatever it has counted before."""
    return real_write(*args, **spread)._replace(when=UNCONDITIONAL)


def mark_included(snapshot: SnapshotId, shard: int, uses: Sequence[Use], *args: Any, **spread: bool) -> Update:
    """``<=`` for ``<``: the record that the mark names counts once more."""
    behind = Conditions(below={counted_attribute(shard): uses[0].mark + "!"})
    return real_write(snapshot, shard, uses, *args, **spread)._replace(when=behind)


def rest_begins_late(item: Any, shard: int, uses: Sequence[Use]) -> list[Use]:
    """What is left of a batch begins one record too late."""
    return [use for use in uses if use.mark > item[counted_attribute(shard)]][1:]


def mark_of_the_first(snapshot: SnapshotId, shard: int, uses: Sequence[Use], *args: Any, **spread: bool) -> Update:
    """The mark stops at the first of the records that are counted."""
    write = real_write(snapshot, shard, uses, *args, **spread)
    return write._replace(set={**write.set, counted_attribute(shard): uses[0].mark})


def mark_written_apart(
    snapshot: SnapshotId, shard: int, uses: Sequence[Use], *, expires_at: int | None, now_ms: int, spread: bool
) -> Flow[bool]:
    """The mark is checked and moved by a write of its own, and then the sums are added to."""
    write, at = real_write(snapshot, shard, uses, expires_at, now_ms, spread=spread), counted_attribute(shard)
    try:
        yield from with_retries(write._replace(add={}, set={at: write.set[at]}))
    except ConditionFailed:
        return False
    yield from with_retries(write._replace(when=UNCONDITIONAL))
    return True


def window_of_the_batch(held: Any, fresh: Sequence[PendingUse], *args: Any, **kwargs: Any) -> Any:
    """All of a batch is attributed to the window of its last record."""
    last = {each.bucket: each.use.at_ms for each in sorted(fresh, key=lambda each: each.use.mark)}
    late = [each._replace(use=each.use._replace(at_ms=last[each.bucket])) for each in fresh]
    return real_jobs(held, late, *args, **kwargs)


def anchor_clamped(state: BucketState, at_ms: int) -> Update:
    """Balances are set to what the image makes of them, cut off at the ceiling."""
    balances = {}
    for name, shard_limit in state.shard_limits.items():
        now = state.tokens_milli(name) + shard_limit.minted_since_anchor(at_ms)
        balances[bucket_attributes(name).tokens] = min(shard_limit.ceiling_milli, now)
    return real_anchor(state, at_ms)._replace(add={WRITES: ONE_WRITE}, set={"rf": at_ms, **balances})


def anchor_that_mints(state: BucketState, at_ms: int) -> Update:
    """What was minted is added, and may be minted again: the anchor stays behind."""
    return real_anchor(state, at_ms)._replace(set={"rf": at_ms - 100})


def anchor_unasked(state: BucketState, at_ms: int) -> Update:
    """Nobody asks whether the anchor is the one of the image."""
    return real_anchor(state, at_ms)._replace(when=UNCONDITIONAL)


FAULTS = (
    Fault("no condition", counting, "_counting", unconditional),
    Fault("a mark that counts again", counting, "_counting", mark_included),
    Fault("a rest that begins late", counting, "_not_counted", rest_begins_late),
    Fault("a mark of the first record", counting, "_counting", mark_of_the_first),
    Fault("a mark written apart", batch_jobs, "count_usage", mark_written_apart),
    Fault("the window of the batch", aggregated, "usage_jobs", window_of_the_batch),
    Fault("a clamp at re-anchoring", anchoring, "reanchored", anchor_clamped),
    Fault("an anchor that mints", anchoring, "reanchored", anchor_that_mints),
    Fault("an anchor that was not seen", anchoring, "reanchored", anchor_unasked, RARE),
)


def finds(seed: int) -> bool:
    try:
        simulate(seed)
    except Violation:
        return True
    return False


@pytest.mark.parametrize(
    "fault",
    [pytest.param(each, marks=pytest.mark.long if number else []) for number, each in enumerate(FAULTS)],
    ids=lambda fault: fault.name.replace(" ", "-"),
)
def test_a_deliberate_fault_of_the_aggregator_is_found(fault: Fault) -> None:
    with patch.object(fault.module, fault.attribute, fault.instead):
        seed = next(filter(finds, fault.seeds), None)
    assert seed is not None
    assert not finds(seed)
