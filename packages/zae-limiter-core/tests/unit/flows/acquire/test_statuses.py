"""How the limits of an acquire stood, for its caller."""

from support.core.plays import NOW, RPM, Stage, bucket_item, stage
from zae_limiter.flows.acquire.claims import Claim, Seen
from zae_limiter.flows.acquire.requests import AcquireRequest
from zae_limiter.flows.acquire.statuses import refusal_of
from zae_limiter.flows.bucket_queue import Outcome
from zae_limiter.operations.values import Item
from zae_limiter.schema.items import read_bucket
from zae_limiter.values.resolution import Config, Resolved

ASKED = AcquireRequest("e", "r", {"rpm": 20_000})


def refused_claim(it: Stage, item: Item) -> Claim:
    """A claim for 20 tokens that was refused for lack of 10 by a bucket that was like this."""
    config = Config((RPM,), 0)
    resolved = Resolved(config, None, None, (), cascade=False, valid_until_ms=0, generation=0)
    claim = Claim(it.cached, it.cached, resolved, config, {"rpm": 20_000})
    claim.enter().outcome = Outcome("refused", read_bucket(item), NOW, left={"rpm": 10_000})
    return claim


def test_who_was_refused_by_a_shard_of_a_bucket_that_is_gone_since_is_told_that_it_was_short() -> None:
    it = stage()
    claim = refused_claim(it, bucket_item({RPM: 10_000}, shard_count=2))
    it.sees(None)
    (status,) = refusal_of(ASKED, [claim], NOW).violations
    assert 0 < status.retry_after_seconds < 1


def test_who_was_refused_by_a_bucket_that_is_full_by_now_is_told_that_it_was_short() -> None:
    it = stage()
    claim = refused_claim(it, bucket_item({RPM: 10_000}))
    claim.seen = Seen([read_bucket(bucket_item({RPM: 60_000}))], NOW)
    (status,) = refusal_of(ASKED, [claim], NOW).violations
    assert 0 < status.retry_after_seconds < 1


def test_a_bucket_may_have_limits_that_the_call_does_not_know() -> None:
    it = stage()
    claim = refused_claim(it, bucket_item({RPM: 10_000}))
    outcome = claim.last[0].outcome
    assert outcome is not None
    claim.last[0].outcome = outcome._replace(left={"tpm": 5_000, "rpm": 10_000})
    (status,) = refusal_of(ASKED, [claim], NOW).violations
    assert status.limit_name == "rpm"
