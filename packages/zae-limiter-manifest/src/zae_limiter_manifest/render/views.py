"""Choose what of a plan is shown, and group what is alike, so that a plan of any size fits a screen."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from attrs import field, frozen

from ..addresses import Address, Level
from ..changes import Action, Change, FieldChange
from ..cuts import Step, largest_cut, steps_of, switched_off
from ..overrides import LiveOverride
from ..plan import Plan
from . import words

FEW: Final = 20
"""The most changes and overrides of a plan that is shown item by item without being asked for."""

KINDS: Final = 8
"""The most kinds of equal changes before changes with other values count as one kind."""

ALONE: Final = 20
"""The most changes of a large plan that stand outside of its kinds."""

_LEVELS: Final[tuple[Level, ...]] = ("system", "resource", "tier", "entity")
_ACTIONS: Final[tuple[Action, ...]] = ("create", "update", "delete")


@frozen
class View:
    """What of a plan is shown: the items of `entities` and those that fit `pattern`, of all if there is neither.

    `full` shows each item of a large plan. `pattern` is one of a shell: `resource gpt-*`, or `acme-*/gpt-4` alone.
    By namespace and address, `risks` has a line on the use of what a change cuts, and `notes` have lines on what
    callers have afterwards. Counts, hash and guards are always of the whole.
    """

    full: bool = False
    entities: frozenset[str] = frozenset()
    pattern: str | None = None
    risks: Mapping[str, Mapping[Address, str]] = field(factory=dict, hash=False)
    notes: Mapping[str, Mapping[Address, Sequence[str]]] = field(factory=dict, hash=False)

    @property
    def is_narrow(self) -> bool:
        """Whether some items may be left out."""
        return bool(self.entities) or self.pattern is not None

    def shows(self, address: Address) -> bool:
        """Return whether the item at an address is shown."""
        if self.entities and address.entity not in self.entities:
            return False
        return self.pattern is None or address.fits(self.pattern)

    def risk(self, namespace: str, change: Change) -> str:
        """Return the line on the use of what a change cuts; empty without one."""
        return self.risks.get(namespace, {}).get(change.address, "")

    def notes_on(self, namespace: str, change: Change) -> Sequence[str]:
        """Return the lines on what callers have after a change."""
        return self.notes.get(namespace, {}).get(change.address, ())

    def changes(self, changes: Iterable[Change]) -> list[Change]:
        """Return the changes that are shown."""
        return [change for change in changes if self.shows(change.address)]

    def overrides(self, overrides: Iterable[LiveOverride]) -> list[LiveOverride]:
        """Return the overrides that are shown."""
        return [override for override in overrides if self.shows(override.address)]

    def digests(self, plan: Plan) -> bool:
        """Return whether the plan is too large to show each item without being asked for."""
        shown = len(self.changes(plan.changes)) + len(self.overrides(plan.overrides))
        return not self.full and shown > FEW


EVERYTHING: Final = View()


class Alike(NamedTuple):
    """Changes that are made alike: the one that cuts most, how many more there are, whether their numbers differ."""

    first: Change
    more: int
    varied: bool = False

    @property
    def note(self) -> str:
        """The note about the others: `, and 4,999 more like this`; empty if there are none."""
        numbers = ", with other values" if self.varied else ""
        return f", and {self.more:,} more like this{numbers}" if self.more else ""


class Digest(NamedTuple):
    """A large plan: what stands `alone`, before the other changes by `kinds`; `among` them are so many that would stand
    alone, too, if there were room.
    """

    alone: Sequence[Alike]
    among: int
    kinds: Sequence[Alike]

    @property
    def note(self) -> str:
        """The note about those among the kinds; empty if there are none."""
        return f"… and {self.among:,} more that would stand alone, among the kinds" if self.among else ""


def digested(changes: Sequence[Change]) -> Digest:
    """Return what of a large plan stands alone, and the kinds of all other changes.

    Alone stand a change of the system, a resource or a tier; and of the entities those that lose or gain the largest
    part of each limit, together if they are equal. The largest cuts are first.
    """
    found = _outstanding(changes)
    alone = sorted(found[:ALONE], key=lambda kind: (-_share(kind.first), kind.first.address.rank))
    out = {change.address for kind in found[:ALONE] for change in kind.changes}
    rest = [change for change in changes if change.address not in out]
    return Digest([Alike(kind.first, len(kind.changes) - 1) for kind in alone], len(found[ALONE:]), grouped(rest))


class _Outstanding(NamedTuple):
    """Equal changes of which none may hide in a kind."""

    first: Change
    changes: Sequence[Change]


def _outstanding(changes: Sequence[Change]) -> list[_Outstanding]:
    """Return what stands alone: first of entities, limit by limit, then of many callers, the largest cuts first."""
    steps = [(change, step) for change in changes if change.address.level == "entity" for step in steps_of(change)]
    first = dict.fromkeys((*_largest(steps, lambda step: step.cut), *_largest(steps, lambda step: step.raised)))
    equal = {_exact(change): list[Change]() for change in first}
    for change in changes:
        if (kind := _exact(change)) in equal:
            equal[kind].append(change)
    shared = [change for change in changes if change.address.level != "entity"]
    shared.sort(key=lambda change: -_share(change))
    return [_Outstanding(own[0], own) for own in equal.values()] + [_Outstanding(each, (each,)) for each in shared]


def _largest(steps: Iterable[tuple[Change, Step]], size: Callable[[Step], float]) -> list[Change]:
    """Return the change with the largest step of each limit that has one, the largest of all first."""
    largest: dict[str | None, tuple[float, Change]] = {}
    for change, step in steps:
        if size(step) > largest.get(step.limit, (0.0,))[0]:
            largest[step.limit] = size(step), change
    return [change for _, change in sorted(largest.values(), key=lambda pair: -pair[0])]


def _exact(change: Change) -> object:
    return _level_and_action(change), change.fields()


def grouped(changes: Sequence[Change]) -> list[Alike]:
    """Return the kinds of changes, those with the largest cuts first, then those of most items.

    If there are more than `KINDS` kinds, changes of the same limits and fields with other values are one kind.
    """
    same = [(_level_and_action(change), change.fields(), change) for change in changes]
    shapes = [(kind, tuple(map(_shape, fields)), change) for kind, fields, change in same]
    kinds = _by_kind(same)
    varied = len(kinds) > KINDS
    if varied:
        kinds = _by_kind(shapes)
    found = [_alike(kind, varied=varied) for kind in kinds]
    return sorted(found, key=lambda kind: (-_share(kind.first), -kind.more))


def _alike(changes: Sequence[Change], *, varied: bool) -> Alike:
    first = max(changes, key=_share)
    fields = first.fields()
    return Alike(first, len(changes) - 1, varied and any(change.fields() != fields for change in changes))


def _by_kind(keyed: Iterable[tuple[object, object, Change]]) -> list[list[Change]]:
    kinds: dict[object, list[Change]] = {}
    for kind, fields, change in keyed:
        kinds.setdefault((kind, fields), []).append(change)
    return list(kinds.values())


def _level_and_action(change: Change) -> object:
    return change.address.level, change.action, change.drift, change.adopted


def _shape(each: FieldChange) -> object:
    return each.limit, each.field, each.before is None, each.after is None


def _share(change: Change) -> float:
    cut = largest_cut(change)
    return cut.share if cut else 0


def cut_note(change: Change) -> str:
    """Return a note on what a change takes away: ` (cuts rpm by 90 %)`, ` (refuses every acquire)`; empty if it takes
    nothing.
    """
    cut = largest_cut(change)
    if cut is None:
        return ""
    if cut.limit is None:
        return f" ({switched_off(change)})"
    return f" (cuts {cut.limit} by {max(1, int(cut.share * 100))} %)"


def by_level(changes: Sequence[Change]) -> list[tuple[str, ...]]:
    """Return the rows of the summary: a head, then for each level that has changes their number by kind."""
    rows: list[tuple[str, ...]] = [("level", *_ACTIONS, "cuts")]
    for level in _LEVELS:
        own = [change for change in changes if change.address.level == level]
        if own:
            counts = [sum(change.action == action for change in own) for action in _ACTIONS]
            rows.append((level, *(f"{count:,}" for count in (*counts, sum(_share(change) > 0 for change in own)))))
    return rows


def narrowed(view: View, shown: int, whole: int) -> list[str]:
    """Return the line on what a narrow view leaves out, if it is narrow."""
    left_out = f"Shown: {shown:,} of {words.counted(whole, 'change')}; counts and hash are of the whole plan."
    return [left_out] if view.is_narrow else []
