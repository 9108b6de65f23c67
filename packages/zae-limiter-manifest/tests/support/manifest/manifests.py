"""Manifests, tables and tiers for tests: the design's own, and any that there may be.
Never an assertion."""

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from zae_limiter_manifest import (
    Address,
    Decl,
    EntityDecl,
    LimitDecl,
    LimitsManifest,
    LiveItem,
    ManagedSet,
    OnRefusedDecl,
    RecordDecl,
    ResourceDecl,
    SystemDecl,
    WeightsDecl,
    fingerprint,
)
from zae_limiter_manifest.declarations import TierDecl
from zae_limiter_manifest.metadata import Metadata
from zae_limiter_manifest.naming import in_nfc

DESIGN = (Path(__file__).parents[5] / "testdata" / "tenant-alpha.limits.yaml").read_text("utf-8")

RESOURCES = ["gpt-4", "a/b:1", "yes", "r.1", "/v1/chat", 'a"b\\', "n\u0303", "é", "日本"]
ENTITIES = ["1", "0x1f", "2024-01-01", "1:30", "u@x", "on", "auth0|123", "::1", "-#x", "'", "a/b", "é"]

namespaces = st.from_regex(r"\A[A-Za-z][A-Za-z0-9_.-]{0,9}\Z")


weights = st.dictionaries(
    st.sampled_from(["input", "cached", "cache_write", "output", "reasoning"]), st.integers(0, 10**12)
)


def _limit(
    capacity: int,
    more: int,
    refill: int,
    period: int,
    shadow: bool,  # noqa: FBT001
    prefetch_ms: int,
    weights: dict[str, int],
    alert: set[int],
) -> LimitDecl:
    burst = capacity + more
    most_ms = min(3_600_000, (burst - 1) * period * 1000 // refill)
    return LimitDecl(
        capacity,
        burst=burst,
        refill_amount=refill,
        refill_period=period,
        shadow=shadow,
        prefetch=min(prefetch_ms, most_ms) / 1000,
        weights=WeightsDecl(**{kind: millionths / 10**6 for kind, millionths in weights.items()}),
        alert=tuple(sorted(alert)),
    )


limits = st.builds(
    _limit,
    st.integers(1, 1000),
    st.integers(0, 3),
    st.integers(1, 10**15),
    st.integers(1, 3_153_600_000),
    st.booleans(),
    st.just(0) | st.integers(0, 3_600_000),
    st.just({}) | weights,
    st.sets(st.integers(1, 100), max_size=5),
) | st.builds(LimitDecl, st.integers(1, 10**15))
calendar_limits = st.builds(
    LimitDecl,
    st.integers(0, 1000),
    window=st.sampled_from(["day", "week", "month", "0 6 * * MON"]),
    timezone=st.sampled_from(["UTC", "Europe/Berlin"]),
    shadow=st.booleans(),
    alert=st.sampled_from([(), (80,), (80, 95)]),
) | st.builds(LimitDecl, st.integers(0, 1000), kind=st.just("total"))
limit_maps = st.dictionaries(st.sampled_from(["rpm", "tpm", "on", "null", "a.b"]), limits | calendar_limits, min_size=1)
policies = st.none() | st.builds(
    OnRefusedDecl,
    wait=st.sampled_from([0, 2, 0.001, 86_400]),
    overflow=st.none() | st.sampled_from(RESOURCES),
)
SWITCHES: list[dict[str, Any]] = [
    {"disabled": True, "cascade": False, "reason": "unpaid"},
    {"disabled": False, "bypass": True, "reason": "a: b #c"},
    {"cascade": True},
    {"cascade": "inherit", "bypass": False},
]
resources = (
    st.builds(ResourceDecl, limit_maps, policies)
    | st.builds(
        lambda limits, policy, switches: ResourceDecl(limits, policy, **switches),
        limit_maps,
        policies,
        st.sampled_from(SWITCHES),
    )
    | st.sampled_from(SWITCHES).map(lambda switches: ResourceDecl(**switches))
    | st.builds(lambda limits: ResourceDecl(limits, extends=True), limit_maps)
    | st.just(ResourceDecl(unlimited=True))
)


def levels(
    resources: st.SearchStrategy[ResourceDecl], *names: str, least: int = 1, most: int = 2
) -> st.SearchStrategy[dict[str, ResourceDecl]]:
    """Levels by resource, one of `names` or another, of which none overflows to its own."""
    found = st.dictionaries(st.sampled_from([*names, *RESOURCES]), resources, min_size=least, max_size=most)
    return found.filter(lambda levels: not any(map(_overflows_to, levels.values(), levels)))


def _overflows_to(decl: ResourceDecl, resource: str) -> bool:
    return decl.on_refused is not None and decl.on_refused.overflow == in_nfc(resource)


systems = st.builds(
    lambda policy, limits, refused, switches: SystemDecl(policy, limits, refused, **switches),
    st.sampled_from([None, "allow", "block", "share"]),
    st.just({}) | limit_maps,
    policies,
    st.sampled_from([{}, *SWITCHES]),
).filter(lambda system: system != SystemDecl())
entities = st.builds(EntityDecl, levels(resources, "_default_"))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
metadata = st.builds(
    Metadata.of, st.dictionaries(texts.filter(bool), json_values, max_size=3) | st.just(dict[str, Any]())
)


tiers = st.just(dict[str, TierDecl]()) | st.dictionaries(
    st.sampled_from(["free", "gold", "on", "a.b-C_1"]),
    st.builds(TierDecl, levels(st.builds(ResourceDecl, limit_maps, policies), "_default_")),
    max_size=2,
)


@st.composite
def trees(draw: st.DrawFn, tiers: tuple[str, ...] = ()) -> dict[str, EntityDecl]:
    """Entities with limits, with places in a tree, with one of the tiers, or with several of these."""
    ids = draw(st.lists(st.sampled_from(ENTITIES), unique=True, max_size=4))
    places = {
        each: draw(st.lists(st.sampled_from(ids[:number]), unique=True)) if number else []
        for number, each in enumerate(ids)
    }
    above = {parent for parents in places.values() for parent in parents}
    found = {}
    for each, parents in places.items():
        own = draw(entities).resources if draw(st.booleans()) else {}
        said = draw(st.sampled_from([None, False])) if own and each not in above else None
        found[each] = EntityDecl(
            own,
            parents=tuple(parents),
            cascade=draw(st.booleans()) if parents else said,
            name=draw(st.none() | texts),
            metadata=draw(metadata),
            tier=draw(st.sampled_from([None, *tiers])),
        )
    return found


manifests = tiers.flatmap(
    lambda tiers: st.builds(
        LimitsManifest,
        namespaces,
        system=st.none() | systems,
        resources=levels(resources, least=0, most=3),
        tiers=st.just(tiers),
        entities=st.dictionaries(st.sampled_from(ENTITIES), entities, max_size=3) | trees(tuple(tiers)),
    )
)


records = st.builds(RecordDecl, name=texts)


@st.composite
def tables(draw: st.DrawFn, manifest: LimitsManifest) -> dict[Address, LiveItem]:
    """What may stand in a table beside a manifest: as applied, changed by hand, gone, and what the manifest has not."""
    others = draw(manifests)
    stands = {**dict(others.declared()), **dict(manifest.declared())}
    table = {}
    for address, decl in stands.items():
        made = draw(st.sampled_from(["written", "by hand", "changed", "absent"]))
        if made == "written":
            table[address] = written(decl)
        elif made == "by hand":
            table[address] = LiveItem(decl)
        elif made == "changed":
            others_there: st.SearchStrategy[Decl] = systems if address.level == "system" else resources
            table[address] = LiveItem(draw(records if address.is_record else others_there), fingerprint(decl))
    return table


@st.composite
def situations(draw: st.DrawFn) -> tuple[LimitsManifest, dict[Address, LiveItem], ManagedSet]:
    """A manifest, a table, and what was managed before: any part of either, and what is nowhere any more."""
    manifest = draw(manifests)
    table = draw(tables(manifest))
    candidates = [*table, *(address for address, _ in manifest.declared()), Address("gone"), Address("gone", "user-9")]
    return manifest, table, ManagedSet.of(draw(st.lists(st.sampled_from(candidates))))


def written(decl: Decl) -> LiveItem:
    """As a provisioner leaves it."""
    return LiveItem(decl, fingerprint(decl))


def applied(manifest: LimitsManifest) -> dict[Address, LiveItem]:
    """A table to which just this manifest was applied."""
    return {address: written(decl) for address, decl in manifest.declared()}


def resource(**capacities: int) -> ResourceDecl:
    """Limits by name and capacity."""
    return ResourceDecl({name: LimitDecl(capacity) for name, capacity in capacities.items()})


def manifest_of(resources: dict[str, ResourceDecl], **more: Any) -> LimitsManifest:
    """A manifest of `tenant-alpha` with these resources."""
    return LimitsManifest("tenant-alpha", resources=resources, **more)
