"""The plan of a history, drawn from its seed.

Lives here: chances and amounts; ``NETWORKS``, the conditions of a network by name. Never: what happens because of them
(world, callers).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from zae_limiter.flows.process.namespace_state import Settings
from zae_limiter.settings import SPLIT_ABOVE
from zae_limiter.values.limits import Limit

from . import kinds
from .kernel import EPOCH_MS
from .levels import PATTERNS
from .network import NetworkConditions
from .trees import BOTH_CASCADE, PAIR, Tree, drawn

HEALTHY = NetworkConditions()
FAULTY = NetworkConditions(slow=0.05, throttled=0.05, refused=0.01, lost_before=0.02, lost_after=0.03, late=0.01)
VERY_FAULTY = NetworkConditions(slow=0.2, throttled=0.1, refused=0.03, lost_before=0.08, lost_after=0.12, late=0.04)
FAR = NetworkConditions(typical_us=60_000)
SLOW = NetworkConditions(typical_us=20_000, slow=0.1)
STARVED = NetworkConditions(typical_us=20_000, slow=0.3)
FAILING = replace(FAULTY, failing=0.05)
VERY_FAILING = replace(VERY_FAULTY, failing=0.25)
INSTANT = NetworkConditions(typical_us=0)
INSTANT_FAULTY = replace(FAULTY, typical_us=0)
GIVEN, STORED, DEFAULTS = 1, 2, 3  # where the limits of a deploy are: in the calls, at a level, or in default limits
OVERFLOW = "credits"  # the resource that serves calls which another one has refused
RESOURCES = ("gpt", *(f"model-{number}" for number in range(1, 30)))
ENTITIES = ("parent", "child-a", "child-b", "single")
PERIODS = (1, 1, 2, 60, 315_360_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One kind of history; ``limits`` are the versions of the config, of which several live at once.

    ``of_parent``: limits of the parent's own, which stay; those who ask for its children wait for these. ``of_spent``:
    those of ``child-a`` alone, which uses them up: nobody may be refused for what its calls give back. ``shards``: of
    the parent's bucket, before anybody comes. ``busy``: bodies of leases consume, adjust, fail. ``prefetching``: the
    chance that a limit may be prefetched. ``tree`` has everybody, with who is above; ``moves``: how often somebody gets
    other parents; ``draws``: the chance that a call names further buckets. ``overflows``: the chance that a refused
    call goes on to ``credits``, which has the limits ``of_overflow``; first, from ``early`` % on.
    ``switches``: how often somebody changes one.
    ``weighs``: bodies settle what a model used. ``streams``: the chance that a body is a stream, which takes piece by
    piece. ``scheduled``: the limits that have schedules. ``signed``: writes have
    tokens, as over DynamoDB. ``outages``: how often the table is away for those who go by their shares; ``cut_off``:
    the chance that it is away for some processes alone. ``deploys``: every process is replaced, by one whose limits are
    others: those of its calls (1), those stored (2), or its default limits (3). ``modes``: changed levels may be
    unlimited, or extend the next one. ``patterns``: those of resources that are given limits, other ones, and none.
    """

    processes: int
    callers: int
    entities: tuple[str, ...]
    resources: tuple[str, ...] = RESOURCES[:1]
    network: NetworkConditions
    settings: Settings
    limits: tuple[tuple[Limit, ...], ...]
    skew_ms: int = 0
    one_by_one: bool = False
    span_us: int = 3_000_000
    idle: float = 0.0
    changes: int = 0
    crashes: int = 0
    expiries: int = 0
    conflicting: float = 0.0
    cancelled: float = 0.0
    bursts: float = 0.0
    checks: float = 0.0
    failing: float = 0.0
    allowing: float = 0.0
    long_work: float = 0.0
    splits: int = 0
    merges: int = 0
    wrong_clocks: bool = False
    wrong_dates: float = 0.0
    disturbances: int = 0
    deletions: int = 0
    overrides: int = 0
    waiting: float = 0.0
    shadows: float = 0.0
    shadow_processes: float = 0.0
    prefetching: float = 0.0
    suspensions: int = 0
    forks: int = 0
    outages: int = 0
    cut_off: float = 0.0
    deploys: int = 0
    of_parent: tuple[Limit, ...] = ()
    of_spent: tuple[Limit, ...] = ()
    shards: int = 1
    amounts: tuple[int, ...] = (0, 1, 1, 1, 2, 3, 9)
    max_waits: tuple[float, ...] = (0.05, 1.0, 30.0)
    busy: bool = True
    tree: Tree = field(default_factory=lambda: PAIR)
    moves: int = 0
    draws: float = 0.0
    overflows: float = 0.0
    of_overflow: tuple[Limit, ...] = ()
    early: int = 0
    switches: int = 0
    weighs: bool = False
    streams: float = 0.0
    signed: bool = False
    scheduled: tuple[kinds.Scheduled, ...] = ()
    modes: bool = False
    patterns: tuple[str, ...] = ()
    epoch_ms: int = EPOCH_MS

    @property
    def faultless(self) -> bool:
        """Whether every request is answered."""
        return self.network in {HEALTHY, FAR, SLOW, STARVED, INSTANT} and not self.outages

    @property
    def lossless(self) -> bool:
        """Whether one process is alone and nothing ever goes wrong: then not a millitoken may be lost.

        A split is made beside the queue of its shard: it looks like another process. So does a bucket that is
        remembered anew while a write of it is under way.
        """
        splits = self.splits or self.shards > 1 or (self.settings.split_above or SPLIT_ABOVE) < SPLIT_ABOVE
        troubles = (
            self.crashes
            or self.forks
            or splits
            or self.merges
            or self.disturbances
            or self.deletions
            or self.forgets_buckets
        )
        return (
            self.processes == 1
            and not self.deploys
            and self.network in {HEALTHY, INSTANT}
            and not troubles
            and not self.outages
        )

    @property
    def forgets_buckets(self) -> bool:
        """Whether a process may forget what it knows of a bucket."""
        return self.settings.buckets_remembered < Settings().buckets_remembered

    @property
    def forgets_no_refusal(self) -> bool:
        """Whether each refusal is counted, or still waits for a write at the end."""
        return self.faultless and not self.crashes and not self.forgets_buckets

    @property
    def keeps_order(self) -> bool:
        """Whether callers of a process that wait for the same tokens get them in the order in which they came.

        On a bucket of several shards a caller that one shard refuses may be overtaken on another one.
        """
        splits = self.splits or (self.settings.split_above or SPLIT_ABOVE) < SPLIT_ABOVE
        odd = splits or self.forgets_buckets or self.wrong_clocks or self.shards > 1
        return self.certain and not odd

    @property
    def certain(self) -> bool:
        """Whether every caller can know at the end what he holds."""
        troubles = (
            self.crashes,
            self.changes,
            self.expiries,
            self.conflicting,
            self.disturbances,
            self.deletions,
            self.overrides,
            self.moves,
            self.switches,
            self.deploys,
        )
        return self.faultless and not any(troubles)


NETWORKS = {
    "healthy": HEALTHY,
    "faulty": FAULTY,
    "failing": FAILING,
    "very-faulty": VERY_FAULTY,
    "far": FAR,
    "slow": SLOW,
    "starved": STARVED,
    "instant": INSTANT,
    "instant-faulty": INSTANT_FAULTY,
}


def changed(plan: Plan, changes: Mapping[str, str]) -> Plan:
    """The plan with fields changed by name, ``callers=3``; others of which there are many are cut to so many."""
    for name, text in changes.items():
        if name == "scenario":
            continue
        if name == "network":
            plan = replace(plan, network=NETWORKS[text])
        elif name == "shadows":
            limits = tuple(tuple(replace(each, shadow=False) for each in version) for version in plan.limits)
            plan = replace(plan, shadows=float(text), limits=limits)
        elif name == "prefetching":
            limits = tuple(tuple(replace(each, prefetch=0.0) for each in version) for version in plan.limits)
            plan = replace(plan, prefetching=float(text), limits=limits)
        elif name in {"limits", "entities", "resources"}:
            plan = replace(plan, **{name: getattr(plan, name)[: int(text)]})
        else:
            plan = replace(plan, **{name: type(getattr(plan, name))(float(text))})
    return plan


def planned(rng: Random, changes: Mapping[str, str]) -> Plan:
    """The plan that a seed draws, of any kind or of the ``scenario`` that the changes name; then changed by them."""
    return changed(SCENARIOS[changes.get("scenario", "any")](rng), changes)


def draw(rng: Random) -> Plan:
    """A plan: one of several kinds of trouble, or of none."""
    kind = rng.choice(
        (_single_process, _faultless, _crowd, _expiring, _cold_start, _cold_start, _mixed, _mixed, _mixed)
    )
    return _with_shadows(kind(rng), rng) if rng.random() < 0.4 else kind(rng)


def _prefetch(rng: Random) -> Plan:
    """Limits that a process may prefetch, some of them in shadow."""
    plan = _prefetched(rng)
    return _with_shadows(plan, rng) if rng.random() < 0.2 else plan


def _with_shadows(plan: Plan, rng: Random) -> Plan:
    """Some limits of each version of the config are shadow limits, or some processes are; one version enforces them."""
    shadows = rng.choice((0.0, 0.5, 0.5, 1.0))
    versions = [tuple(replace(each, shadow=rng.random() < shadows) for each in limits) for limits in plan.limits]
    enforced = tuple(replace(each, shadow=False) for each in versions[0])
    return replace(
        plan,
        shadows=shadows,
        shadow_processes=rng.choice((0.0, 0.0, 0.5)) if shadows else 0.5,
        limits=(versions[0], enforced, *versions[2:]),
    )


def _single_process(rng: Random) -> Plan:
    """One process and no fault: exact to the millitoken."""
    return replace(_mixed(rng), processes=1, network=HEALTHY, one_by_one=rng.random() < 0.5, crashes=0)


def _faultless(rng: Random) -> Plan:
    """Several processes and no fault: each caller knows what it holds."""
    network = rng.choice((HEALTHY, SLOW))
    plan = replace(
        _mixed(rng),
        network=network,
        changes=0,
        crashes=0,
        expiries=0,
        conflicting=0.0,
        disturbances=0,
        deletions=0,
        overrides=0,
    )
    return replace(plan, one_by_one=rng.random() < 0.3)


def _crowd(rng: Random) -> Plan:
    """Many who wait for the tokens of few buckets, which have one shard."""
    plan = _faultless(rng)
    settings = replace(plan.settings, split_above=SPLIT_ABOVE, buckets_remembered=10_000)
    plan = replace(plan, settings=settings, splits=0, wrong_clocks=False, waiting=0.9, bursts=0.5, one_by_one=False)
    dice = rng.random()
    if dice < 0.3:
        return replace(plan, network=INSTANT)
    return _family(plan, rng) if dice > 0.7 else plan


def _family(plan: Plan, rng: Random) -> Plan:
    """Many in several processes, who wait for tokens of a parent that has fewer than its children."""
    return replace(
        plan,
        processes=rng.randint(2, 4),
        callers=rng.randint(60, 100),
        entities=("child-a",),
        network=rng.choice((HEALTHY, SLOW, STARVED, STARVED)),
        limits=((Limit.per_second("rpm", rng.choice((20, 100))),),) * 4,
        of_parent=(Limit.custom("rpm", 9, refill_amount=rng.choice((5, 10, 20)), refill_period=1),),
        span_us=rng.choice((1_000_000, 5_000_000)),
        idle=0.0,
        cancelled=rng.choice((0.0, 0.1)),
        failing=0.0,
        waiting=1.0,
    )


def _many_shards(rng: Random) -> Plan:
    """A crowd that waits for the tokens of a parent, of which each of many shards has few."""
    return Plan(
        processes=rng.randint(1, 3),
        callers=rng.randint(150, 250),
        entities=("child-a", "child-b")[: rng.randint(1, 2)],
        network=rng.choice((HEALTHY, FAR, SLOW)),
        settings=Settings(),
        limits=((Limit.per_second("rpm", 10_000),),) * 4,
        of_parent=(Limit.per_second("rpm", 80),),
        shards=rng.choice((16, 32, 64)),
        amounts=rng.choice(((1,), (1, 2), (2,))),
        max_waits=(30.0,),
        busy=False,
        span_us=rng.choice((100_000, 1_000_000)),
        waiting=1.0,
    )


def _prefetched(rng: Random) -> Plan:
    """Many who come to few buckets, whose limits let a process prefetch tokens."""
    kind = rng.choice((_single_process, _faultless, _faultless, _mixed, _mixed, _expiring))
    plan, prefetching = kind(rng), rng.choice((0.6, 1.0, 1.0))
    splits = plan.splits or (plan.settings.split_above or SPLIT_ABOVE) < SPLIT_ABOVE
    callers = rng.choice((30, 40, 40, 150) if not splits or rng.random() < 0.05 else (30, 60))  # most find as much
    names = rng.choice((("rpm",), ("rpm",), ("rpm", "tpm")))
    limits = [tuple(_prefetched_limit(rng, name, prefetching) for name in names) for _ in range(4)]
    return replace(
        plan,
        processes=min(plan.processes, rng.randint(1, 3)),
        callers=callers,
        entities=plan.entities[: rng.choice((1, 1, 2))],
        limits=tuple(limits),
        of_parent=(_prefetched_limit(rng, "rpm", 1.0),) if rng.random() < 0.3 else (),
        one_by_one=False,
        span_us=rng.choice((1_000_000, 5_000_000, 5_000_000, 20_000_000)),
        idle=rng.choice((0.0, 0.0, 0.02)),
        conflicting=plan.conflicting and 0.1,
        failing=rng.choice((0.0, 0.1)),
        bursts=rng.choice((0.0, 0.2)),
        cancelled=rng.choice((0.0, 0.0, 0.1)),
        prefetching=prefetching,
        suspensions=0 if plan.wrong_clocks else rng.choice((0, 0, 2, 6)),
        forks=rng.choice((0, 0, 0, 2)),
        amounts=rng.choice(((0, 1, 1, 1, 2), (1,), (1, 2, 9))),
    )


def _streams(rng: Random) -> Plan:
    """Streams that take their tokens piece by piece: all else as with any kind, or with all kinds mixed."""
    plan = _all_kinds(rng) if rng.random() < 0.3 else rng.choice((_single_process, _faultless, _expiring, _mixed))(rng)
    return replace(plan, busy=True, streams=rng.choice((0.3, 0.7, 1.0)), failing=rng.choice((0.0, 0.1)))


def _calendar(rng: Random) -> Plan:
    """Quotas of a minute, which ends while callers are there, and totals: all else as with token buckets."""
    kind = rng.choice((_single_process, _faultless, _expiring, _mixed, _mixed))
    plan, window = kind(rng), rng.choice(("minute", "minute", "minute", ""))
    span_us = rng.choice((1_000_000, 5_000_000, 5_000_000, 90_000_000))
    names = rng.choice((("rpm",), ("rpm",), ("rpm", "tpm")))
    return replace(
        plan,
        limits=tuple(tuple(_calendar_limit(rng, name, window) for name in names) for _ in range(4)),
        waiting=0.0,
        span_us=span_us,
        epoch_ms=EPOCH_MS - EPOCH_MS % 60_000 - rng.randrange(1, span_us // 1_000),
    )


def _first_use(rng: Random) -> Plan:
    """Windows that begin with the first use, and end while callers are there: all else as with token buckets."""
    kind = rng.choice((_single_process, _faultless, _expiring, _mixed, _mixed))
    names = rng.choice((("rpm",), ("rpm",), ("rpm", "tpm")))
    return replace(
        kind(rng),
        limits=tuple(tuple(_first_use_limit(rng, name) for name in names) for _ in range(4)),
        waiting=0.0,
        splits=0,
        span_us=rng.choice((1_000_000, 5_000_000, 5_000_000, 20_000_000)),
    )


def _quotas(rng: Random) -> Plan:
    """Quotas that are changed under load, to other amounts, windows and kinds, and back."""
    kind = rng.choice((_single_process, _faultless, _faultless, _mixed, _mixed, _mixed))
    plan, span_us = kind(rng), rng.choice((1_000_000, 5_000_000, 20_000_000, 90_000_000))
    names = rng.choice((("rpm",), ("rpm",), ("rpm", "tpm")))
    made = rng.choice(((kinds.calendar,), (kinds.first_use,), (kinds.total,), kinds.QUOTAS, kinds.QUOTAS))
    whole = kinds.first_use in made
    limits = tuple(tuple(rng.choice(made)(rng, name) for name in names) for _ in range(4))
    if kind is not _faultless:
        plan = replace(plan, changes=rng.choice((2, 6, 12)), conflicting=rng.choice((0.0, 0.0, 0.3, 0.5)))
    return replace(
        plan,
        processes=min(plan.processes, 3),
        callers=rng.choice((20, 40, 80)),
        entities=plan.entities[: rng.choice((1, 1, 2))],
        limits=limits,
        waiting=0.0,
        splits=0 if whole else rng.choice((0, plan.splits, 3)),
        merges=0 if whole else rng.choice((0, plan.merges, 2)),
        overrides=rng.choice((0, 0, 3)) if plan.changes else 0,
        failing=rng.choice((0.0, 0.2, 0.5)),
        one_by_one=False,
        span_us=span_us,
        epoch_ms=EPOCH_MS - EPOCH_MS % 60_000 - rng.randrange(1, span_us // 1_000),
    )


def _first_use_limit(rng: Random, name: str) -> Limit:
    return Limit.quota(name, rng.choice((1, 3, 10, 10, 40)), window=rng.choice((1, 1, 2, 5)))


def _calendar_limit(rng: Random, name: str, window: str) -> Limit:
    capacity = rng.choice((0, 1, 3, 10, 10, 40))
    burst = capacity * rng.choice((1, 1, 2)) + (capacity > 0) * rng.choice((0, 0, 1))
    return Limit.custom(name, capacity, burst=burst, kind="calendar" if window else "total", window=window)


def _surges(rng: Random) -> Plan:
    """Many who come at one instant, and again before what is held has ended, when the bucket has filled behind it."""
    callers = rng.choice((100, 200))
    refill, prefetch, more = rng.choice((2, 5, 10)), rng.choice((1.0, 5.0, 5.0)), rng.choice((5, 20))
    burst = round(2 * refill * prefetch) + more
    limit = Limit.custom("rpm", burst, refill_amount=refill, refill_period=1, prefetch=prefetch)
    return Plan(
        processes=rng.choice((1, 1, 2)),
        callers=callers,
        entities=("single",),
        network=rng.choice((HEALTHY, HEALTHY, FAULTY)),
        settings=Settings(),
        limits=((limit,),) * 4,
        amounts=rng.choice(((1,), (1, 1, 9))),
        busy=False,
        bursts=rng.choice((0.8, 0.9)),
        span_us=round(callers * 1_000_000 * prefetch * rng.choice((0.05, 0.15, 0.3))),
        prefetching=1.0,
        suspensions=rng.choice((0, 2)),
    )


def _behind_splits(rng: Random) -> Plan:
    """Calls on a path of which only the parent is prefetched, while its bucket splits; many give all back behind the
    split, when what was held has ended.
    """
    prefetch, (refill, period) = rng.choice((0.5, 1.0, 1.0, 5.0)), rng.choice(((1, 60), (1, 1), (10, 1)))
    held = Limit.custom("rpm", rng.choice((300, 1000)), refill_amount=refill, refill_period=period, prefetch=prefetch)
    return Plan(
        processes=rng.choice((1, 1, 2)),
        callers=rng.choice((60, 100)),
        entities=("parent", *rng.choice((("child-a",), ("child-a", "child-b")))),
        network=rng.choice((HEALTHY, HEALTHY, FAR, FAULTY)),
        settings=Settings(split_above=rng.choice((5, 5, 30, SPLIT_ABOVE))),
        limits=((Limit.custom("rpm", 5000, refill_amount=1, refill_period=60),),) * 4,
        of_parent=(held,),
        amounts=rng.choice(((1,), (1, 2, 4), (1, 1, 1, 30))),
        span_us=rng.choice((1_000_000, 3_000_000, 10_000_000)),
        splits=rng.choice((1, 3)),
        long_work=0.2,
        failing=rng.choice((0.1, 0.4)),
        prefetching=1.0,
    )


def _merging(rng: Random) -> Plan:
    """Buckets that split and merge again, while there is every other trouble."""
    kind = rng.choice((_mixed, _mixed, _mixed, _faultless, _prefetched, _behind_splits, _behind_splits, _all_kinds))
    plan = kind(rng)
    while any(limit.kind == "first_use" for limits in plan.limits for limit in limits):  # it does not split
        plan = kind(rng)
    plan = replace(plan, splits=max(plan.splits, rng.choice((2, 4, 8))), merges=rng.choice((1, 3, 8, 20)))
    return replace(plan, entities=plan.entities[: rng.choice((1, 1, 2, 4))])


def _siblings(rng: Random) -> Plan:
    """Keys of a parent that has few tokens, of which one has used up its own and goes on calling."""
    few, slow = rng.choice((2, 3, 10)), rng.choice((60, 3600))
    return Plan(
        processes=rng.choice((1, 1, 1, 3)),
        callers=rng.choice((60, 120)),
        entities=("child-a", "child-b"),
        network=rng.choice((HEALTHY, HEALTHY, FAR, INSTANT)),
        settings=Settings(staleness_ms=rng.choice((0, 100, 1000, 1000))),
        limits=((Limit.custom("rpm", 1000, refill_amount=1, refill_period=60),),) * 4,
        of_parent=(Limit.custom("rpm", few, refill_amount=1, refill_period=slow),),
        of_spent=(Limit.custom("rpm", rng.choice((1, 2)), refill_amount=1, refill_period=rng.choice((1, 60))),),
        tree=BOTH_CASCADE,
        amounts=rng.choice(((1,), (1, 2))),
        span_us=rng.choice((300_000, 3_000_000, 60_000_000)),
        bursts=rng.choice((0.0, 0.3)),
        cancelled=rng.choice((0.0, 0.0, 0.1)),
        waiting=rng.choice((0.0, 0.0, 0.3)),
        max_waits=(0.05, 1.0),
        failing=rng.choice((0.5, 0.9)),
    )


def _paths(rng: Random) -> Plan:
    """Entities with several parents, on many levels, of which some move."""
    kind = rng.choice((_single_process, _faultless, _faultless, _cold_start, _mixed, _mixed, _expiring, _prefetched))
    plan, tree = kind(rng), drawn(rng)
    everybody = [*tree]
    return replace(
        plan,
        tree=tree,
        entities=(everybody[-1], *rng.sample(everybody, rng.randint(0, 3))),
        callers=min(plan.callers, 40),
        of_parent=(),
        moves=rng.choice((0, 0, 0, 3)),
        draws=(draws := rng.choice((0.0, 0.0, 0.4, 0.9))),
        resources=RESOURCES[:2] if draws else plan.resources,
    )


def _all_kinds(rng: Random) -> Plan:
    """Limits of all kinds together, with calls on many buckets, and every trouble that a kind can stand."""
    kind = rng.choice((_single_process, _faultless, _faultless, _faultless, _cold_start, _mixed, _mixed, _expiring))
    plan, tree = kind(rng), drawn(rng)
    everybody, span_us = [*tree], rng.choice((1_000_000, 3_000_000, 20_000_000, 90_000_000))
    boundary_ms = EPOCH_MS - EPOCH_MS % kinds.MINUTE_MS
    plan = replace(
        plan,
        processes=min(plan.processes, 3),
        callers=rng.randint(6, 16),
        settings=replace(
            plan.settings,
            config_ttl_ms=rng.choice((0, 2_000, 60_000, 60_000)),
            buckets_remembered=rng.choice((10_000,) * 9 + (5,)),  # to read eight buckets again and again costs time
        ),
        tree=tree,
        entities=tuple(
            dict.fromkeys((rng.choice((everybody[-1], *everybody)), *rng.sample(everybody, rng.randint(0, 1))))
        ),
        of_parent=(),
        draws=(draws := rng.choice((0.0, 0.3, 0.8))),
        resources=RESOURCES[:2] if draws else RESOURCES[:1],
        waiting=rng.choice((0.0, 0.0, 0.5)),
        splits=min(plan.splits, 1),
        moves=rng.choice((0, 0, 0, 0, 2)),
        expiries=min(plan.expiries, 2),
        overrides=min(plan.overrides, 2),
        span_us=span_us,
        epoch_ms=boundary_ms - rng.randrange(1, span_us // 1_000),
    )
    plan = _with_kinds(plan, rng, boundary_ms)
    if rng.random() < 0.25:
        instead = tuple(rng.choice((kinds.total, kinds.token_bucket))(rng, name) for name in ("rpm", "tpm"))
        plan = replace(plan, overflows=rng.choice((0.5, 1.0)), of_overflow=instead[: rng.randint(1, 2)])
        plan = replace(plan, early=(0, 5, 30, 5, 70)[plan.epoch_ms % 5])
    return plan


def _with_kinds(plan: Plan, rng: Random, boundary_ms: int) -> Plan:
    """The plan with limits of several kinds, and without the troubles that these cannot stand."""
    second, has_slots, dice = rng.choice(kinds.SECOND_KINDS), rng.random() < 0.6, rng.random()
    names = rng.choice((("rpm",), ("tpm",), ("rpm", "tpm"), ("rpm", "tpm"), ("rpm", "tpm")))
    slots = (kinds.slots(rng),) if has_slots else ()
    scheduled = _scheduled(rng, "rpm", boundary_ms) if dice < 0.3 and "rpm" in names else ()
    more, splits = [each.limit for each in scheduled], 0
    if scheduled and rng.random() < 0.5:  # slots and windows of a first use do not split
        slots, second, splits = (), rng.choice((kinds.calendar, kinds.total, kinds.weighted)), rng.choice((2, 4, 8))

    def version() -> tuple[Limit, ...]:
        rpm = more.pop(0) if more else kinds.token_bucket(rng, "rpm")
        return (*(each for each in (rpm, second(rng, "tpm")) if each.name in names), *slots)

    plan = replace(plan, limits=tuple(version() for _ in range(4)), weighs="tpm" in names and second is kinds.weighted)
    plan = replace(plan, splits=0 if second is kinds.first_use else splits or plan.splits)
    if scheduled:
        changes = rng.choice((0, 2, 6))
        plan = replace(plan, scheduled=scheduled, one_by_one=False, conflicting=0.0, changes=changes)
        plan = replace(plan, callers=rng.randint(10, 30), entities=plan.entities[:1] if splits else plan.entities)
    if slots:
        plan = _unmoved(plan)
    if rng.random() < 0.4:
        settings = replace(plan.settings, config_ttl_ms=rng.choice((0, 0, 2_000, 60_000)))  # or a wide one comes late
        plan = plan if scheduled else replace(_undisturbed(plan), splits=0)
        plan = replace(plan, switches=rng.choice((1, 3, 6)), expiries=0, settings=settings)
    return _told_prefetch(plan)


def _scheduled(rng: Random, name: str, boundary_ms: int) -> tuple[kinds.Scheduled, ...]:
    """A limit with a schedule, and what administrators make of it: another schedule, none, or another limit."""
    first = kinds.scheduled(rng, name, boundary_ms)
    found = [first]
    for _ in range(3):
        kind = rng.choice(("same", "other times", "no times", "other"))
        found.append(
            {
                "same": lambda: rng.choice(found),
                "other times": lambda: kinds.rescheduled(rng, first.limit, boundary_ms),
                "no times": lambda: kinds.Scheduled(replace(first.limit, schedule=()), ()),
                "other": lambda: kinds.scheduled(rng, name, boundary_ms),
            }[kind]()
        )
    return tuple(found)


def _unmoved(plan: Plan) -> Plan:
    """The plan without limits of calls, deletions by hand, and anchors and clocks that are far off."""
    return replace(plan, conflicting=0.0, disturbances=0, deletions=0, wrong_clocks=False, wrong_dates=0.0)


def _undisturbed(plan: Plan) -> Plan:
    """The plan without whatever else changes limits, anchors or clocks."""
    return replace(
        plan, changes=0, overrides=0, conflicting=0.0, disturbances=0, deletions=0, wrong_clocks=False, wrong_dates=0.0
    )


def _told_prefetch(plan: Plan) -> Plan:
    """The plan with its own word for whether limits are prefetched."""
    return replace(plan, prefetching=float(any(limit.prefetch for limits in plan.limits for limit in limits)))


def _outages(rng: Random) -> Plan:
    """Few processes with steady traffic, who lose the table and go on by their shares until it is back."""
    prefetching = rng.choice((0.0, 0.0, 0.0, 0.0, 0.0, 1.0))
    busy = not prefetching and rng.random() < 0.4
    names = rng.choice((("rpm",), ("rpm",), ("rpm",), ("rpm", "tpm")))
    limits = tuple(_shared_limit(rng, name, prefetching) for name in names)
    return Plan(
        processes=rng.randint(2, 4),
        callers=rng.randint(70, 140),
        entities=rng.choice((("single",), ("single",), ("child-a",), ("child-a", "single"), ("child-a", "child-b"))),
        network=rng.choice((HEALTHY, HEALTHY, HEALTHY, HEALTHY, FAR, FAULTY)),
        settings=Settings(),
        limits=(limits,) * 4,
        of_parent=(_shared_limit(rng, "rpm", prefetching),) if rng.random() < 0.5 else (),
        skew_ms=rng.choice((0, 0, 5, 50)),
        crashes=rng.choice((0, 0, 0, 1, 2)),
        suspensions=rng.choice((0, 0, 1, 3)),
        splits=rng.choice((0, 0, 0, 1, 3)),
        waiting=rng.choice((0.0, 0.0, 0.2)),
        failing=0.1 if busy else 0.0,
        amounts=rng.choice(((1,), (0, 1, 1, 2, 3, 5), (1, 2, 9))),
        max_waits=(0.05, 1.0, 5.0),
        busy=busy,
        prefetching=prefetching,
        outages=rng.choice((1, 1, 1, 2)),
        cut_off=rng.choice((0.0, 0.0, 0.0, 1.0)),
    )


def _shared_limit(rng: Random, name: str, prefetching: float) -> Limit:
    """A limit of which those who come use up all, or nearly all."""
    capacity, (refill, period) = rng.choice((10, 30, 90)), rng.choice(((1, 2), (1, 1), (2, 1), (10, 1)))
    prefetch = rng.choice((0.5, 2.0)) if rng.random() < prefetching else 0.0
    more = 2 * round(refill * prefetch / period) or rng.choice((0, 0, 20))
    return Limit.custom(
        name, capacity, burst=capacity + more, refill_amount=refill, refill_period=period, prefetch=prefetch
    )


def _prefetched_limit(rng: Random, name: str, prefetching: float) -> Limit:
    """A limit of some size, whose burst covers what is minted in the time of prefetch."""
    prefetch_ms = rng.choice((100, 300, 1_000, 2_000, 5_000)) if rng.random() < prefetching else 0
    refill, period = rng.choice((1, 10, 40, 100)), rng.choice((1, 1, 2, 60))
    minted = -(-refill * prefetch_ms // (1000 * period))
    burst = minted * rng.choice((1, 2, 2, 4)) + rng.choice((2, 10, 40, 200))
    capacity = rng.choice((burst, burst, 1 + burst // 2))
    limit = Limit.custom(
        name, capacity, burst=burst, refill_amount=refill, refill_period=period, prefetch=prefetch_ms / 1000
    )
    return limit if rng.random() < 0.95 else Limit.custom(name, 0)


def _cold_start(rng: Random) -> Plan:
    """Many buckets that are not there yet, whose first callers come at one instant, and give back at once."""
    plan = _faultless(rng) if rng.random() < 0.5 else _mixed(rng)
    return replace(
        plan,
        network=INSTANT if plan.network in {HEALTHY, SLOW} else INSTANT_FAULTY,
        processes=rng.randint(1, 3),
        callers=rng.randint(40, 80),
        entities=("child-a", *rng.sample(ENTITIES, rng.randint(0, 2))),
        resources=RESOURCES[: rng.choice((3, 30))],
        one_by_one=False,
        bursts=rng.choice((0.5, 0.7)),
        checks=rng.choice((0.2, 0.5)),
        failing=rng.choice((0.2, 0.7)),
    )


def _expiring(rng: Random) -> Plan:
    """Buckets expire while leases on them are open."""
    settings = replace(_settings(rng), ttl_multiplier=1, split_above=500)
    plan = replace(_mixed(rng), settings=settings, callers=rng.randint(5, 20), splits=0, crashes=0)
    return replace(plan, expiries=20, long_work=0.7, idle=0.3)


def _mixed(rng: Random) -> Plan:
    """Every kind of trouble is in about half of these."""
    plan = Plan(
        processes=rng.randint(2, 4),
        callers=rng.randint(20, 80),
        entities=tuple(rng.sample(ENTITIES, rng.randint(1, 4))),
        network=rng.choice((HEALTHY, SLOW, FAULTY, FAULTY, VERY_FAULTY)),
        settings=_settings(rng),
        limits=tuple(_limits(rng) for _ in range(4)),
        skew_ms=rng.choice((0, 0, 5, 50)),
        span_us=rng.choice((100_000, 1_000_000, 5_000_000)),
        idle=rng.choice((0.0, 0.0, 0.1)),
        changes=rng.choice((0, 0, 2, 6)),
        crashes=rng.choice((0, 0, 1, 3)),
        expiries=rng.choice((0, 4, 10)),
        conflicting=rng.choice((0.0, 0.0, 0.1, 0.5)),
        cancelled=rng.choice((0.0, 0.1, 0.3)),
        allowing=rng.choice((0.0, 0.5)),
        long_work=rng.choice((0.0, 0.1)),
        splits=rng.choice((0, 0, 1, 3, 8)),
        wrong_clocks=rng.random() < 0.2,
        disturbances=rng.choice((0, 0, 0, 0, 2)),
        deletions=rng.choice((0, 0, 0, 0, 4)),
        waiting=rng.choice((0.0, 0.0, 0.3, 0.9)),
        overrides=rng.choice((0, 0, 0, 3, 8)),
    )
    return replace(plan, wrong_dates=rng.choice((0.0, 0.05, 0.3))) if plan.wrong_clocks else plan


def _settings(rng: Random) -> Settings:
    return Settings(
        staleness_ms=rng.choice((0, 100, 1000)),
        config_ttl_ms=rng.choice((0, 300, 2000, 60_000)),
        ttl_multiplier=rng.choice((0, 1, 1, 7)),
        split_above=rng.choice((500, 500, 30, 5, 1)),
        buckets_remembered=rng.choice((10_000, 10_000, 5, 1)),
    )


def _limits(rng: Random) -> tuple[Limit, ...]:
    names = rng.choice((("rpm",), ("rpm", "tpm"), ("rpm", "tpm"), ("tpm",)))
    return tuple(_limit(rng, name) for name in names)


def _limit(rng: Random, name: str) -> Limit:
    capacity = rng.choice((0, 1, 3, 3, 10, 10, 40, 40))
    return Limit.custom(
        name,
        capacity,
        burst=capacity * rng.choice((1, 1, 2)),
        refill_amount=rng.choice((1, 3, 7, capacity or 1)),
        refill_period=rng.choice(PERIODS),
    )


def _deploys(rng: Random) -> Plan:
    """Few processes, replaced one after the other by others that pass other limits, or while the stored ones change."""
    deploys = rng.choice((GIVEN, GIVEN, STORED, DEFAULTS))
    return Plan(
        processes=rng.randint(1, 3),
        callers=rng.choice((20, 60, 120)),
        entities=rng.choice((("single",), ("single",), ("child-a",), ("child-a", "single"))),
        network=rng.choice((HEALTHY, HEALTHY, HEALTHY, FAR, SLOW, FAULTY)),
        settings=Settings(
            config_ttl_ms=rng.choice((2_000, 60_000, 60_000)),
            buckets_remembered=rng.choice((10_000, 10_000, 1)),
        ),
        limits=_deploy_limits(rng, given=deploys != STORED),
        skew_ms=rng.choice((0, 0, 50)),
        failing=rng.choice((0.0, 0.2)),
        waiting=rng.choice((0.0, 0.0, 0.2)),
        deploys=deploys,
    )


def _deploy_limits(rng: Random, *, given: bool) -> tuple[tuple[Limit, ...], ...]:
    """The limits of before and the newest, of which a call may bring some by names that the others lack."""
    names = rng.choice((("rpm",), ("rpm", "tpm")))
    others = rng.choice((names, names, ("rpm",), ("rpm", "tpm"))) if given else names
    old = tuple(_deploy_limit(rng, name, 0) for name in names)
    new = tuple(_deploy_limit(rng, name, 1) for name in others)
    return old, new, new, new


def _deploy_limit(rng: Random, name: str, more: int) -> Limit:
    capacity = rng.choice((3, 10, 40))
    refill, period = rng.choice((1, 7, capacity)), rng.choice((1, 2, 60))
    return Limit.custom(name, capacity, burst=capacity + more, refill_amount=refill, refill_period=period)


def _contended(rng: Random) -> Plan:
    """Few processes who write to one bucket near its ceiling, and give back: what fails now may hold in a moment."""
    capacity = rng.choice((3, 10, 20))
    limit = Limit.custom("rpm", capacity, refill_amount=rng.choice((1, 10, 50)), refill_period=1)
    return Plan(
        processes=rng.randint(2, 4),
        callers=rng.randint(60, 120),
        entities=("single",),
        network=VERY_FAULTY,
        settings=Settings(),
        limits=((limit,),) * 4,
        span_us=rng.choice((300_000, 1_000_000, 3_000_000)),
        failing=rng.choice((0.2, 0.7)),
        bursts=rng.choice((0.0, 0.3)),
    )


def _signed(rng: Random) -> Plan:
    """Answers are lost more often, and writes have tokens, by which they are sent again."""
    kind = rng.choice((_mixed, _mixed, _expiring, _prefetched, _all_kinds, _cold_start, _contended, _contended))
    plan = kind(rng)
    processes = rng.choice((plan.processes, plan.processes, 10))  # more than an item has slots
    network = (
        NetworkConditions(typical_us=0, failing=0.2)
        if not plan.network.typical_us
        else rng.choice((FAILING, VERY_FAILING))
    )
    return replace(plan, signed=True, processes=processes, network=network)


def _levels(rng: Random) -> Plan:
    """Levels that become unlimited, extend the next one, or replace it, while they are in use."""
    return replace(_mixed(rng), modes=True, changes=rng.choice((4, 12, 30)))


def _patterns(rng: Random) -> Plan:
    """Patterns of resources that get limits, extend shorter ones, and go, while the system's limits change as well."""
    patterns = rng.choice((PATTERNS, PATTERNS[:1], PATTERNS[1:]))
    changed = replace(_quotas(rng), shadows=0.0) if rng.random() < 0.4 else _mixed(rng)
    return replace(changed, modes=rng.random() < 0.7, patterns=patterns, changes=rng.choice((8, 20, 40)))


SCENARIOS: Mapping[str, Callable[[Random], Plan]] = {
    "any": draw,
    "prefetch": _prefetch,
    "surges": _surges,
    "streams": _streams,
    "splits": _behind_splits,
    "merges": _merging,
    "siblings": _siblings,
    "shards": _many_shards,
    "paths": _paths,
    "calendar": _calendar,
    "first-use": _first_use,
    "quotas": _quotas,
    "outages": _outages,
    "mixed": _all_kinds,
    "signed": _signed,
    "deploys": _deploys,
    "levels": _levels,
    "patterns": _patterns,
}
