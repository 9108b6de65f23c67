"""A tree of 5,000 entities below 200 parents, with three tiers: what an apply takes, and what an operator sees of it.

Lives here: the same handler as in ``declarative``, on a table without a stream, the time that its requests would take
DynamoDB, and the walk of an operator on a local stack. Never: Lambda itself.
"""

from collections.abc import Iterator
from contextlib import ExitStack

from zae_limiter import Limit, Options, SyncRepository
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter_manifest import LimitsManifest, Request

from .declarative import READS, REGION, TABLE, Invocation, create_table, provisioner
from .declared_walk import CHILDREN, NAMESPACE, PARENTS, TIERS, walk
from .emulator import dynoxide
from .report import Row


def measure() -> list[Row]:
    rows: list[Row] = []
    with ExitStack() as stack:
        url = dynoxide(stack)
        create_table(url)
        asked = stack.enter_context(provisioner(url))
        for what, requests in _requests():
            if what == "drift":
                _change_out_of_band(url)
            rows += _rows(what, [taken for request in requests for taken in asked.finish(request)])
    return [*rows, *walk()]


def tree(*, gold: int = TIERS["gold"], moved: bool = False) -> LimitsManifest:
    """Return the manifest; ``moved``: the first team is below the second one."""
    own = {"resources": {"_default_": {"limits": {"rpm": "5k/min"}}}}
    entities: dict[str, object] = {f"team-{team:03d}": own for team in range(PARENTS)}
    if moved:
        entities["team-000"] = {**own, "parent": "team-001"}
    names = [*TIERS]
    for number in range(PARENTS * CHILDREN):
        team, tier = number // CHILDREN, names[number % len(names)]
        entities[f"key-{number:04d}"] = {"parent": f"team-{team:03d}", "cascade": True, "tier": tier}
    tiers = {
        tier: {"resources": {"_default_": {"limits": {"rpm": {"capacity": rpm}}}}}
        for tier, rpm in {**TIERS, "gold": gold}.items()
    }
    return LimitsManifest.from_dict({"namespace": NAMESPACE, "tiers": tiers, "entities": entities})


def _requests() -> Iterator[tuple[str, list[Request]]]:
    yield "plan", [Request.of("plan", tree())]
    yield "first apply", [Request.of("apply", tree())]
    yield "change of a tier", [Request.of("apply", tree(gold=2_000))]
    yield "move of a parent with 25 children", [Request.of("apply", tree(gold=2_000, moved=True))]
    yield "drift", [Request.of("diff", tree(gold=2_000, moved=True))]
    back = tree()
    yield "rollback", [Request("show", NAMESPACE, serial=2), Request.of("plan", back), Request.of("apply", back)]
    yield "export", [Request("export", NAMESPACE)]


def _rows(what: str, taken: list[Invocation]) -> list[Row]:
    counts = [(name, count) for each in taken for name, count in each.requests.items()]
    reads = sum(count for name, count in counts if name in READS)
    writes = sum(count for name, count in counts if name not in READS)
    rows = [
        Row(f"{what}: time", sum(each.seconds for each in taken), "s"),
        Row(f"{what}: requests that read", reads),
        Row(f"{what}: requests that write", writes),
    ]
    if not writes:
        return rows
    return [*rows, Row(f"{what}: units written", sum(each.units for each in taken))]


def _change_out_of_band(url: str) -> None:
    """Do what somebody does before the drift of the walk."""
    store = SyncDynamoDBStore(TABLE, endpoint_url=url, region=REGION)
    with SyncRepository.over(store, Options(stack=TABLE, namespace=NAMESPACE)) as repository:
        for team in range(0, PARENTS, 5):
            repository.set_limits(f"team-{team:03d}", [Limit.per_minute("rpm", 6_000)])
        for team in range(1, 50, 5):
            repository.delete_limits(f"team-{team:03d}")
        repository.set_limits("key-0042", [Limit.per_minute("rpm", 1)])
