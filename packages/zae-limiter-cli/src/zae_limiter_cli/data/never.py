"""Find limits that were never used, or never refused, in windows of usage.

The problem: usage is of buckets, and a limit is of a level that many buckets share. The choice: for each bucket with
usage the levels are composed as an acquire composes them, and what it used counts at the level that its limit is of.
Every config and the records of entities with usage are read, a hundred with a request. The price: where usage does not
say which of a bucket's limits refused, and several could, each of them ``may_have_refused``, and is listed apart;
and a refusal for which an ancestor was short, too, counts at the ancestor alone. A shadow limit refuses nothing.

Usage names a limit that refused by its entity alone. It is one of the bucket on the resource of the call, or of a draw:
of a bucket of the same entity elsewhere, which counts what it refused for others.

Levels are composed as they are now. So what buckets used of a stronger level may have been of a weaker one, whose limit
of that name is listed with it: it was the weaker one's until the stronger one was set.

No limit refused what a disable did. A run's budget is of no level, and left out.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from ..columns import say_columns
from ..paging import is_asked
from ..rates import amount, in_money, rate
from .places import ALL_RESOURCES, as_level, name_of, places_of

if TYPE_CHECKING:
    from zae_limiter import Limit, SyncRepository, UsageSnapshot
    from zae_limiter.values import Refuser
    from zae_limiter.values.provisioner import ConfigPlace, StoredConfig

ALL_RUNS: Final = "run:*"  # as usage names those that refused
Never = Literal["used", "refused"]


class _Bucket(NamedTuple):
    entity_id: str
    resource: str


@dataclass(slots=True)
class _Use:
    """What a bucket used by limit; how often it refused a call of its entity for a limit that is not named, and one of
    others, and how many of those because it was disabled; and whom it ``named``, with the counts. One without
    ``windows`` is named alone.
    """

    windows: int = 0
    consumed: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    refused_below: int = 0
    disabled_below: int = 0
    named: "Counter[Refuser]" = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class LimitUse:
    """A limit of a level, with the tokens used and the calls refused, over so many buckets; ``may_have_refused``: the
    calls that it or another limit of the bucket refused; ``used_of_stronger``: the tokens that buckets used of limits
    of its name that stronger levels have now.
    """

    place: "ConfigPlace"
    limit: "Limit"
    used: int
    refused: int
    buckets: int
    may_have_refused: int = 0
    used_of_stronger: int = 0

    def is_never(self, never: Never) -> bool:
        """Whether it was never used; or used, and never refused a call, as far as usage says."""
        return not self.used if never == "used" else bool(self.used) and not self.refused


def read_never(
    repository: "SyncRepository",
    entity_id: str | None,
    resource: str | None,
    snapshots: "Iterable[UsageSnapshot]",
    never: Never,
) -> list[LimitUse]:
    """Return the limits that were never used, or never refused, in the snapshots of an entity, of a resource, or of the
    namespace; those of the broadest levels first.
    """
    from zae_limiter.maintenance import SyncMaintenance

    maintenance = SyncMaintenance(repository)
    uses = _uses_of(snapshots)
    configs = maintenance.get_configs(maintenance.list_config_places(), skip_unreadable=True)
    records = maintenance.get_entity_records(sorted({each.entity_id for each in uses}), skip_unreadable=True)
    tiers = {entity_id: record.tier for entity_id, record in records.items()}
    patterns = maintenance.list_patterns()
    found = [each for each in _limit_uses(uses, configs, tiers, patterns) if _is_asked(each.place, entity_id, resource)]
    return sorted((each for each in found if each.is_never(never)), key=_rank)


def _uses_of(snapshots: "Iterable[UsageSnapshot]") -> dict[_Bucket, _Use]:
    from zae_limiter.values.run_budgets import within_of

    uses: dict[_Bucket, _Use] = {}
    for each in snapshots:
        if within_of(each.entity_id, each.resource) is not None:
            continue  # its limits are of no level
        use = uses.setdefault(_Bucket(each.entity_id, each.resource), _Use())
        use.windows += 1
        use.consumed.update(each.consumed)
        use.refused += max(0, each.total_refused - each.total_refused_below - sum(each.refused_by.values()))
        use.refused_below += each.total_refused_below
        limits = {who: count for who, count in each.refused_by.items() if not who.is_disabled}
        use.named.update({who: count for who, count in limits.items() if who.entity_id != ALL_RUNS})
        for refuser, count in each.refused_by.items():
            other = uses.setdefault(_Bucket(refuser.entity_id, each.resource), _Use())
            other.disabled_below += count if refuser.is_disabled and refuser.entity_id != each.entity_id else 0
    return uses


def _limit_uses(
    uses: Mapping[_Bucket, _Use],
    configs: "Mapping[ConfigPlace, StoredConfig]",
    tiers: Mapping[str, str | None],
    patterns: Sequence[str],
) -> Iterator[LimitUse]:
    used: Counter[tuple[ConfigPlace, str]] = Counter()
    refused, maybe, buckets, stronger = used.copy(), used.copy(), used.copy(), used.copy()
    places = {bucket: _places(bucket, tiers.get(bucket.entity_id), patterns) for bucket in uses}
    owners = {bucket: _owners(each, configs) for bucket, each in places.items()}
    by_name = _refused_by_name(uses, owners)
    for bucket, use in uses.items():
        suspects = [name for name, (_, limit) in owners[bucket].items() if not limit.shadow]
        unclear = use.refused + max(0, use.refused_below - use.disabled_below - sum(by_name.below[bucket].values()))
        for name, (place, _) in owners[bucket].items():
            key = place, name
            used[key] += max(0, use.consumed[name])
            refused[key] += by_name.own[bucket][name] + by_name.below[bucket][name]
            refused[key] += unclear if suspects == [name] else 0
            maybe[key] += unclear if name in suspects and len(suspects) > 1 else 0
            buckets[key] += 1 if use.windows else 0
        for name, (place, _) in owners[bucket].items() if len(places[bucket]) > 1 else ():
            for weaker in places[bucket].values():
                stronger[weaker, name] += max(0, use.consumed[name]) if weaker != place else 0
    for place, config in configs.items():
        for limit in config.said.limits:
            key = place, limit.name
            yield LimitUse(place, limit, used[key], refused[key], buckets[key], maybe[key], stronger[key])


class _ByName(NamedTuple):
    """Refusals by the bucket and the limit that was short: of calls of its own entity, and of others."""

    own: Mapping[_Bucket, Counter[str]]
    below: Mapping[_Bucket, Counter[str]]


def _refused_by_name(uses: Mapping[_Bucket, _Use], owners: Mapping[_Bucket, Mapping[str, object]]) -> _ByName:
    """Return the refusals whose limit is named, each at the bucket on the resource of the call if that has the limit;
    where it has not, or no usage, at those of the same entity that refused calls of others.
    """
    found = _ByName({each: Counter() for each in uses}, {each: Counter() for each in uses})
    elsewhere: dict[str, Counter[str]] = {}
    for asker, use in uses.items():
        for (entity_id, name), count in use.named.items():
            bucket = _Bucket(entity_id, asker.resource)
            if name in owners[bucket]:
                (found.own if bucket == asker else found.below)[bucket][name] += count
            if name not in owners[bucket] or not uses[bucket].windows:
                elsewhere.setdefault(entity_id, Counter())[name] += count
    for bucket, use in uses.items() if elsewhere else ():
        for name, count in elsewhere.get(bucket.entity_id, Counter[str]()).items() if use.refused_below else ():
            if name in owners[bucket]:
                found.below[bucket][name] += min(count, use.refused_below)
    return found


def _places(bucket: _Bucket, tier: str | None, patterns: Sequence[str]) -> "dict[str, ConfigPlace]":
    from zae_limiter.values.patterns import matching

    return places_of(bucket.entity_id, bucket.resource, tier, matching(patterns, bucket.resource))


def _owners(
    places: "Mapping[str, ConfigPlace]", configs: "Mapping[ConfigPlace, StoredConfig]"
) -> "dict[str, tuple[ConfigPlace, Limit]]":
    """Return the limits of a bucket by name, each with its place."""
    from zae_limiter.values.resolution import SAYS_NOTHING, compose

    said = {source: configs[place].said if place in configs else SAYS_NOTHING for source, place in places.items()}
    owners: dict[str, tuple[ConfigPlace, Limit]] = {}
    for level in compose([as_level(source, each) for source, each in said.items()]).levels:
        for limit in level.limits:
            owners.setdefault(limit.name, (places[name_of(level)], limit))
    return owners


def _is_asked(place: "ConfigPlace", entity_id: str | None, resource: str | None) -> bool:
    """Whether the usage that was read is all that a place could have."""
    on = place[1]
    is_on = resource is None or (on is not None and on != ALL_RESOURCES and is_asked(resource, on))
    return entity_id in (None, place[0]) and is_on


def _rank(each: LimitUse) -> tuple[int, str, str, str]:
    level, who, resource = described(each.place)
    return ("system", "resource", "tier", "entity").index(level), who or "", resource or "", each.limit.name


def described(place: "ConfigPlace") -> tuple[str, str | None, str | None]:
    """Return the level of a place, the entity or tier, and the resource (``None`` for all)."""
    from zae_limiter.maintenance import tier_of_subject

    entity, resource = place
    on = None if resource == ALL_RESOURCES else resource
    if entity is None:
        return ("system" if resource is None else "resource"), None, on
    tier = tier_of_subject(entity)
    return ("entity", entity, on) if tier is None else ("tier", tier, on)


def say_never(found: Sequence[LimitUse]) -> None:
    """Print a row for each limit; with a column for the refusals of which usage does not say the limit."""
    unclear = any(each.may_have_refused for each in found)
    stronger = any(each.used_of_stronger and not each.used for each in found)
    more = *(["IT OR ANOTHER REFUSED"] if unclear else []), *(["USED OF STRONGER LEVELS"] if stronger else [])
    head = ("LEVEL", "RESOURCE", "LIMIT", "REFILL", "USED", "BUCKETS", *more)
    say_columns([head, *(_cells(each, unclear=unclear, stronger=stronger) for each in found)])


def _cells(each: LimitUse, *, unclear: bool, stronger: bool) -> tuple[str, ...]:
    level, who, on = described(each.place)
    at, name = " ".join(filter(None, (level, who))), each.limit.name
    name = f"{name} (shadow)" if each.limit.shadow else name
    used = amount(each.used, each.limit.unit)
    maybe = [f"{each.may_have_refused:,}"] if unclear else []
    maybe += [amount(each.used_of_stronger, each.limit.unit)] if stronger else []
    return at, on or "all resources", name, rate(each.limit), used, f"{each.buckets:,}", *maybe


def plain_limit_use(each: LimitUse) -> dict[str, Any]:
    """Return a limit and its use as plain values."""
    level, who, on = described(each.place)
    return {
        "level": level,
        "entity_id": who if level == "entity" else None,
        "tier": who if level == "tier" else None,
        "resource": on,
        "limit_name": each.limit.name,
        "used": each.used,
        "refused": each.refused,
        "may_have_refused": each.may_have_refused,
        "used_of_stronger": each.used_of_stronger,
        "shadow": each.limit.shadow,
        "buckets": each.buckets,
        **in_money(each.limit.unit, used=each.used),
    }
