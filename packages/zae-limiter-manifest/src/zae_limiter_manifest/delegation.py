"""Name the alias of a Lambda that serves one namespace alone.

IAM grants the invoke of an alias, not of a payload, and Lambda tells a function by which alias it was invoked: so an
alias is what a principal of one namespace may be given. Aliases have letters, digits, `-` and `_`, and namespaces
`.`, too: `_` is written `__`, and `.` is written `_d`.
"""

import re
from typing import Final

from .naming import NameKind, find_name_problem

ALIAS_PREFIX: Final = "ns-"
LONGEST_ALIAS: Final = 128  # Lambda's own bound

_ESCAPES: Final = {"_": "__", ".": "_d"}
_WRITTEN: Final = re.compile(r"_.?")


def alias_of(namespace: str) -> str:
    """Return the alias that serves a namespace alone. Raises ``ValueError`` if Lambda takes no alias for the name."""
    if problem := find_name_problem(NameKind.NAMESPACE, namespace):
        raise ValueError(f"namespace {namespace!r} {problem}")
    alias = ALIAS_PREFIX + "".join(_ESCAPES.get(each, each) for each in namespace)
    if len(alias) > LONGEST_ALIAS:
        raise ValueError(
            f"namespace {namespace!r} cannot be delegated: its alias has {len(alias)} characters, "
            f"and Lambda takes {LONGEST_ALIAS}; `_` and `.` count twice"
        )
    return alias


def namespace_of(alias: str) -> str | None:
    """Return the namespace that an alias serves; ``None`` if it is not an alias of one namespace.

    Raises ``ValueError`` if it begins as such an alias, and names no namespace.
    """
    if not alias.startswith(ALIAS_PREFIX):
        return None
    read = {written: each for each, written in _ESCAPES.items()}
    namespace = _WRITTEN.sub(lambda found: read.get(found[0], "?"), alias.removeprefix(ALIAS_PREFIX))
    if find_name_problem(NameKind.NAMESPACE, namespace) or alias_of(namespace) != alias:
        raise ValueError(f"the alias {alias!r} names no namespace")
    return namespace
