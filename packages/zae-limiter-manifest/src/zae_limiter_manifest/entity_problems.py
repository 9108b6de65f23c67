"""The rules of entities that no single section can break: those of their tree, and that each plan is declared."""

from collections.abc import Iterator, Mapping
from typing import Final

from .hierarchy import find_tree_problems
from .problems import show
from .value_checks import Finding, Hinted

_ENTITIES: Final = "entities"
_PLANS: Final = "plans"


def find_entity_problems(manifest: object) -> Iterator[Finding]:
    """Yield the problems in the plain values of a manifest; parts of another type have their own."""
    yield from find_tree_problems(manifest)
    if not isinstance(manifest, Mapping):
        return
    plans, entities = manifest.get(_PLANS, {}), manifest.get(_ENTITIES)
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
