"""Our dataclasses beside those of the standard library: whatever a program does with one, it does with the other."""

import copy
import dataclasses
import inspect
import pickle
import typing
from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import walk_packages
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

import pytest

from zae_limiter import Limit
from zae_limiter.runtime import dataclass as ours

T = TypeVar("T")
PAIR = [pytest.param(dataclasses, id="theirs"), pytest.param(ours, id="ours")]


def classes_of(library: Any) -> SimpleNamespace:
    """Classes with every option that core uses."""
    dataclass, field = library.dataclass, library.field

    @dataclass(frozen=True, slots=True)
    class Point:
        x: int
        y: float = 1.5
        tags: tuple[str, ...] = field(default=(), hash=False)
        names: list[str] = field(default_factory=list, hash=False, repr=False)
        note: str = field(default="", compare=False, kw_only=True)
        total: float = field(init=False, repr=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", self.x + self.y)

        def moved(self) -> Any:
            return library.replace(self, x=self.x + 1)

    @dataclass(frozen=True, slots=True)
    class Space(Point):
        z: int = 0

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        stack: str | None = None
        timeout: float  # type: ignore[misc]

    @dataclass(slots=True)
    class Open:
        count: int = 0

    @dataclass(slots=True, eq=False)
    class Same:
        count: int

    @dataclass
    class Loose:
        count: int
        last: int = field(default=3, init=False)
        seen: list[int] = field(default_factory=list, init=False)

    @dataclass(frozen=True, slots=True)
    class Box(Generic[T]):
        inside: T

    @dataclass(frozen=True, slots=True)
    class Empty:
        pass

    made = (Point, Space, Options, Open, Same, Loose, Box, Empty)
    return SimpleNamespace(**{each.__name__: each for each in made})


def told(action: Any) -> Any:
    """What an action returns, or the type of what it raises."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001 - the two are compared
        return type(error)


ACTIONS: Mapping[str, Any] = {
    "repr": lambda c: [
        repr(c.Point(1)),
        repr(c.Space(1, z=2)),
        repr(c.Options(timeout=1)),
        repr(c.Empty()),
        repr(c.Box(1)),
    ],
    "equal": lambda c: [
        c.Point(1) == c.Point(1, note="other"),
        c.Point(1) == c.Point(1, names=["a"]),
        c.Point(1) == c.Space(1),
        c.Point(1) == 1,
        c.Open(1) == c.Open(1),
        c.Same(1) == c.Same(1),
        c.Empty() == c.Empty(),
        c.Box(1) != c.Box(2),
    ],
    "hash": lambda c: [
        hash(c.Point(1)) == hash(c.Point(1, names=["a"], note="other")),
        hash(c.Point(1)) == hash(c.Point(2)),
        told(lambda: hash(c.Open(1))),
        len({c.Empty(), c.Empty()}),
        len({c.Same(1), c.Same(1)}),
    ],
    "arguments": lambda c: [
        told(c.Point),
        told(lambda: c.Point(1, 2, (), [], "note")),
        told(lambda: c.Options("x", timeout=1)),
        told(lambda: c.Point(1, total=2)),
        c.Space(1, 2, ("a",), ["b"], 5, note="n").z,
        c.Loose(2).last,
    ],
    "own lists": lambda c: [c.Point(1).names is c.Point(1).names, c.Loose(1).seen is c.Loose(1).seen],
    "frozen": lambda c: [
        told(lambda: setattr(c.Point(1), "x", 2)),
        told(lambda: setattr(c.Point(1), "other", 2)) in (AttributeError, dataclasses.FrozenInstanceError, TypeError),
        told(lambda: delattr(c.Point(1), "x")),
        told(lambda: setattr(c.Open(1), "count", 2)),
        told(lambda: setattr(c.Open(1), "other", 2)),
    ],
    "signature": lambda c: [str(inspect.signature(each)) for each in vars(c).values()],
    "fields": lambda c: [
        [(f.name, f.type, f.init, f.repr, f.hash, f.compare, f.kw_only) for f in dataclasses.fields(each)]
        for each in vars(c).values()
    ],
    "defaults": lambda c: [[f.default for f in dataclasses.fields(each)] for each in (c.Point, c.Open, c.Space)],
    "is one": lambda c: [dataclasses.is_dataclass(c.Point), dataclasses.is_dataclass(c.Point(1))],
    "replace": lambda c: [
        repr(dataclasses.replace(c.Point(1), x=4)),
        dataclasses.replace(c.Space(1), z=4).total,
        told(lambda: dataclasses.replace(c.Point(1), total=4)),
        repr(c.Space(1).moved()),
    ],
    "asdict": lambda c: [dataclasses.asdict(c.Space(1, names=["a"])), dataclasses.astuple(c.Box(c.Point(1)))],
    "match": lambda c: [each.__match_args__ for each in vars(c).values()],
    "slots": lambda c: [each.__dict__.get("__slots__") for each in vars(c).values()],
    "copy": lambda c: [
        copy.copy(c.Point(1)) == c.Point(1),
        copy.deepcopy(c.Space(1)).total,
        copy.copy(c.Open(3)).count,
    ],
    "state": lambda c: [c.Point(1).__getstate__()],
    "hints": lambda c: [typing.get_type_hints(c.Point), typing.get_type_hints(c.Space)],
    "name": lambda c: [each.__qualname__.rpartition(".")[2] for each in vars(c).values()],
    "init": lambda c: [c.Point.__init__.__name__, c.Point.__init__.__annotations__],
}


@pytest.mark.parametrize("action", ACTIONS)
def test_it_does_what_the_standard_librarys_does(action: str) -> None:
    assert ACTIONS[action](classes_of(ours)) == ACTIONS[action](classes_of(dataclasses))


@pytest.mark.parametrize("library", PAIR)
def test_a_dataclass_of_the_standard_library_extends_it(library: Any) -> None:
    point = classes_of(library).Point

    @dataclasses.dataclass(frozen=True, slots=True)
    class Named(point):  # type: ignore[misc, valid-type]
        name: str = "n"

    assert repr(Named(1, name="p")).endswith("Named(x=1, y=1.5, tags=(), note='', name='p')")
    assert Named(1) == Named(1)
    assert Named(1).total == 2.5

    with pytest.raises(TypeError, match="frozen"):

        @dataclasses.dataclass
        class Thawed(point):  # type: ignore[misc, valid-type]
            pass


def test_a_plain_class_extends_it() -> None:
    class Mine(Limit):
        def __init__(self, name: str) -> None:
            super().__init__(name, 10, 10, 10, 60)
            self.extra = 1

    assert list(inspect.signature(Mine).parameters) == ["name"]
    assert (Mine("rpm").extra, Mine("rpm").burst) == (1, 10)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Mine("rpm").burst = 3  # type: ignore[misc]


def test_copy_replaces() -> None:
    """As `copy.replace` does, from Python 3.13 on."""
    limit: Any = Limit.per_minute("rpm", 1)
    assert limit.__replace__(name="tpm") == Limit.per_minute("tpm", 1)


def test_a_limit_is_pickled() -> None:
    limit = Limit.per_minute("rpm", 10, alert=(80,))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(limit, protocol)) == limit


def test_every_value_of_core_can_be_shown_as_one_of_the_standard_librarys() -> None:
    found = {each for each in values_of_core() if dataclasses.is_dataclass(each)}
    assert len(found) > 50
    for each in found:
        assert [field.name for field in dataclasses.fields(each)] == [field.name for field in ours.fields(each)]
        assert len(inspect.signature(each).parameters) == sum(field.init for field in ours.fields(each))


def values_of_core() -> Iterator[type]:
    """The classes of the values of core."""
    for package in ("values", "operations", "flows"):
        home = import_module(f"zae_limiter.{package}")
        for module in walk_packages(home.__path__, f"{home.__name__}."):
            yield from (each for each in vars(import_module(module.name)).values() if isinstance(each, type))
