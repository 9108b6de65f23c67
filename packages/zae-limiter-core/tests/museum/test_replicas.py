"""Several processes: replicas of a gateway, workers of a server, nodes that start again. tests-integration plays these
scenes on DynamoDB, too.
"""

from itertools import cycle

from museum.exhibits import shows
from museum.stage import Stage, admitted, passes
from zae_limiter import Limit

ONE = {"rpd": 1}


@shows(
    "https://github.com/maximhq/bifrost/issues/3547",
    "Budget & rate-limit state is per-replica (sync.Map); multi-replica deployments silently leak past caps",
)
def test_three_replicas_admit_one_budget_and_not_three(stage: Stage) -> None:
    replicas = cycle([stage.process(Limit.per_day("rpd", 10)) for _ in range(3)])
    assert admitted(60, lambda: passes(next(replicas), "customer", ONE)) == 10

    spent = {"a": 0, "b": 0, "c": 0}
    names = cycle(spent)

    def each_has_a_map_of_its_own() -> bool:
        name = next(names)
        spent[name] += 1
        return spent[name] <= 10

    assert admitted(60, each_has_a_map_of_its_own) == 30


@shows(
    "https://github.com/apache/apisix/issues/6760",
    "help request: An exception occurred when limit_count was used to control traffic limiting on multiple nodes.",
)
def test_nodes_that_read_the_limits_at_different_times_share_one_count(stage: Stage) -> None:
    limits = [Limit.per_day("rpd", 10)]
    early = stage.process()
    early.set_resource_defaults("gpt-4", limits)
    assert admitted(3, lambda: passes(early, "consumer", ONE)) == 3
    late = stage.process()
    late.set_resource_defaults("gpt-4", limits)  # the same limits, stored again: a new version
    nodes = cycle([early, late])
    assert admitted(20, lambda: passes(next(nodes), "consumer", ONE)) == 10 - 3

    spent: dict[str, int] = {}
    versions = cycle(["&1", "&3"])  # of the consumer, as each node counts its changes

    def version_is_in_the_key() -> bool:
        key = f"consumer{next(versions)}"
        spent[key] = spent.get(key, 0) + 1
        return spent[key] <= 10

    assert admitted(40, version_is_in_the_key) == 20


@shows(
    "https://github.com/Kuadrant/limitador/issues/521",
    "CachedRedisStorage::check() can admit over-limit requests on a cold cache",
)
def test_a_process_that_knows_nothing_yet_does_not_take_a_bucket_for_full(stage: Stage) -> None:
    limit = Limit.per_day("rpd", 10)
    warm = stage.process(limit)
    assert passes(warm, "key", {"rpd": 10})
    cold = stage.process(limit)
    assert admitted(5, lambda: cold.check("key", "gpt-4", ONE).passes) == 0  # only looks, and never writes
    assert not passes(stage.process(limit), "key", ONE)

    cached: dict[str, int] = {}
    assert admitted(5, lambda: cached.get("key", 0) + 1 <= 10) == 5  # a miss is a counter at 0


@shows(
    "https://github.com/BerriAI/litellm/issues/30002",
    "stale key spend counter remains after budget reset or manual reset",
)
def test_a_reset_reaches_a_process_that_has_refused_the_key(stage: Stage) -> None:
    limit = Limit.total("rpd", 10)
    serving, operator = stage.process(limit), stage.process(limit)
    assert admitted(20, lambda: passes(serving, "key", ONE)) == 10
    operator.repository.reset_bucket("key", "gpt-4")
    stage.clock.advance(1)  # no process refuses for longer by what it has seen
    assert admitted(20, lambda: passes(serving, "key", ONE)) == 10

    row, counter = {"key": 0}, {"key": 10}
    row["key"] = 0  # the reset; the counter, which is asked first, stays
    assert admitted(20, lambda: counter.get("key", row["key"]) < 10) == 0
