"""Named tuples that are cheap to import: ``__new__`` is compiled when the first object is made.

The standard library compiles a function for each class while a program starts, and checks the type of each field. To
``_fields``, ``_replace``, ``copy``, ``pickle`` and type checkers, such a class is one of the standard library's.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from .dataclass import Made, compiled

try:
    _field_at: Any = import_module("_collections")._tuplegetter  # as `collections.namedtuple`
except (ImportError, AttributeError):  # another interpreter

    def _field_at(index: int, doc: str) -> property:
        return property(lambda self: tuple.__getitem__(self, index), doc=doc)


class _Kind(type):
    """The type of named tuples: gives each class its fields."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        first: Any = bases[0]
        if first is tuple or first.__base__ is not tuple:  # the base of all, or a class that extends a named tuple
            return super().__new__(cls, name, bases, body)
        made: Any = super().__new__(cls, name, bases, {"__slots__": (), **body})
        fields = tuple(made.__annotations__)
        made._fields = fields
        setattr(made, "__match_args__", fields)  # noqa: B010 - which mypy takes for its own
        made._field_defaults = {each: body[each] for each in fields if each in body}
        for index, each in enumerate(fields):
            setattr(made, each, _field_at(index, f"Alias for field number {index}"))
        made.__new__ = Made(_new_of, made, "__new__")
        return made


def _new_of(cls: Any) -> Any:
    """Return the ``__new__`` of a class."""
    known = {"_new": tuple.__new__, "_defaults": cls._field_defaults}
    parameters = [f"{each}=_defaults[{each!r}]" if each in cls._field_defaults else each for each in cls._fields]
    values = "".join(f"{each}, " for each in cls._fields)
    return staticmethod(compiled(cls, "__new__", ["_cls", *parameters], [f"return _new(_cls, ({values}))"], known))


class _NamedTuple(tuple[Any, ...], metaclass=_Kind):
    """A tuple whose fields have names."""

    __slots__ = ()

    _fields = tuple[str, ...]()

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Self:
        made = tuple.__new__(cls, values)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self, /, **changes: Any) -> Self:
        made = self._make(map(changes.pop, self._fields, self))
        if changes:
            raise ValueError(f"Got unexpected field names: {list(changes)!r}")
        return made

    __replace__ = _replace

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({', '.join(shown)})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)


if TYPE_CHECKING:
    from typing import NamedTuple
else:
    NamedTuple = _NamedTuple

__all__ = ["NamedTuple"]
