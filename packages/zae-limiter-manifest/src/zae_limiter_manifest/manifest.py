"""A whole manifest: as YAML, as plain values, by address; its managed set and its hash."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Self

from attrs import field, frozen
from attrs.validators import instance_of, optional

from .addresses import Address, ManagedSet
from .checks import Finding, enforce, find_problems, keys_only
from .converter import CONVERTER
from .declarations import ENTITY, RESOURCE, SYSTEM, Decl, EntityDecl, ResourceDecl, SystemDecl, canonical
from .naming import NameKind
from .problems import show
from .shapes import Name, NamedMap, about, record_of
from .sortedmap import SortedMap, freeze_names, values_are
from .source import Reading, Source, read_source

_UNNAMED: Final = "<manifest>"


def _unless_empty(system: SystemDecl | None) -> SystemDecl | None:
    return None if system == SystemDecl() else system


@frozen
class LimitsManifest:
    """The desired limits of a namespace; an empty system level is None; raises `ManifestError`."""

    namespace: str = field(
        metadata=about(Name(NameKind.NAMESPACE), "the namespace of these limits; one manifest for each namespace")
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
        metadata=about(NamedMap(NameKind.RESOURCE, RESOURCE), "the defaults of each resource, by its name"),
    )
    entities: Mapping[str, EntityDecl] = field(
        default=SortedMap({}),
        kw_only=True,
        converter=freeze_names,
        validator=values_are(EntityDecl),
        metadata=about(NamedMap(NameKind.ENTITY, ENTITY), "the limits of single entities, by their ids"),
    )

    def __attrs_post_init__(self) -> None:
        names = {"resources": keys_only(self.resources), "entities": keys_only(self.entities)}
        enforce(MANIFEST, {"namespace": self.namespace, **names}, "LimitsManifest")

    @classmethod
    def from_yaml(cls, text: str | bytes, name: str = _UNNAMED) -> Self:
        """Return the manifest in a YAML text; raises `ManifestError` with every mistake, placed in the file `name`."""
        (read,) = _read_all([(name, text)])
        return CONVERTER.structure(read.value, cls)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], name: str = _UNNAMED) -> Self:
        """Return the manifest in plain values, as JSON gives them; raises `ManifestError` with every mistake."""
        enforce(MANIFEST, raw, name)
        return CONVERTER.structure(raw, cls)

    @classmethod
    def of(cls, namespace: str, declared: Mapping[Address, Decl]) -> Self:
        """Return the manifest with exactly these declarations: the inverse of `declared`."""
        system: SystemDecl | None = None
        resources: dict[str, ResourceDecl] = {}
        entities: dict[str, dict[str, ResourceDecl]] = {}
        for address, decl in declared.items():
            match address, decl:
                case Address(resource=None), SystemDecl():
                    system = decl
                case Address(resource=str(resource), entity=entity), ResourceDecl():
                    own = resources if entity is None else entities.setdefault(entity, {})
                    own[resource] = decl
                case _:
                    raise TypeError(f"{decl!r} does not belong at {address}")
        own_limits = {entity: EntityDecl(own) for entity, own in entities.items()}
        return cls(namespace, system=system, resources=resources, entities=own_limits)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back as an equal manifest; fields at their defaults are left
        out.
        """
        plain: dict[str, Any] = CONVERTER.unstructure(self)
        return plain

    def declared(self) -> Iterator[tuple[Address, Decl]]:
        """Yield all declarations, in order: system, resources, entities, each by name."""
        if self.system:
            yield Address(), self.system
        for resource, decl in self.resources.items():
            yield Address(resource), decl
        for entity, own in self.entities.items():
            for resource, decl in own.resources.items():
                yield Address(resource, entity), decl

    def managed_set(self) -> ManagedSet:
        """Return the addresses that this manifest manages."""
        return ManagedSet(
            system=self.system is not None,
            resources=self.resources,
            entities={entity: decl.resources for entity, decl in self.entities.items()},
        )

    def canonical_hash(self) -> str:
        """Return `sha256:` and hex digits, equal for equal manifests: in any order, with defaults spelled out or
        not.
        """
        digest = hashlib.sha256(f"namespace {self.namespace}\n".encode())
        for address, decl in self.declared():
            digest.update(f"{address}\n{canonical(decl)}\n".encode())
        return f"sha256:{digest.hexdigest()}"


MANIFEST: Final = record_of(LimitsManifest)


def load(text: str | bytes, name: str = _UNNAMED) -> LimitsManifest:
    """Return the manifest in a YAML text; raises `ManifestError` with every mistake, placed in the file `name`."""
    return LimitsManifest.from_yaml(text, name)


def load_all(sources: Iterable[tuple[str, str | bytes]]) -> tuple[LimitsManifest, ...]:
    """Return the manifests in files, as name and text, one for each namespace; raises `ManifestError` with all
    mistakes.
    """
    return tuple(CONVERTER.structure(source.value, LimitsManifest) for source in _read_all(sources))


def _read_all(sources: Iterable[tuple[str, str | bytes]]) -> list[Source]:
    """Return the documents, all of them valid; raises `ManifestError` with the mistakes of all."""
    reading = Reading()
    read = []
    for name, text in sources:
        source = read_source(text, name, reading)
        for finding in find_problems(MANIFEST, source.value):
            source.note(finding)
        read.append(source)
    _note_repeated_namespaces(read)
    reading.problems.refuse()
    return read


def _note_repeated_namespaces(sources: Iterable[Source]) -> None:
    places: dict[str, str] = {}
    for source in sources:
        namespace = source.value.get("namespace") if isinstance(source.value, Mapping) else None
        if not isinstance(namespace, str):
            continue
        if namespace in places:
            message = f"{show(namespace)} is declared in {places[namespace]} too: one file for each namespace"
            source.note(Finding(("namespace",), message))
        here = source.locate(Finding(("namespace",), ""))
        places.setdefault(namespace, f"{here.file}:{here.line}")
