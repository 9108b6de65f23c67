"""Say of an entity or a resource that nothing is known by its name, and which names come near.

Limits of a resource or of the system hold for every id, so a mistyped name gets an answer like any other: a full
bucket, which passes. Only a name for which nothing is stored is looked up, with a few queries.
"""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from zae_limiter import Explanation, SyncRepository
    from zae_limiter.values import UsageSummary

MOST_NAMES: Final = 1000  # that core lists at once
BEGIN: Final = 3  # letters: rather the first ones are right
MOST_NEAR: Final = 3


class Unknown(NamedTuple):
    """A name that nothing is stored under, with those that come near; ``kind`` is ``entity`` or ``resource``."""

    kind: str
    name: str
    near: Sequence[str]

    @property
    def sentence(self) -> str:
        """The name and those near it, for people."""
        near = f"; near: {', '.join(self.near)}" if self.near else ""
        has = "no record, no limits of its own" if self.kind == "entity" else "no limits"
        return f"Unknown {self.kind} {self.name}: it has {has}, no bucket and no usage{near}."

    def plain(self) -> dict[str, Any]:
        """Return the same as plain values."""
        return {"kind": self.kind, "name": self.name, "near": [*self.near]}


def unknown_names(repository: "SyncRepository", found: "Explanation", usage: "UsageSummary") -> Iterator[Unknown]:
    """Yield the entity and the resource of an explanation if nothing is stored under their names."""
    own = found.buckets[0]
    if own.shard_count or usage.windows:
        return
    if own.source not in ("entity", "entity_default", "tier", "tier_default") and not found.parent_ids:
        yield from unknown_entity(repository, found.entity_id)
    if own.source not in ("entity", "tier", "resource", "call", "default_limits") and own.pattern in (None, "*"):
        yield from unknown_resource(repository, found.resource)


def unknown_entity(repository: "SyncRepository", entity_id: str) -> Iterator[Unknown]:
    """Yield the entity if it has neither a record nor limits of its own nor a bucket."""
    alike = [each.entity_id for each in repository.list_entities(begins_with=entity_id, limit=1).entities]
    if entity_id in alike:
        return
    begin = repository.list_entities(begins_with=entity_id[:BEGIN], limit=MOST_NAMES).entities
    names = [each.entity_id for each in (*begin, *repository.list_entities(limit=MOST_NAMES).entities)]
    yield Unknown("entity", entity_id, _near(entity_id, names))


def unknown_resource(repository: "SyncRepository", resource: str) -> Iterator[Unknown]:
    """Yield the resource if no level has limits for it, and it has no bucket."""
    names = {*repository.list_resources_with_defaults(), *repository.list_resources_with_entity_configs()}
    if resource in names or repository.list_buckets(resource, limit=1).buckets:
        return
    names |= {each.resource for each in repository.list_buckets(limit=MOST_NAMES).buckets}
    yield Unknown("resource", resource, _near(resource, [*names]))


def _near(name: str, names: Sequence[str]) -> list[str]:
    folded: dict[str, str] = {each.casefold(): each for each in names}
    return [folded[each] for each in get_close_matches(name.casefold(), folded, n=MOST_NEAR)]
