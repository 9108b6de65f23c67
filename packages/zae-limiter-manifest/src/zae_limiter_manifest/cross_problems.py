"""The rules of a manifest that no single section can break: those of the tree of entities, that each tier is declared,
that levels together have no more limits than a bucket, and that no level on a resource overflows to that resource, or
to a mistyped one.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from .checks import Finding, Hinted
from .hierarchy import find_tree_problems
from .naming import in_nfc
from .problems import A_MAP, Path, show
from .sums import find_sums

_ENTITIES: Final = "entities"
_TIERS: Final = "tiers"
_RESOURCES: Final = "resources"


def find_cross_problems(manifest: object) -> Iterator[Finding]:
    """Yield the problems in the plain values of a manifest; parts of another type have their own."""
    yield from find_tree_problems(manifest)
    if not isinstance(manifest, A_MAP):
        return
    yield from _unknown_tiers(manifest.get(_TIERS, {}), manifest.get(_ENTITIES))
    yield from find_sums(manifest)
    levels = list(_levels(manifest))
    overflowing = [
        ((*path, name), overflow)
        for path, of_path in levels
        for name, level in of_path.items()
        if (overflow := _overflow(level)) is not None
    ]
    for path, overflow in overflowing:
        yield from _own_overflow(path, overflow)
    if (of_system := _overflow(manifest.get("system"))) is not None:
        overflowing.insert(0, (("system",), of_system))
    known = tuple({name: None for _, of_path in levels for name in of_path if isinstance(name, str)})
    for path, overflow in overflowing:
        yield from _unknown_overflow(path, overflow, known)


def _levels(manifest: Mapping[object, object]) -> Iterator[tuple[Path, Mapping[object, object]]]:
    """Yield the levels by resource, of the resources, of each tier and of each entity, with their paths."""
    sections: list[tuple[Path, object]] = [((), manifest)]
    for part in (_TIERS, _ENTITIES):
        named = manifest.get(part)
        sections += [((part, name), each) for name, each in named.items()] if isinstance(named, A_MAP) else []
    for path, section in sections:
        levels = section.get(_RESOURCES) if isinstance(section, A_MAP) else None
        if isinstance(levels, A_MAP):
            yield (*path, _RESOURCES), levels


def _unknown_overflow(path: Path, overflow: str, known: tuple[str, ...]) -> Iterator[Finding]:
    """Yield the overflow that is none of the manifest's resources and like one of them; others may be set by hand."""
    if in_nfc(overflow) not in map(in_nfc, known):
        hint = Hinted(f"{show(overflow)} is not a resource of this manifest", overflow, known)
        if str(hint) != hint.text:
            yield Finding((*path, "on_refused", "overflow"), hint)


def _overflow(level: object) -> str | None:
    policy = level.get("on_refused") if isinstance(level, A_MAP) else None
    overflow = policy.get("overflow") if isinstance(policy, A_MAP) else None
    return overflow if isinstance(overflow, str) else None


def _unknown_tiers(tiers: object, entities: object) -> Iterator[Finding]:
    if not isinstance(tiers, A_MAP) or not isinstance(entities, A_MAP):
        return
    known = [name for name in tiers if isinstance(name, str)]
    for entity, section in entities.items():
        tier = section.get("tier") if isinstance(section, A_MAP) else None
        if isinstance(tier, str) and tier not in tiers:
            yield Finding((_ENTITIES, entity, "tier"), _unknown(tier, known))


def _unknown(tier: str, known: list[str]) -> Hinted:
    way_out = ": declare it in `tiers`" if not known else f"; declared are {', '.join(map(show, known[:10]))}"
    return Hinted(f"{show(tier)} is not a tier of this manifest", tier, tuple(known), way_out)


def _own_overflow(path: Path, overflow: str) -> Iterator[Finding]:
    name = path[-1]
    if isinstance(name, str) and in_nfc(overflow) == in_nfc(name):
        problem = f"{show(overflow)} is the resource of this level, which has refused: name another one"
        yield Finding((*path, "on_refused", "overflow"), problem)
