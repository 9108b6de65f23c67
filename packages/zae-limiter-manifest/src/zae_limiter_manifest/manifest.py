"""A whole manifest: from and to YAML and plain dicts, what it manages, its hash.
Never reads a file, never compares two manifests."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

import yaml
from attrs import field, frozen
from attrs.validators import instance_of, optional
from cattrs import Converter

from .checks import enforce, find_in, settle
from .declarations import EntityDecl, ResourceDecl, SystemDecl
from .frozenmap import FrozenMap, freeze, values_are
from .problems import ManifestError, Problem
from .rules import MANIFEST
from .source import read_source

_SHORT: Final = Converter(omit_if_default=True, detailed_validation=False)
_COMPLETE: Final = Converter(detailed_validation=False)
_LINE_WIDTH: Final = 120
_UNNAMED: Final = "<manifest>"


@frozen
class ManagedSet:
    """What a manifest manages: the system level or not, which resources, and for each entity which resources."""

    system: bool = False
    resources: frozenset[str] = frozenset()
    entities: Mapping[str, frozenset[str]] = field(default=FrozenMap({}), converter=freeze)


def _unless_empty(system: SystemDecl | None) -> SystemDecl | None:
    return None if system == SystemDecl() else system


@frozen
class LimitsManifest:
    """The limits that a namespace shall have; a system level that says nothing is None; raises `ManifestError`."""

    namespace: str
    system: SystemDecl | None = field(
        default=None, kw_only=True, converter=_unless_empty, validator=optional(instance_of(SystemDecl))
    )
    resources: Mapping[str, ResourceDecl] = field(
        default=FrozenMap({}), kw_only=True, converter=freeze, validator=values_are(ResourceDecl)
    )
    entities: Mapping[str, EntityDecl] = field(
        default=FrozenMap({}), kw_only=True, converter=freeze, validator=values_are(EntityDecl)
    )

    def __attrs_post_init__(self) -> None:
        names = {"resources": settle(self.resources), "entities": settle(self.entities)}
        enforce(MANIFEST, {"namespace": self.namespace, **names}, "LimitsManifest")

    @classmethod
    def from_yaml(cls, text: str, name: str = _UNNAMED) -> Self:
        """The manifest in a YAML text; raises `ManifestError` with every mistake, placed in the file `name`."""
        source = read_source(text, name)
        if problems := [*source.problems, *map(source.locate, find_in(MANIFEST, source.value))]:
            raise ManifestError(_in_order(problems))
        return _SHORT.structure(source.value, cls)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], name: str = _UNNAMED) -> Self:
        """The manifest in plain values, as JSON gives them; raises `ManifestError` with every mistake."""
        enforce(MANIFEST, raw, name)
        return _SHORT.structure(raw, cls)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `from_dict` reads back as an equal manifest; what equals its default is left out."""
        plain: dict[str, Any] = _SHORT.unstructure(self)
        return plain

    def managed_set(self) -> ManagedSet:
        """What this manifest manages, without the limits themselves."""
        return ManagedSet(
            system=self.system is not None,
            resources=frozenset(self.resources),
            entities={entity: frozenset(decl.resources) for entity, decl in self.entities.items()},
        )

    def canonical_hash(self) -> str:
        """`sha256:` and hex digits, equal for equal manifests: in any order, with defaults spelled out or not."""
        # Defaults are written out, so that a hash that was stored tells of a default that changed.
        text = json.dumps(_COMPLETE.unstructure(self), sort_keys=True, separators=(",", ":"))
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def load(text: str, name: str = _UNNAMED) -> LimitsManifest:
    """The manifest in a YAML text; raises `ManifestError` with every mistake, placed in the file `name`."""
    return LimitsManifest.from_yaml(text, name)


def dump(manifest: LimitsManifest) -> str:
    """A YAML text that `load` reads back as an equal manifest."""
    text: str = yaml.safe_dump(manifest.to_dict(), sort_keys=False, default_flow_style=None, width=_LINE_WIDTH)
    return text


def _in_order(problems: Iterable[Problem]) -> list[Problem]:
    """From the top of the file down; a mistake that aliases repeat is told once."""
    once = {(problem.line, problem.column, problem.message): problem for problem in reversed(list(problems))}
    return sorted(once.values(), key=lambda problem: (problem.line or 0, problem.column or 0))
