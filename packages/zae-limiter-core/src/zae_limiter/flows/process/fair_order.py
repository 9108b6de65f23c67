"""Whose turn it is in a line: that of each child in its turn, by what it took; within a child, in order of arrival.

The problem: callers of one child that wait in a crowd for the tokens of its parent would keep every sibling from them,
if the line was served in order of arrival alone: the patient one takes all. The choice: each child has an account in
a virtual time, in which all children that wait are served at the same rate. A call is done there when what its child
took before it and the amounts of the child's callers up to it are through; the line is served in the order of these
ends. So a child that asks for large amounts has its turn less often, as in a deficit round robin, and no amount is too
large to come. A child without a call in line begins at the end of the call that was served last, a trifle before all
that begin there: it is next, before all that wait, and saves up nothing meanwhile. The price is that a place is not
known for good: a newcomer of a child that has taken less comes before those that wait already.

The same holds further down: of the callers of one child, those of its own children take turns. Self-clocked fair
queueing: Golestani, "A self-clocked fair queueing scheme for broadband applications", INFOCOM 1994; its bound of what
two children that wait may differ by is one call of each, as for Shreedhar and Varghese, "Efficient fair queuing using
deficit round robin", SIGCOMM 1995, whose rounds cannot tell a caller its place when it comes.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ...runtime.named_tuple import NamedTuple

OWN: Final = ""  # the end of each way: the callers of an entity itself, which take turns with its children
Way = tuple[str, ...]


class Waiting(NamedTuple):
    """One caller: the number of its arrival; ``way`` leads from the bucket down to the entity that asks.

    ``cost``: what its amounts count for. A weight of its child would divide it.
    """

    number: int
    turn: Any
    amounts: Mapping[str, int]
    way: Way
    cost: int


class _Child:
    """The account of a child: what it took was ``done`` at this time of its parent's, what waits is by ``last``.

    ``clock``: the virtual time of its own children.
    """

    __slots__ = ("children", "clock", "done", "last")

    def __init__(self, done: int = 0) -> None:
        self.done = self.last = done
        self.clock = 1
        self.children: dict[str, _Child] = {}

    def child(self, name: str) -> "_Child":
        found = self.children.get(name)
        return self.children.setdefault(name, _Child(self.clock - 1)) if found is None else found

    def keep(self, waiting: Mapping[str, Any]) -> None:
        """Forget the children that do not wait, but for those that were served last."""
        for name, child in list(self.children.items()):
            if name not in waiting:
                child.last = child.done
                if child.done < self.clock:
                    self.children.pop(name, None)


class FairOrder:
    """The accounts of the children of one bucket, as long as somebody waits there."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root = _Child()

    @property
    def clock(self) -> int:
        """The virtual time at which the call that was served last ended; at least 1."""
        return self._root.clock

    def enter(self, way: Way, cost: int) -> int:
        """Return when a newcomer is done: for the children of children nearly, until all are put in order again."""
        steps: list[tuple[_Child, _Child]] = []
        parent = self._root
        for name in way:
            child = parent.child(name)
            steps.append((parent, child))
            parent = child
        until, before = 0, cost
        for parent, child in reversed(steps):
            child.last = max(child.last, child.done) + cost
            until = min(child.last, child.done + before) if child.children else child.last
            if parent is not self._root:
                before = sum(max(0, min(each.last, until) - each.done) for each in list(parent.children.values()))
        return until

    def took(self, way: Way, cost: int) -> None:
        """Charge a caller that was served."""
        parent = self._root
        for name in way:
            child = parent.child(name)
            child.done += cost
            parent.clock = max(parent.clock, child.done)
            parent = child

    def of(self, waiting: Iterable[Waiting]) -> list[tuple[int, int, Waiting]]:
        """Return the callers in order, each behind the time at which it is done and its number."""
        return _in_turn(self._root, sorted(waiting), 0)


def _in_turn(parent: _Child, waiting: Iterable[Waiting], depth: int) -> list[tuple[int, int, Waiting]]:
    of_child: dict[str, list[Waiting]] = {}
    for each in waiting:
        of_child.setdefault(each.way[depth], []).append(each)
    parent.keep(of_child)
    found: list[tuple[int, int, Waiting]] = []
    for name, callers in of_child.items():
        child = parent.child(name)
        child.last = child.done
        for each in callers if name == OWN else [each for _, _, each in _in_turn(child, callers, depth + 1)]:
            child.last += each.cost
            found.append((child.last, each.number, each))
    found.sort()
    return found
