"""Write a manifest as YAML text, in stable order. A name is plain or in quotes, as in JSON."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from .declarations import LimitDecl
from .manifest import LimitsManifest

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*|_default_")
_WORDS: Final = frozenset(
    {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
)  # some YAML readers do not read these as text


def dump(manifest: LimitsManifest) -> str:
    """Return a YAML text that `load` reads back as an equal manifest; equal manifests give equal texts."""
    return "".join(f"{line}\n" for line in _lines(manifest))


def _lines(manifest: LimitsManifest) -> Iterator[str]:
    yield f"namespace: {_name(manifest.namespace)}"
    if manifest.system:
        yield "system:"
        if manifest.system.on_unavailable:
            yield f"  on_unavailable: {manifest.system.on_unavailable}"
        yield from _indented(_limits(manifest.system.limits))
    yield from _section("resources", {name: _limits(decl.limits) for name, decl in manifest.resources.items()})
    yield from _section(
        "entities",
        {
            entity: _section("resources", {name: _limits(decl.limits) for name, decl in own.resources.items()})
            for entity, own in manifest.entities.items()
        },
    )


def _section(title: str, entries: Mapping[str, Iterable[str]]) -> Iterator[str]:
    if entries:
        yield f"{title}:"
    for name, lines in entries.items():
        yield f"  {_name(name)}:"
        yield from _indented(_indented(lines))


def _limits(limits: Mapping[str, LimitDecl]) -> Iterator[str]:
    if limits:
        yield "limits:"
    for name, limit in limits.items():
        yield f"  {_name(name)}: {limit.text}"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _name(name: str) -> str:
    """Return a name in YAML, in double quotes if needed; YAML reads those as JSON does."""
    plain = _PLAIN.fullmatch(name) and name.lower() not in _WORDS
    return name if plain else json.dumps(name, ensure_ascii=False)
