"""The rules of a manifest that no single section can break: those of the tree of entities, that each plan is declared,
and that no level on a resource overflows to that resource.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from .hierarchy import find_tree_problems
from .naming import in_nfc
from .problems import Path, show
from .value_checks import Finding, Hinted

_ENTITIES: Final = "entities"
_PLANS: Final = "plans"
_RESOURCES: Final = "resources"


def find_cross_problems(manifest: object) -> Iterator[Finding]:
    """Yield the problems in the plain values of a manifest; parts of another type have their own."""
    yield from find_tree_problems(manifest)
    if not isinstance(manifest, Mapping):
        return
    yield from _unknown_plans(manifest.get(_PLANS, {}), manifest.get(_ENTITIES))
    yield from _own_overflows((_RESOURCES,), manifest.get(_RESOURCES))
    for part in (_PLANS, _ENTITIES):
        sections = manifest.get(part)
        for name, section in sections.items() if isinstance(sections, Mapping) else ():
            if isinstance(section, Mapping):
                yield from _own_overflows((part, name, _RESOURCES), section.get(_RESOURCES))


def _unknown_plans(plans: object, entities: object) -> Iterator[Finding]:
    if not isinstance(plans, Mapping) or not isinstance(entities, Mapping):
        return
    known = [name for name in plans if isinstance(name, str)]
    for entity, section in entities.items():
        plan = section.get("plan") if isinstance(section, Mapping) else None
        if isinstance(plan, str) and plan not in plans:
            yield Finding((_ENTITIES, entity, "plan"), _unknown(plan, known))


def _unknown(plan: str, known: list[str]) -> Hinted:
    way_out = ": declare it in `plans`" if not known else f"; declared are {', '.join(map(show, known[:10]))}"
    return Hinted(f"{show(plan)} is no plan of this manifest", plan, tuple(known), way_out)


def _own_overflows(path: Path, levels: object) -> Iterator[Finding]:
    for name, level in levels.items() if isinstance(levels, Mapping) else ():
        policy = level.get("on_refused") if isinstance(level, Mapping) else None
        overflow = policy.get("overflow") if isinstance(policy, Mapping) else None
        if isinstance(name, str) and isinstance(overflow, str) and in_nfc(overflow) == in_nfc(name):
            problem = f"{show(overflow)} is the resource of this level, which has refused: name another one"
            yield Finding((*path, name, "on_refused", "overflow"), problem)
