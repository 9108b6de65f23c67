"""A whole manifest: as YAML, as plain values, by address; its managed set and its hash."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, Self

from attrs import field, frozen
from attrs.validators import instance_of, optional

from .addresses import Address, ManagedSet
from .canonical import canonical
from .checks import ALREADY_CHECKED, enforce, find_problems, keys_only
from .collector import paused_collector
from .converter import CONVERTER
from .cross_problems import find_cross_problems
from .declarations import (
    ENTITY,
    RESOURCE,
    SYSTEM,
    TIER,
    Decl,
    EntityDecl,
    RecordDecl,
    ResourceDecl,
    SystemDecl,
    TierDecl,
)
from .merging import Document, has_tiers_alone, merge, without_shared_parts
from .naming import NameKind
from .shapes import Choices, Name, NamedMap, Number, about, record_of
from .sortedmap import SortedMap, freeze_names, values_are
from .source import Reading, Report, read_source
from .warned import MOST_OVERSUBSCRIBED, OVERSUBSCRIBE
from .warned import NAMES as WARNINGS

_UNNAMED: Final = "<manifest>"
_NOTHING_MANAGED: Final = ManagedSet()


def _unless_empty(system: SystemDecl | None) -> SystemDecl | None:
    return None if system == SystemDecl() else system


MOST_ENTITIES: Final = 75_000
"""The most entities of one namespace: with two limits each, an apply needs about 500 MB, and `deploy` gives 512."""

_ENTITIES: Final = NamedMap(
    NameKind.ENTITY, ENTITY, most=MOST_ENTITIES, advice="divide the entities among several namespaces"
)


@frozen
class LimitsManifest:
    """The desired limits of a namespace; an empty system level is None; raises `ManifestError`."""

    namespace: str = field(
        metadata=about(Name(NameKind.NAMESPACE), "the namespace of these limits; one manifest for each namespace")
    )
    ignore: tuple[str, ...] = field(
        default=(),
        kw_only=True,
        converter=tuple,
        metadata=about(Choices(WARNINGS), "the names of warnings that `validate` and `plan` do not give"),
    )
    oversubscribe: float = field(
        default=OVERSUBSCRIBE,
        kw_only=True,
        metadata=about(
            Number(MOST_OVERSUBSCRIBED, 3),
            "how many times their parent's limit those of children may be together without a warning; by default 10",
        ),
    )
    system: SystemDecl | None = field(
        default=None,
        kw_only=True,
        converter=_unless_empty,
        validator=optional(instance_of(SystemDecl)),
        metadata=about(SYSTEM, "the defaults for everything that no level below sets"),
    )
    resources: Mapping[str, ResourceDecl] = field(
        default=SortedMap({}),
        kw_only=True,
        converter=freeze_names,
        validator=values_are(ResourceDecl),
        metadata=about(
            NamedMap(NameKind.RESOURCE_OR_PATTERN, RESOURCE),
            "the defaults of each resource, by its name, or by a pattern: `anthropic/*`, `*`",
        ),
    )
    tiers: Mapping[str, TierDecl] = field(
        default=SortedMap({}),
        kw_only=True,
        converter=freeze_names,
        validator=values_are(TierDecl),
        metadata=about(NamedMap(NameKind.TIER, TIER), "limits that many entities have, by the name that these give"),
    )
    entities: Mapping[str, EntityDecl] = field(
        default=SortedMap({}),
        kw_only=True,
        converter=freeze_names,
        validator=values_are(EntityDecl),
        metadata=about(_ENTITIES, "single entities and their limits, by their ids"),
    )

    def __attrs_post_init__(self) -> None:
        names = {
            "resources": keys_only(self.resources),
            "tiers": keys_only(self.tiers),
            "entities": keys_only(self.entities),
        }
        plain = {
            "resources": _overflows(self.resources),
            "tiers": {tier: {"resources": _overflows(decl.resources)} for tier, decl in self.tiers.items()},
            "entities": {
                entity: {**_record(decl), "resources": _overflows(decl.resources)}
                for entity, decl in self.entities.items()
            },
        }
        found = find_cross_problems(plain)
        more = {"ignore": self.ignore, "oversubscribe": self.oversubscribe}
        enforce(MANIFEST, {"namespace": self.namespace, **more, **names}, "LimitsManifest", found)

    @classmethod
    def from_yaml(cls, text: str | bytes, name: str = _UNNAMED) -> Self:
        """Return the manifest in a YAML text; raises `ManifestError` with every mistake, placed in the file `name`."""
        with paused_collector():
            (read,) = read_all([(name, text)])
            return CONVERTER.structure(read.value, cls)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], name: str = _UNNAMED) -> Self:
        """Return the manifest in plain values, as JSON gives them; raises `ManifestError` with every mistake."""
        with paused_collector():
            enforce(MANIFEST, raw, name, find_cross_problems(raw))
            return CONVERTER.structure(raw, cls)

    @classmethod
    def of(cls, namespace: str, declared: Mapping[Address, Decl]) -> Self:
        """Return the manifest with exactly these declarations: the inverse of `declared`."""
        system: SystemDecl | None = None
        resources: dict[str, ResourceDecl] = {}
        tiers: dict[str, dict[str, ResourceDecl]] = {}
        entities: dict[str, dict[str, ResourceDecl]] = {}
        records: dict[str, RecordDecl] = {}
        for address, decl in declared.items():
            match address, decl:
                case Address(resource=None), SystemDecl():
                    system = decl
                case Address(resource=str(resource), tier=str(tier)), ResourceDecl():
                    tiers.setdefault(tier, {})[resource] = decl
                case Address(resource=str(resource), entity=entity), ResourceDecl():
                    own = resources if entity is None else entities.setdefault(entity, {})
                    own[resource] = decl
                case Address(resource=None, entity=str(entity)), RecordDecl():
                    records[entity] = decl
                case _:
                    raise TypeError(f"{decl!r} does not belong at {address}")
        parents = {parent for record in records.values() for parent in record.parents}
        plain = {entity for entity, record in records.items() if record == RecordDecl() and entity in parents}
        sections = {
            entity: EntityDecl.of(None if entity in plain and own else records.get(entity), own)
            for entity, own in {**{entity: {} for entity in records}, **entities}.items()
        }
        named = {tier: TierDecl(own) for tier, own in tiers.items()}
        return cls(namespace, system=system, resources=resources, tiers=named, entities=sections)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back as an equal manifest; fields at their defaults are left
        out.
        """
        plain: dict[str, Any] = CONVERTER.unstructure(self)
        return plain

    def declared(self, managed: ManagedSet = _NOTHING_MANAGED) -> Iterator[tuple[Address, Decl]]:
        """Yield all declarations, in order: system, resources, tiers, entities, each by name.

        An entity itself is declared if its section says anything of it or has no limits, if it is a parent of another,
        and if it is among the `managed`: so a section that has lost its `parent` moves the entity to the top.
        """
        if self.system:
            yield Address(), self.system
        for resource, decl in self.resources.items():
            yield Address(resource), decl
        for tier, of_tier in self.tiers.items():
            yield from ((Address.of_tier(tier, resource), decl) for resource, decl in of_tier.resources.items())
        parents = {parent for each in self.entities.values() for parent in each.parents}
        for entity, own in self.entities.items():
            if own.says_record or entity in parents or entity in managed.records:
                yield Address(None, entity), own.record
            for resource, decl in own.resources.items():
                yield Address(resource, entity), decl

    def managed_set(self, managed: ManagedSet = _NOTHING_MANAGED) -> ManagedSet:
        """Return the addresses that this manifest manages, after an apply that left `managed`."""
        return ManagedSet.of(address for address, _ in self.declared(managed))

    def canonical_hash(self) -> str:
        """Return `sha256:` and hex digits, equal for equal manifests: in any order, with defaults spelled out or
        not.
        """
        return self._hash

    @cached_property
    def _hash(self) -> str:
        digest = hashlib.sha256(f"namespace {self.namespace}\n".encode())
        for address, decl in self.declared():
            digest.update(f"{address}\n{canonical(decl)}\n".encode())
        return f"sha256:{digest.hexdigest()}"


def _record(decl: EntityDecl) -> dict[str, Any]:
    return decl.record.to_plain() if decl.says_record else {}


def _overflows(levels: Mapping[str, ResourceDecl]) -> dict[str, dict[str, object]]:
    """Return each level with its overflow, as plain values; a level without one may be the overflow of another."""
    policies = {resource: decl.on_refused for resource, decl in levels.items()}
    return {
        resource: {"on_refused": {"overflow": each.overflow}} if each else {} for resource, each in policies.items()
    }


MANIFEST: Final = record_of(LimitsManifest)


def load(text: str | bytes, name: str = _UNNAMED) -> LimitsManifest:
    """Return the manifest in a YAML text; raises `ManifestError` with every mistake, placed in the file `name`."""
    return LimitsManifest.from_yaml(text, name)


def load_all(sources: Iterable[tuple[str, str | bytes]], report: Report | None = None) -> tuple[LimitsManifest, ...]:
    """Return the manifests in files, as name and text, one for each namespace; raises `ManifestError` with all
    mistakes.

    A file that has `tiers` alone needs no `namespace` if another one has it: its tiers are in each of the manifests.
    `report` gets what loading is at, now and then.
    """
    with paused_collector():
        return tuple(CONVERTER.structure(each.value, LimitsManifest) for each in read_all(sources, report))


def read_all(sources: Iterable[tuple[str, str | bytes]], report: Report | None = None) -> list[Document]:
    """Return the document of each namespace, all of them valid; raises `ManifestError` with the mistakes of all."""
    reading = Reading() if report is None else Reading(report=report)
    read = []
    for name, text in sources:
        source = read_source(text, name, reading)
        value = without_shared_parts(source.value)
        if has_tiers_alone(value):
            value["namespace"] = ALREADY_CHECKED  # that of another file, which `merge` looks for
        reading.report(f"checking {name}")
        for finding in find_problems(MANIFEST, value):
            source.note(finding)
        read.append(source)
    documents = merge(read)
    for document in documents:
        for finding in find_cross_problems(document.value):
            document.note(finding)
    reading.problems.refuse()
    reading.report("making the declarations")
    return documents
