"""The write that only counts refusals: it cannot make a bucket."""

import pytest

from support.core.plays import NOW, RPM, bucket_item, play_script, stage
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.flows.bucket.serving import serve
from zae_limiter.flows.bucket_queue import RefusalCount
from zae_limiter.operations.errors import ConditionFailed
from zae_limiter.operations.values import Update


def test_refusals_of_a_bucket_that_is_gone_make_none() -> None:
    it = stage()
    it.sees(bucket_item({RPM: 0}))
    it.namespace_state.refusals.add(it.cached, NOW)
    refused = ConditionFailed(None)
    [write], _ = play_script(serve(it.namespace_state, it.cached, [RefusalCount(it.cached.queue)]), refused)
    assert isinstance(write, Update)
    assert write.add["rj"] == 1
    with pytest.raises(ConditionFailed):
        MemoryTable().execute(write)
