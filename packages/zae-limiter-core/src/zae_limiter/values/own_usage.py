"""What entities used themselves: usage without what calls of entities below took.

A call that cascades counts at each level, because each level has limits of its own. A sum over levels counts it once,
at the entity that was asked. The counts of acquires say exactly which of them came from below. Tokens do not, so they
are told apart by the acquires: where all came from below, none of the tokens are the entity's own, and where none did,
all are. Where some did, the own tokens of everybody below are taken off, by the tree as it is now.

A call of a run takes from the run's bucket beside those of the entity that it is within, and counts there.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Literal

from ..runtime.dataclass import replace
from .run_budgets import within_of
from .usage import UsageSnapshot

Part = Literal["all", "none", "some"]
Above = Callable[[str], Collection[str]]  # the entities that calls of an entity cascade to

NOTHING: Final[Mapping[str, int]] = {}


def own_part(usage: UsageSnapshot) -> Part | None:
    """Return which part of the tokens is of the entity's own calls; ``None`` where no call says it."""
    if usage.total_below <= 0:
        return "all" if usage.total_events > 0 else None
    return "none" if usage.total_below >= usage.total_events else "some"


def own_usage(usage: UsageSnapshot, part: Part, consumed: Mapping[str, int]) -> UsageSnapshot:
    """Return the part of a snapshot that is of the entity's own calls, with these tokens."""
    admitted = usage.total_events - usage.total_below
    shadowed = {"all": usage.total_shadowed, "none": 0, "some": min(usage.total_shadowed, admitted)}[part]
    return replace(
        usage,
        consumed=consumed,
        total_events=admitted,
        total_refused=usage.total_refused - usage.total_refused_below,
        total_shadowed=shadowed,
        total_below=0,
        total_refused_below=0,
    )


def has_any(usage: UsageSnapshot) -> bool:
    """Return whether anything is counted in a snapshot."""
    counts = usage.total_events, usage.total_refused, usage.total_shadowed, usage.total_uncounted
    return any(counts) or any(usage.consumed.values())


def own_tokens(
    used: Mapping[str, Mapping[str, int]], parts: Mapping[str, Part], above: Above
) -> dict[str, Mapping[str, int]]:
    """Return the tokens of the own calls of entities on one resource, by entity, in the unit of ``used``."""
    own = {each: used[each] if part == "all" else NOTHING for each, part in parts.items()}
    mixed = [each for each, part in parts.items() if part == "some"]
    if not mixed:
        return own
    ancestors = {each: {*above(each)} for each in parts}
    for each in sorted(mixed, key=lambda entity: sum(entity in ancestors[other] for other in mixed)):  # lowest first
        below = [own[other] for other in parts if each in ancestors[other]]
        own[each] = {
            name: max(0, amount - sum(tokens.get(name, 0) for tokens in below)) for name, amount in used[each].items()
        }
    return own


def names_of(used: Iterable[tuple[str, Mapping[str, int]]]) -> dict[str, set[str]]:
    """Return the names of the limits that each entity took from in a window."""
    names: dict[str, set[str]] = {}
    for entity_id, consumed in used:
        names.setdefault(entity_id, set()).update(name for name, took in consumed.items() if took)
    return names


def own_of_run(
    entity_id: str, resource: str, consumed: Mapping[str, int], used: Mapping[str, Collection[str]]
) -> Mapping[str, int] | None:
    """Return the tokens of a run that count nowhere else; ``None`` for another bucket.

    What its calls take of limits of the entity that it is within counts there, and other costs at the topmost run.
    """
    within = within_of(entity_id, resource)
    if within is None:
        return None
    is_top = "/" not in entity_id.partition("@")[0]
    return {name: took for name, took in consumed.items() if is_top and name not in used.get(within, ())}


def usage_of_run(usage: UsageSnapshot, consumed: Mapping[str, int]) -> UsageSnapshot:
    """Return the part of a run's snapshot that counts nowhere else: these tokens, and no calls."""
    return replace(
        usage,
        consumed=consumed,
        total_events=0,
        total_refused=0,
        total_shadowed=0,
        total_below=0,
        total_refused_below=0,
    )


class OwnParts:
    """The part of each snapshot that is the entity's own, for snapshots in the order of time.

    A window with corrections alone goes by the last one that had calls.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], Part] = {}

    def of(self, snapshots: Sequence[UsageSnapshot]) -> list[Part]:
        """Return the parts of snapshots, and remember them."""
        parts: list[Part] = []
        for usage in snapshots:
            place = usage.entity_id, usage.resource
            if (part := own_part(usage)) is not None:
                self._last[place] = part
            parts.append(part or self._last.get(place, "none" if usage.total_refused_below > 0 else "all"))
        return parts
