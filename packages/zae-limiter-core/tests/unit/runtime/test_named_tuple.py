"""Our named tuples beside those of the standard library: whatever a program does with one, it does with the other."""

import copy
import inspect
import pickle
import typing
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

import pytest

from zae_limiter.runtime import named_tuple as ours
from zae_limiter.values.usage import Refuser

T = TypeVar("T")


def classes_of(library: Any) -> SimpleNamespace:
    """Named tuples as core has them."""

    class Point(library.NamedTuple):  # type: ignore[misc]
        """A point."""

        x: int
        y: "float" = 1.5
        tags: tuple[str, ...] = ()

        @property
        def total(self) -> Any:
            return self.x + self.y

        @classmethod
        def at(cls, x: int) -> Any:
            return cls(x)

        def moved(self) -> Any:
            return self._replace(x=self.x + 1)

    class Named(Point):
        def __repr__(self) -> str:
            return f"at {self.x}"

    class Box(library.NamedTuple, Generic[T]):  # type: ignore[misc]
        inside: T

    class Empty(library.NamedTuple):  # type: ignore[misc]
        pass

    return SimpleNamespace(Point=Point, Named=Named, Box=Box, Empty=Empty)


def told(action: Any) -> Any:
    """What an action returns, or the type of what it raises."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001 - the two are compared
        return type(error)


ACTIONS: Mapping[str, Any] = {
    "repr": lambda c: [repr(each) for each in (c.Point(1), c.Named(2), c.Box("a"), c.Empty())],
    "tuple": lambda c: [tuple(c.Point(1)), c.Point(1) == (1, 1.5, ()), hash(c.Point(1)), c.Point(1)[1], len(c.Empty())],
    "arguments": lambda c: [
        told(c.Point),
        told(lambda: c.Point(1, 2, (), 3)),
        told(lambda: c.Point(1, z=3)),
        tuple(c.Point(y=2, x=1)),
    ],
    "members": lambda c: [c.Point(1).total, tuple(c.Point.at(3)), tuple(c.Point(1).moved()), c.Named(1).moved().x],
    "fields": lambda c: [c.Point._fields, c.Point._field_defaults, c.Named._fields, c.Empty._fields],
    "replace": lambda c: [tuple(c.Point(1)._replace(y=3)), told(lambda: c.Point(1)._replace(z=3))],
    "make": lambda c: [tuple(c.Point._make([1, 2, ()])), told(lambda: c.Point._make([1]))],
    "asdict": lambda c: c.Point(1)._asdict(),
    "match": lambda c: [c.Point.__match_args__, c.Named.__match_args__],
    "signature": lambda c: list(inspect.signature(c.Point).parameters),
    "hints": lambda c: typing.get_type_hints(c.Point),
    "assign": lambda c: [told(lambda: setattr(c.Point(1), "x", 2)), told(lambda: setattr(c.Point(1), "z", 2))],
    "copy": lambda c: [copy.copy(c.Point(1)) == c.Point(1), copy.deepcopy(c.Point(1, 2, ("a",))).tags],
    "further attributes": lambda c: [told(lambda: setattr(c.Named(1), "z", 2)), hasattr(c.Box(1), "__dict__")],
    "doc": lambda c: c.Point.__doc__,
    "parent": lambda c: [isinstance(c.Named(1), c.Point), isinstance(c.Point(1), tuple), c.Box[int](3).inside],
}


@pytest.mark.parametrize("action", ACTIONS)
def test_it_does_what_the_standard_librarys_does(action: str) -> None:
    assert ACTIONS[action](classes_of(ours)) == ACTIONS[action](classes_of(typing))


def test_one_is_pickled() -> None:
    refuser = Refuser("user", "rpm")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        found = pickle.loads(pickle.dumps(refuser, protocol))
        assert (type(found), found) == (Refuser, refuser)


def test_copy_replaces() -> None:
    """As `copy.replace` does, from Python 3.13 on."""
    refuser: Any = Refuser("user", "rpm")
    assert refuser.__replace__(entity_id="org") == ("org", "rpm")
