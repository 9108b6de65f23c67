"""How the limits of an acquire stood, for its caller."""

from support.core.plays import NOW, RPM, bucket_item, stage
from zae_limiter.flows.acquire.claims import Claim
from zae_limiter.flows.acquire.statuses import statuses_before
from zae_limiter.flows.process.bucket_queue import Outcome
from zae_limiter.resolution import Config, Resolved
from zae_limiter.schema.items import read_bucket


def test_who_was_refused_by_a_shard_of_a_bucket_that_is_gone_since_is_told_that_it_was_short() -> None:
    it = stage()
    config = Config((RPM,), 0)
    resolved = Resolved(config, None, None, None, cascade=False, valid_until_ms=0, generation=0)
    claim = Claim(it.cached, it.cached, resolved, config, {"rpm": 20_000})
    request = claim.enter()
    state = read_bucket(bucket_item({RPM: 10_000}, shard_count=2))
    request.outcome = Outcome("refused", state, NOW, left={"rpm": 10_000})
    it.sees(None)
    (status,) = statuses_before([claim], NOW)
    assert status.exceeded
    assert 0 < status.retry_after_seconds < 1
