"""Flows that are played with scripted replies: no client, no clock, no sleep.

Lives here: the player, and states of a bucket to begin with. Never: a claim.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from zae_limiter.flows.bucket.serving import cached_shard
from zae_limiter.flows.bucket_queue import BucketRequest
from zae_limiter.flows.process.namespace_state import CachedShard, NamespaceState, Settings
from zae_limiter.flows.steps import Flow, Step, Wait
from zae_limiter.flows.tally import Tally
from zae_limiter.operations.values import Item
from zae_limiter.schema.attributes import bucket_attributes
from zae_limiter.schema.items import WRITES, BucketId, rule_attributes
from zae_limiter.testing import ManualClock
from zae_limiter.values.limits import Limit
from zae_limiter.values.resolution import Config

T = TypeVar("T")
NOW = 1_700_000_000_000
MINUTE = 60_000
RPM = Limit.per_minute("rpm", 60)  # one token a second


def play_script(flow: Flow[T], *replies: Any) -> tuple[list[Step], T]:
    """The steps of the flow, and its result; a reply is a value, an exception to throw, or a function of the step.

    Fails where the flow asks for more than there are replies, or for less.
    """
    steps: list[Step] = []
    waiting = list(replies)
    try:
        step = next(flow)
        while True:
            assert not isinstance(step, Wait), "only a whole acquire waits"
            steps.append(step)
            assert waiting, f"no reply to {step}"
            reply = waiting.pop(0)
            if isinstance(reply, BaseException):
                step = flow.throw(reply)
            else:
                step = flow.send(reply(step) if isinstance(reply, Callable) else reply)  # type: ignore[arg-type]
    except StopIteration as stop:
        assert not waiting, f"the flow ended without asking for {waiting}"
        return steps, stop.value


def bucket_item(tokens: Mapping[Limit, int], *, rf: int = NOW, cv: int = 0, writes: int = 1, **more: Any) -> Item:
    """A bucket item with so many stored millitokens of each limit."""
    item: Item = {
        **BucketId("ns", "e", "r").attributes(),
        "cascade": False,
        "shard_count": 1,
        "rf": rf,
        "cv": cv,
        "ev": 1,
    }
    item[WRITES] = writes * 1000
    for limit, stored in tokens.items():
        at = bucket_attributes(limit.name)
        item |= {at.tokens: stored, at.consumed: 0, **rule_attributes(limit)}
    return item | more


class Stage(NamedTuple):
    """One process that knows one bucket."""

    clock: ManualClock
    namespace_state: NamespaceState
    cached: CachedShard

    def sees(self, item: Item | None, *, own_writes: int = 0) -> None:
        """The last answer showed this."""
        self.cached.learn(item, self.clock.now_ms(), own_writes=own_writes)

    def request(self, *limits: Limit, config: Config | None = None, events: int = 1, **amounts: Any) -> BucketRequest:
        """A request of the bucket under limits that were read long ago; ``checked=``, ``unchecked=``, ``given=``."""
        config = config or (Config(limits, 0) if limits else None)
        return BucketRequest(self.cached, config=config, counts=Tally(events=events), **amounts)


def stage(**settings: Any) -> Stage:
    """A process at ``NOW`` that knows nothing yet."""
    clock = ManualClock(NOW)
    namespace_state = NamespaceState("default", "ns", stack="my-app", now=clock.now_ms, settings=Settings(**settings))
    return Stage(clock, namespace_state, cached_shard(namespace_state, "e", "r"))
