"""One YAML scalar into None, a boolean, a number, a date or text, as yaml.safe_load reads it.
Never sees a map, a list or the rest of the document."""

from typing import Final

from yaml.constructor import SafeConstructor
from yaml.events import ScalarEvent
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from .problems import show

_STRING_TAG: Final = "tag:yaml.org,2002:str"
_MERGE_TAG: Final = "tag:yaml.org,2002:merge"
_NO_TAG: Final = (None, "!")
# YAML 1.1 gives a lone "=" and "<<" a meaning that nobody who writes one as a value has in mind.
_READ_AS_TEXT: Final = (_STRING_TAG, "tag:yaml.org,2002:value", _MERGE_TAG)


class _Scalars(Resolver, SafeConstructor):
    """The two layers of yaml.SafeLoader that know scalars; keeps what it has built, so one serves one scalar."""

    def __init__(self) -> None:
        Resolver.__init__(self)
        SafeConstructor.__init__(self)


class ScalarError(ValueError):
    """A scalar that has no value; the message says why."""


def read_scalar(event: ScalarEvent) -> object:
    """The value of a scalar; raises `ScalarError` for a foreign tag and for what only looks like a number or a date."""
    if event.tag not in (*_NO_TAG, _STRING_TAG):
        raise ScalarError(f"the tag {show(event.tag)} is not supported")
    tag = _tag_of(event)
    if tag in _READ_AS_TEXT:
        return event.value
    try:
        value: object = _Scalars().construct_object(ScalarNode(tag, event.value))
        return value
    except (ValueError, OverflowError):
        raise ScalarError(f"cannot be read as {tag.rpartition(':')[2]}: {show(event.value)}") from None


def is_merge_key(event: ScalarEvent) -> bool:
    """Whether a key is the plain `<<` that asks YAML 1.1 to merge maps."""
    return _tag_of(event) == _MERGE_TAG


def _tag_of(event: ScalarEvent) -> str:
    if event.tag not in _NO_TAG:
        return str(event.tag)
    return str(_Scalars().resolve(ScalarNode, event.value, event.implicit))  # type: ignore[no-untyped-call]
