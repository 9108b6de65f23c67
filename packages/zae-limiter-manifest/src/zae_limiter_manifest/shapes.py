"""What a value may be, as a value: the checks, the JSON Schema and CloudFormation's spelling all read the same one.
Never looks at what is checked, and never knows what a manifest holds."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from attrs import NOTHING, AttrsInstance, fields, frozen

from .naming import NameKind


@frozen
class Integer:
    """An integer from 1 to `highest`, no boolean; `as_text`: its digits as text will do."""

    highest: int
    as_text: bool = False


@frozen
class Choice:
    """One of the words."""

    words: tuple[str, ...]


@frozen
class Flag:
    """True or false, or either as text."""


@frozen
class Anything:
    """Any value: somebody else's."""


@frozen
class Name:
    """A good name of this kind."""

    kind: NameKind


@frozen
class Table:
    """A map from names of one kind to values of one shape, with `least` entries or more, `most` at most."""

    kind: NameKind
    entry: "Shape"
    least: int = 0
    most: int | None = None


@frozen
class Member:
    """One key of a record, what it means, and the key whose integer its own must not be below."""

    shape: "Shape"
    text: str
    required: bool = False
    at_least: str | None = None
    default: object = None


@frozen
class Record:
    """A map of known keys; its title is the name of the model that states it."""

    title: str
    text: str
    members: Mapping[str, Member]


Shape = Integer | Choice | Flag | Anything | Name | Table | Record

_KEY: Final = "zae_limiter_manifest"


def about(shape: Shape, text: str, *, at_least: str | None = None) -> dict[str, Any]:
    """The metadata by which a field of a model says what it may be and what it means."""
    return {_KEY: (shape, text, at_least)}


@cache
def record_of(model: type[AttrsInstance]) -> Record:
    """The shape of the plain form of a model, as its fields state it."""
    members = {}
    for each in fields(model):
        shape, text, at_least = each.metadata[_KEY]
        default = each.default if isinstance(each.default, int) else None
        members[each.name] = Member(shape, text, each.default is NOTHING, at_least, default)
    return Record(model.__name__, (model.__doc__ or "").partition(";")[0].rstrip("."), members)
