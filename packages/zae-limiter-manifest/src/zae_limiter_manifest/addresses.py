"""Addresses of limits, and sets of addresses. An address is not a key of the table."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, Literal, Self

from attrs import field, frozen

from .naming import PATTERN_END, TIER_SUBJECT, NameKind, find_name_problem, in_nfc
from .problems import show
from .sortedmap import SortedMap

Level = Literal["system", "resource", "tier", "entity"]

_RANKS: Final = {"system": 0, "resource": 1, "tier": 2, "entity": 3}


@frozen(cache_hash=True)
class Address:
    """The system level, a resource, an entity or a tier on a resource (`_default_`: on all others), or an entity.

    A tier is in the place of the entity, as `$TIER:gold`. Raises `ValueError`.
    """

    resource: str | None = None
    entity: str | None = None

    def __attrs_post_init__(self) -> None:
        try:
            resource, entity = _checked(self.resource, self.entity)
        except TypeError:  # no name, and nothing that a cache can look up: say what is wrong with it
            resource, entity = _checked.__wrapped__(self.resource, self.entity)
        object.__setattr__(self, "resource", resource)
        object.__setattr__(self, "entity", entity)

    @classmethod
    def of_tier(cls, tier: str, resource: str) -> Self:
        """Return the address of a tier on a resource, or on all others (`_default_`)."""
        return cls(resource, f"{TIER_SUBJECT}{tier}")

    @property
    def tier(self) -> str | None:
        """The tier; None at every other level."""
        return _tier_in(self.entity)

    @property
    def level(self) -> Level:
        """The level of the address."""
        if self.tier is not None:
            return "tier"
        if self.entity is not None:
            return "entity"
        return "system" if self.resource is None else "resource"

    @property
    def is_pattern(self) -> bool:
        """Whether it is a pattern of resources, such as `anthropic/*`."""
        return self.entity is None and self.resource is not None and self.resource.endswith(PATTERN_END)

    @property
    def is_record(self) -> bool:
        """Whether it is an entity itself: its parent, cascade, name and metadata."""
        return self.entity is not None and self.resource is None

    @property
    def target(self) -> str | None:
        """The name below the level: `gpt-4`, `user-123/gpt-4`, `user-123`, `"a/b"/gpt-4`; None for the system.

        No two of a level share one.
        """
        if self.tier is not None:
            return f"{self.tier}/{self.resource}"
        if self.entity is None or self.resource is None:
            return self.resource if self.entity is None else _unmistakable(self.entity)
        return f"{_unmistakable(self.entity)}/{self.resource}"

    @property
    def rank(self) -> tuple[int, str, str]:
        """The key to sort by: system, resources, tiers, entities, each by name."""
        return _RANKS[self.level], self.entity or "", self.resource or ""

    def __str__(self) -> str:
        return self.level if self.target is None else f"{self.level} {self.target}"

    def fits(self, pattern: str) -> bool:
        """Return whether the address fits a shell pattern: `resource gpt-*`, or without the level `acme-*/gpt-4`."""
        return any(fnmatchcase(name, pattern) for name in (str(self), self.target or self.level))

    def to_dict(self) -> dict[str, str | None]:
        """Return level, entity, resource and target, as in the answers of the Lambda."""
        return {"level": self.level, "entity": self.entity, "resource": self.resource, "target": self.target}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Return the address in the plain values of `to_dict`; raises `KeyError` or `ValueError`."""
        address = cls(raw["resource"], raw["entity"])
        if raw["level"] != address.level:
            raise ValueError(f"{address} is not on the level {raw['level']!r}")
        return address


def _tier_in(entity: str | None) -> str | None:
    return entity.removeprefix(TIER_SUBJECT) if entity is not None and entity.startswith(TIER_SUBJECT) else None


def _unmistakable(entity: str) -> str:
    """Return the id, as a JSON string if its end would not be clear otherwise."""
    return json.dumps(entity, ensure_ascii=False) if "/" in entity or '"' in entity else entity


@lru_cache(maxsize=16_384)  # a plan has each address of its manifest and of the table again and again
def _checked(resource: str | None, entity: str | None) -> tuple[str | None, str | None]:
    """Return the names of an address in NFC. Raises `ValueError`."""
    resource, entity = (None if name is None else in_nfc(name) for name in (resource, entity))
    tier = _tier_in(entity)
    if tier is not None:
        _check(NameKind.TIER, tier)
    elif entity is not None:
        _check(NameKind.ENTITY, entity)
    if resource is not None or tier is not None:
        _check(NameKind.RESOURCE_OR_PATTERN if entity is None else NameKind.RESOURCE_OR_DEFAULT, resource)
    return resource, entity


def _check(kind: NameKind, name: object) -> None:
    if problem := find_name_problem(kind, name):
        raise ValueError(f"{kind.value.partition('_')[0]} {show(name)} {problem}")


_NO_ENTITIES: Final[SortedMap[frozenset[str]]] = SortedMap({})


def _frozen_set(names: Iterable[str]) -> frozenset[str]:
    return frozenset(names)


def _frozen_sets(entities: Mapping[str, Iterable[str]]) -> SortedMap[frozenset[str]]:
    return SortedMap({entity: frozenset(own) for entity, own in entities.items()}) if entities else _NO_ENTITIES


@frozen
class ManagedSet(Collection[Address]):
    """A compact set of addresses: the system, resources, those of each entity and each tier, and entities themselves.

    It iterates in order.
    """

    system: bool = False
    resources: frozenset[str] = field(default=frozenset(), converter=_frozen_set)
    entities: Mapping[str, frozenset[str]] = field(default=_NO_ENTITIES, converter=_frozen_sets)
    records: frozenset[str] = field(default=frozenset(), converter=_frozen_set)

    @classmethod
    def of(cls, addresses: Iterable[Address]) -> Self:
        """Return the set of these addresses."""
        system, resources, entities, records = False, set(), dict[str, set[str]](), set()
        for address in addresses:
            if address.is_record:
                records.add(str(address.entity))
            elif address.resource is None:
                system = True
            elif address.entity is None:
                resources.add(address.resource)
            else:
                entities.setdefault(address.entity, set()).add(address.resource)
        return cls(system=system, resources=resources, entities=entities, records=records)

    def __contains__(self, address: object) -> bool:
        if not isinstance(address, Address):
            return False
        if address.is_record:
            return address.entity in self.records
        if address.resource is None:
            return self.system
        return address.resource in (self.entities.get(address.entity, ()) if address.entity else self.resources)

    def __iter__(self) -> Iterator[Address]:
        if self.system:
            yield Address()
        yield from (Address(resource) for resource in sorted(self.resources))
        for entity in sorted({*self.entities, *self.records}, key=lambda name: (_tier_in(name) is None, name)):
            if entity in self.records:
                yield Address(None, entity)
            yield from (Address(resource, entity) for resource in sorted(self.entities.get(entity, ())))

    def __len__(self) -> int:
        return self.system + len(self.resources) + sum(map(len, self.entities.values())) + len(self.records)
