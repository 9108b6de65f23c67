"""The table of old names: an old name is answered with the new one. Deleted with 1.0.

No module imports this one before an unknown name is used.
"""

import warnings
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Final, NoReturn

# A name of `zae_limiter`: the module that has it now, and its name there. The import works, and warns.
NAMES: Final[Mapping[str, str]] = {}

# A method or an attribute of a class, or of its blocking variant: what to write instead.
ATTRIBUTES: Final[Mapping[str, Mapping[str, str]]] = {"RateLimiter": {}, "Repository": {}}

# An argument, of any function that had it: what to write instead.
ARGUMENTS: Final[Mapping[str, str]] = {}


def moved(name: str) -> Any:
    """Return what an old name of ``zae_limiter`` stands for, and warn. Raises ``AttributeError`` for any other name."""
    if name not in NAMES:
        raise AttributeError(f"module 'zae_limiter' has no attribute {name!r}", name=name)
    module, _, new = NAMES[name].rpartition(".")
    message = f"zae_limiter.{name} is deprecated: use `from {module} import {new}`"
    warnings.warn(message, DeprecationWarning, stacklevel=3)
    return getattr(import_module(module), new)


def refuse_attribute(of: object, name: str) -> NoReturn:
    """Raise ``AttributeError`` for an attribute that an object lacks; it says the new name of an old one."""
    kind = type(of).__name__
    message = f"{kind!r} object has no attribute {name!r}"
    for known in type(of).__mro__:
        new = ATTRIBUTES.get(known.__name__.removeprefix("Sync"), {}).get(name)
        if new is not None:
            message = f"{message}: use {new}"
            break
    raise AttributeError(message, name=name, obj=of)


def refuse_arguments(function: str, given: Iterable[str]) -> None:
    """Raise ``TypeError`` for a keyword argument that a function lacks; it says the new name of an old one."""
    for name in given:
        message = f"{function}() got an unexpected keyword argument {name!r}"
        raise TypeError(f"{message}: use {ARGUMENTS[name]}" if name in ARGUMENTS else message)
