"""Write a manifest as YAML text, in the order of `ordering`. A name is plain or in quotes, as in JSON."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from .converter import EXTENDS, UNLIMITED, WEIGHTS
from .declarations import EntityDecl, ResourceDecl, SystemDecl, TierDecl
from .limit_declarations import LimitDecl
from .manifest import LimitsManifest
from .switches import switch_word

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*|_default_")
_UNPRINTABLE: Final = re.compile(r"[^ -~]")
_LAST_OF_FOUR_DIGITS: Final = 0xFFFF
_WORDS: Final = frozenset(
    {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
)  # some YAML readers do not read these as text

Lines = tuple[str, ...]
_NO_NAMES: Final[Mapping[Lines, str]] = {}


def dump(manifest: LimitsManifest) -> str:
    """Return a YAML text that `load` reads back as an equal manifest; equal manifests give equal texts."""
    return "".join(f"{line}\n" for line in _lines(manifest))


def dump_grouped(manifest: LimitsManifest) -> tuple[str, dict[str, int]]:
    """Return a YAML text as ``dump`` does, in which entities with the same limits share a part; and the parts' sizes.

    A part is a key `x-tier-1`, `x-tier-2` and so on, the one of most entities first. It is a spelling: the text is read
    back as an equal manifest.
    """
    groups = Counter(_resources(own) for own in manifest.entities.values() if own.resources)
    shared = [lines for lines, count in groups.most_common() if count > 1]
    names = {lines: f"tier-{number}" for number, lines in enumerate(shared, 1)}
    text = "".join(f"{line}\n" for line in _lines(manifest, names))
    return text, {f"x-{name}": groups[lines] for lines, name in names.items()}


def _lines(manifest: LimitsManifest, names: Mapping[Lines, str] = _NO_NAMES) -> Iterator[str]:
    """Yield the lines of a manifest; those of ``names`` are written once, and named where they are meant."""
    yield f"namespace: {_name(manifest.namespace)}"
    for lines, name in names.items():
        yield f"x-{name}: &{name}"
        yield from lines
    if manifest.system:
        yield "system:"
        if manifest.system.on_unavailable:
            yield f"  on_unavailable: {manifest.system.on_unavailable}"
        yield from _indented(_level(manifest.system))
    yield from _section("resources", {name: _level(decl) for name, decl in manifest.resources.items()})
    yield from _section("tiers", {tier: _tier(own) for tier, own in manifest.tiers.items()})
    yield from _section("entities", {entity: _entity(own, names) for entity, own in manifest.entities.items()})


def _tier(own: TierDecl) -> Iterator[str]:
    yield from _section("resources", {name: _level(decl) for name, decl in own.resources.items()})


def _entity(own: EntityDecl, names: Mapping[Lines, str]) -> Iterator[str]:
    match own.parents:
        case (parent,):
            yield f"parent: {_name(parent)}"
        case (_, *_):
            yield f"parents: [{', '.join(map(_name, own.parents))}]"
    if own.tier is not None:
        yield f"tier: {_name(own.tier)}"
    if own.cascade is not None:
        yield f"cascade: {_flow(own.cascade)}"
    if own.name is not None:
        yield f"name: {_flow(own.name)}"
    if metadata := own.metadata.to_dict():
        yield f"metadata: {_flow(metadata)}"
    resources = _resources(own)
    if name := names.get(resources):
        yield f"resources: *{name}"
    elif resources:
        yield "resources:"
        yield from resources


def _resources(own: EntityDecl) -> Lines:
    """Return the lines of an entity's limits, without the key above them."""
    return tuple(_section("resources", {name: _level(decl) for name, decl in own.resources.items()}))[1:]


def _section(title: str, entries: Mapping[str, Iterable[str]]) -> Iterator[str]:
    if entries:
        yield f"{title}:"
    for name, lines in entries.items():
        content = list(lines)
        yield f"  {_name(name)}:" if content else f"  {_name(name)}: {{}}"
        yield from _indented(_indented(content))


def _level(decl: SystemDecl | ResourceDecl) -> Iterator[str]:
    if decl.unlimited:
        yield f"limits: {UNLIMITED}"
    if isinstance(decl, ResourceDecl) and decl.extends:
        yield f"{EXTENDS}: true"
    yield from _limits(decl.limits)
    if decl.on_refused is not None:
        steps = {step: _name(text) if step == "overflow" else text for step, text in decl.on_refused.texts().items()}
        yield f"on_refused: {_braces(steps)}"
    for name, value in decl.switches.items():
        yield f"{name}: {switch_word(name, value) if name == 'cascade' else _flow(value)}"


def _limits(limits: Mapping[str, LimitDecl]) -> Iterator[str]:
    if limits:
        yield "limits:"
    for name, limit in limits.items():
        yield f"  {_name(name)}: {limit.text or _map(limit)}"


def _map(limit: LimitDecl) -> str:
    """Return the map of a limit that has no text, on one line."""
    given = {name: _flow(value) for name, value in limit.given().items()}
    if limit.weights:
        given[WEIGHTS] = _braces(limit.weights.texts())
    return _braces(given)


def _braces(texts: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{key}: {text}' for key, text in texts.items())}}}"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def is_plain(text: str) -> bool:
    """Return whether all YAML readers read the text as it is, without quotes."""
    return _PLAIN.fullmatch(text) is not None and text.lower() not in _WORDS


def _name(name: str) -> str:
    """Return a name in YAML, in double quotes if needed; YAML reads those as JSON does."""
    return name if is_plain(name) else json.dumps(name, ensure_ascii=False)


def _flow(value: object) -> str:
    """Return a JSON value in YAML, on one line. YAML 1.1 knows a float by its dot, and more line breaks than JSON."""
    match value:
        case dict():
            return _braces({_flow(key): _flow(part) for key, part in value.items()})
        case list():
            return f"[{', '.join(map(_flow, value))}]"
        case str():
            return _UNPRINTABLE.sub(_escaped, json.dumps(value, ensure_ascii=False))
        case float():
            digits = repr(value)
            return digits if "." in digits else digits.replace("e", ".0e")
    return json.dumps(value)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if found[0].isprintable():
        return found[0]
    return f"\\u{code:04X}" if code <= _LAST_OF_FOUR_DIGITS else f"\\U{code:08X}"
