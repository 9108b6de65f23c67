"""Dataclasses that are cheap to import: their methods are made when they are first used.

The standard library compiles up to six methods of each class while a program starts, some 0.4 ms a class, and imports
``inspect``. Here ``__init__``, ``__eq__`` and ``__hash__`` are compiled when they are first used, and are ordinary
methods from then on; the others go by the list of the fields. To ``fields``, ``replace`` and ``asdict`` of
``dataclasses``, to ``copy``, ``pickle`` and type checkers, and to a dataclass that extends it, such a class is one of
the standard library's.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

_SET: Final = object.__setattr__  # as `__init__` of a frozen class sets its fields


class _Missing:
    """The default of a field that has none, and of an argument that a factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


_MISSING: Final = _Missing()


class _Field:
    """A field of a class, with the options of ``dataclasses.field``."""

    __slots__ = ("compare", "default", "default_factory", "hash", "init", "kw_only", "name", "repr", "type")

    def __init__(
        self,
        *,
        default: Any = _MISSING,
        default_factory: Any = _MISSING,
        init: bool = True,
        repr: bool = True,  # noqa: A002 - as `dataclasses.field` names it
        hash: bool | None = None,  # noqa: A002 - likewise
        compare: bool = True,
        kw_only: bool | None = None,
    ) -> None:
        self.default, self.default_factory = default, default_factory
        self.init, self.repr, self.hash, self.compare, self.kw_only = init, repr, hash, compare, kw_only
        self.name: str
        self.type: Any

    @property
    def is_hashed(self) -> bool:
        """Whether the hash of an object depends on the field."""
        return self.compare if self.hash is None else self.hash

    def options(self) -> dict[str, Any]:
        """Return the arguments of ``dataclasses.field`` for the same field."""
        names = ("default", "default_factory", "init", "repr", "hash", "compare", "kw_only")
        return {name: value for name in names if (value := getattr(self, name)) is not _MISSING}


class Made:
    """A member of a class that is made when it is first asked for, and then stands in this one's place."""

    __slots__ = ("make", "name", "owner")

    def __init__(self, make: Callable[[Any], Any], owner: Any = None, name: str = "") -> None:
        self.make, self.owner, self.name = make, owner, name

    def __set_name__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        made = self.make(self.owner)
        setattr(self.owner, self.name, made)
        bind = getattr(made, "__get__", None)
        return made if bind is None else bind(instance, owner)


class SignatureOfInit:
    """The ``__signature__`` of a class whose ``__new__`` would hide that of ``__init__`` from ``inspect``."""

    def __get__(self, _: object, owner: Any) -> Any:
        from inspect import signature

        made = signature(owner.__init__)
        return made.replace(parameters=list(made.parameters.values())[1:])


def _dataclass(
    cls: type[Any] | None = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    kw_only: bool = False,
) -> Any:
    """Make a class a dataclass, with these options of ``dataclasses.dataclass``."""

    def made(cls: type[Any]) -> type[Any]:
        own = _declared(cls, kw_only=kw_only)
        found: dict[str, _Field] = {}
        for base in reversed(cls.__mro__[1:]):
            found.update((each.name, each) for each in base.__dict__.get("_fields_", ()))
        found.update((each.name, each) for each in own)
        members = _members(tuple(found.values()), frozen=frozen, eq=eq)
        if frozen and slots:
            members.update(__getstate__=_state, __setstate__=_set_state)
        return _with_slots(cls, own, members) if slots else _extended(cls, own, members)

    return made if cls is None else made(cls)


def _declared(cls: type, *, kw_only: bool) -> list[_Field]:
    """Return the fields that the body of the class declares."""
    found = []
    for name, annotation in cls.__annotations__.items():
        given = cls.__dict__.get(name, _MISSING)
        each = given if isinstance(given, _Field) else _Field(default=given)
        each.name, each.type = name, annotation
        each.kw_only = kw_only if each.kw_only is None else each.kw_only
        found.append(each)
    return found


def _members(found: tuple[_Field, ...], *, frozen: bool, eq: bool) -> dict[str, Any]:
    """Return the members of a class with these fields."""
    members: dict[str, Any] = {
        "_fields_": found,
        "__match_args__": tuple(each.name for each in found if each.init and not each.kw_only),
        "__init__": Made(lambda cls: _init_of(cls, frozen=frozen)),
        "__repr__": _repr,
        "__replace__": _replaced,
        "__dataclass_fields__": Made(lambda cls: _like(cls, frozen=frozen, eq=eq).__dataclass_fields__),
        "__dataclass_params__": Made(lambda cls: _like(cls, frozen=frozen, eq=eq).__dataclass_params__),
    }
    if eq:
        members["__eq__"] = Made(_eq_of)
        members["__hash__"] = Made(_hash_of) if frozen else None
    if frozen:
        names = frozenset(each.name for each in found)
        members["__setattr__"], members["__delattr__"] = _refusing_set(names), _refusing_delete(names)
    return members


def _with_slots(cls: type[Any], own: Sequence[_Field], members: dict[str, Any]) -> type[Any]:
    """Return the class made anew, because only a new class can have slots."""
    inherited = {name for base in cls.__mro__[1:-1] for name in base.__dict__.get("__slots__", ())}
    left_out = {"__dict__", "__weakref__", *(each.name for each in own)}
    body = {name: member for name, member in cls.__dict__.items() if name not in left_out}
    slots = tuple(each.name for each in own if each.name not in inherited)
    metaclass: Any = type(cls)
    made: type[Any] = metaclass(cls.__name__, cls.__bases__, {**members, **body, "__slots__": slots})
    made.__qualname__ = cls.__qualname__
    return made


def _extended(cls: type[Any], own: Sequence[_Field], members: dict[str, Any]) -> type[Any]:
    """Return the class with these members; a default stays an attribute of it."""
    for each in own:
        if each.default is not _MISSING:
            setattr(cls, each.name, each.default)
        elif each.name in cls.__dict__:
            delattr(cls, each.name)
    for name, member in members.items():
        if name not in cls.__dict__:
            setattr(cls, name, member)
            if isinstance(member, Made):
                member.__set_name__(cls, name)
    return cls


def _init_of(cls: type[Any], *, frozen: bool) -> Any:
    """Return the ``__init__`` of a class."""
    known: dict[str, Any] = {"_set": _SET, "_MISSING": _MISSING}
    positional, by_name, body = ["self"], list[str](), list[str]()
    types: dict[str, Any] = {}
    for each in cls._fields_:
        name, default = each.name, None
        value = name
        if each.default_factory is not _MISSING:
            known[f"_make_{name}"] = each.default_factory
            value, default = f"_make_{name}()", "_MISSING"
            if each.init:
                value = f"{value} if {name} is _MISSING else {name}"
        elif each.default is not _MISSING:
            known[f"_default_{name}"] = each.default
            default = f"_default_{name}"
            value = name if each.init else default
        if each.init:
            types[name] = each.type
            (by_name if each.kw_only else positional).append(name if default is None else f"{name}={default}")
        elif default is None:
            continue  # `__post_init__` sets it
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    init = compiled(cls, "__init__", [*positional, *(["*", *by_name] if by_name else [])], body or ["pass"], known)
    init.__annotations__ = {**types, "return": None}
    return init


def _eq_of(cls: type[Any]) -> Any:
    """Return the ``__eq__`` of a class: two objects of it are equal by their fields."""
    names = [each.name for each in cls._fields_ if each.compare]
    mine, others = (f"({''.join(f'{of}.{name}, ' for name in names)})" for of in ("self", "other"))
    same = f"{mine} == {others} if other.__class__ is self.__class__ else NotImplemented"
    return compiled(cls, "__eq__", ["self", "other"], [f"return {same}"], {})


def _hash_of(cls: type[Any]) -> Any:
    """Return the ``__hash__`` of a class, which goes with its ``__eq__``."""
    values = "".join(f"self.{each.name}, " for each in cls._fields_ if each.is_hashed)
    return compiled(cls, "__hash__", ["self"], [f"return hash(({values}))"], {})


def compiled(cls: type, name: str, parameters: Sequence[str], body: Sequence[str], known: dict[str, Any]) -> Any:
    """Return a method of a class, of its source; ``known`` are the names that it uses."""
    exec(f"def {name}({', '.join(parameters)}):\n " + "\n ".join(body), known)
    method = known.pop(name)
    method.__qualname__, method.__module__ = f"{cls.__qualname__}.{name}", cls.__module__
    return method


def _like(cls: type[Any], *, frozen: bool, eq: bool) -> Any:
    """Return a dataclass of the standard library that has the same fields."""
    from dataclasses import field, make_dataclass

    listed = [(each.name, each.type, field(**each.options())) for each in cls._fields_]
    return make_dataclass(cls.__name__, listed, frozen=frozen, eq=eq)


def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in self._fields_ if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _replaced(self: Any, /, **changes: Any) -> Any:
    for each in self._fields_:
        if each.init and each.name not in changes:
            changes[each.name] = getattr(self, each.name)
    return type(self)(**changes)


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in self._fields_]


def _set_state(self: Any, state: Sequence[Any]) -> None:
    for each, value in zip(self._fields_, state, strict=True):
        _SET(self, each.name, value)


def _refusing_set(names: frozenset[str]) -> Any:
    def set_field(self: Any, name: str, value: object) -> None:
        if name in names:
            _refuse(f"cannot assign to field {name!r}")
        _SET(self, name, value)

    return set_field


def _refusing_delete(names: frozenset[str]) -> Any:
    def delete_field(self: Any, name: str) -> None:
        if name in names:
            _refuse(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    return delete_field


def _refuse(problem: str) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(problem)


def _fields(of: Any) -> tuple[_Field, ...]:
    """Return the fields of a class or of an object, in their order."""
    found: tuple[_Field, ...] = of._fields_
    return found


def _replace(value: Any, /, **changes: Any) -> Any:
    """Return a copy with other values of some fields."""
    return value.__replace__(**changes)


if TYPE_CHECKING:
    from dataclasses import MISSING, dataclass, field, fields, replace
else:
    MISSING, dataclass, field, fields, replace = _MISSING, _dataclass, _Field, _fields, _replace

__all__ = ["MISSING", "SignatureOfInit", "dataclass", "field", "fields", "replace"]
