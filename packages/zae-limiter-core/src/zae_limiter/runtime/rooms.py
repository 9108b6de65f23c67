"""Import the modules of a package, and make the parts of an object, when they are first used: most never are."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, Generic, TypeVar, overload

from .forks import without_forks

T = TypeVar("T")
NO_NAMES: Final[Mapping[str, str]] = {}


def on_first_use(package: str, homes: Mapping[str, str] = NO_NAMES) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for ``package``, which imports a module of it when it is asked for, or a name of one.

    It is asked once for each module, which is an attribute of its package once it is imported, and for a name, whose
    module ``homes`` has, each time.
    """

    def load(name: str) -> Any:
        module = f"{package}.{homes.get(name, name)}"
        try:
            with without_forks():
                found = import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None
        return getattr(found, name) if name in homes else found

    return load


class Lazily(Generic[T]):
    """An attribute that ``make`` makes, of the object, when it is read first. Threads that read it first at the same
    time get the same one. The class needs a ``__dict__``; what is deleted from it is made anew.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = ""
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """Learn the name of the attribute."""
        self._name = name

    @overload
    def __get__(self, of: None, owner: type) -> "Lazily[T]": ...

    @overload
    def __get__(self, of: object, owner: type) -> T: ...

    def __get__(self, of: object | None, owner: type) -> "Lazily[T] | T":
        """Return the part; from then on the object has it, and does not come by here."""
        if of is None:
            return self
        made: T = vars(of).setdefault(self._name, self._make(of))  # in one step, in which no other thread comes between
        return made
