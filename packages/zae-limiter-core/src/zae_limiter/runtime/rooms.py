"""Import the modules of a package when they are first used, each by a process that needs it."""

from collections.abc import Callable
from importlib import import_module
from types import ModuleType

from .forks import without_forks


def on_first_use(package: str) -> Callable[[str], ModuleType]:
    """Return a ``__getattr__`` for ``package``, which imports a module of it when it is asked for.

    It is asked once for each: an imported module is an attribute of its package.
    """

    def load(name: str) -> ModuleType:
        module = f"{package}.{name}"
        try:
            with without_forks():
                return import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None

    return load
