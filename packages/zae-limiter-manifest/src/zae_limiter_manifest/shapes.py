"""Shapes: the rules for plain values. The checks, the JSON Schema and CloudFormation's spelling all use them."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from attrs import NOTHING, AttrsInstance, field, fields, frozen

from .naming import NameKind

DEFAULT_REFILL_PERIOD_SECONDS: Final = 60
INHERIT: Final = "inherit"  # of a switch: it says no more than no key

Conflicts = Callable[[Mapping[object, object]], Iterator[tuple[object, str]]]


@frozen
class Integer:
    """An integer from `least` to `highest`, not a boolean; `as_text` also allows its digits as text."""

    highest: int
    as_text: bool = False
    least: int = 1


@frozen
class Seconds:
    """A number of seconds from 0 to `highest`, in whole milliseconds; `as_text` also allows it as text."""

    highest: int
    as_text: bool = False


@frozen
class Number:
    """A number from 0 to `highest` with at most `decimals` decimals; `as_text` also allows it as text."""

    highest: int
    decimals: int
    as_text: bool = False


@frozen
class Choice:
    """One of the words, of which there are at least two."""

    words: tuple[str, ...]

    @property
    def alternatives(self) -> str:
        """The words for readers: `a`, `b` or `c`."""
        *others, last = (f"`{word}`" for word in self.words)
        return f"{', '.join(others)} or {last}"


@frozen
class Choices:
    """A list of some of the words, each once."""

    words: tuple[str, ...]


@frozen
class Flag:
    """True or false; `as_text` also allows either as text."""

    as_text: bool = False


@frozen
class Cascading:
    """`on`, `off` or `inherit`. YAML 1.1 reads the first two as true and false, CloudFormation passes these as text."""


@frozen
class Window:
    """The name of a calendar window, or a cron expression."""


@frozen
class Zone:
    """A time zone."""


@frozen
class Entries:
    """A list of the entries of a schedule, each of them one text."""


@frozen
class Percents:
    """A list of one to `most` whole numbers from 1 to 100, each above the one before; `as_text` also allows their
    digits as text.
    """

    most: int
    as_text: bool = False


@frozen
class Percent:
    """A whole percentage from 1 % to 99 %, as text: `80%`."""


@frozen
class Text:
    """A text of at most so many characters."""

    longest: int


@frozen
class Names:
    """A list of valid names of this kind, with `least` to `most` entries, each once."""

    kind: NameKind
    most: int
    least: int = 1


@frozen
class JsonMap:
    """A map of texts to values that JSON has: texts, numbers, booleans, `null`, lists and maps; `as_text` also allows
    its JSON.
    """

    as_text: bool = False


@frozen
class Anything:
    """Any value, without checks."""


@frozen
class Name:
    """A valid name of this kind."""

    kind: NameKind


@frozen
class NamedMap:
    """A map from names of one kind to values of one shape, with `least` to `most` entries; `advice`: what to do with
    more. `word`: what may stand in place of the map.
    """

    kind: NameKind
    entry: "Shape"
    least: int = 0
    most: int | None = None
    advice: str = ""
    word: str = ""


@frozen
class Member:
    """One key of a record and its meaning; `at_least`: the key whose integer is its lower bound, and its value if 0.

    `spreads_to`: the key of a map whose every entry has this flag, too, so that none may contradict it; or has these
    seconds, unless it has its own. `off`: the keys of the burst from which these seconds take what comes in them.
    `unless`: a key that is required may be missing beside one of these.
    """

    shape: "Shape"
    text: str
    required: bool = False
    at_least: str | None = None
    default: object = None
    spreads_to: str | None = None
    off: "Refill | None" = None
    unless: tuple[str, ...] = ()

    @property
    def has_rules(self) -> bool:
        """Whether it has rules beside its shape: it is required, or goes with other keys."""
        return bool(self.required or self.at_least or self.spreads_to or isinstance(self.shape, Seconds))

    def is_missing(self, key: str, value: Mapping[object, object]) -> bool:
        """Return whether a map lacks the key although it has to have it."""
        said = (value.get(each) not in (None, INHERIT) for each in self.unless)
        return self.required and key not in value and not any(said)


@frozen
class Refill:
    """The keys of a limit's numbers, as they are spelled; `period` has a default, the others follow the capacity."""

    capacity: str
    burst: str
    amount: str
    period: str


@frozen(eq=False)
class Record:
    """A map of known keys; its title is the name of its model.

    `conflicts` yields the keys of a value that do not go with the others, and why.
    `short`: it may also be the text of a limit, whose fields are these keys.
    `recurs`: many values of one manifest are equal, so that checks remember those without a problem.
    """

    title: str
    text: str
    members: Mapping[str, Member]
    conflicts: Conflicts | None = None
    short: Mapping[str, str] | None = None
    recurs: bool = False
    ruled: Mapping[str, Member] = field(init=False, eq=False, repr=False)
    """The members that have rules beside their shape: most entities of a manifest have none of them."""

    @ruled.default
    def _those_with_rules(self) -> Mapping[str, Member]:
        return {key: member for key, member in self.members.items() if member.has_rules}


Shape = (
    Integer
    | Seconds
    | Number
    | Choice
    | Choices
    | Flag
    | Cascading
    | Window
    | Zone
    | Entries
    | Percents
    | Percent
    | Text
    | JsonMap
    | Anything
    | Name
    | Names
    | NamedMap
    | Record
)

_KEY: Final = "zae_limiter_manifest"


def about(shape: Shape, text: str, *, at_least: str | None = None, off: Refill | None = None) -> dict[str, Any]:
    """Return the metadata of a model's field: its shape and its meaning."""
    return {_KEY: (shape, text, at_least, off)}


@cache
def record_of(model: type[AttrsInstance]) -> Record:
    """Return the shape of a model's plain values, from the metadata of its fields."""
    members = {}
    for each in fields(model):
        if not each.metadata:
            continue
        shape, text, at_least, off = each.metadata[_KEY]
        default = each.default if isinstance(each.default, int) else None
        members[each.name] = Member(shape, text, each.default is NOTHING, at_least, default, off=off)
    return Record(model.__name__, (model.__doc__ or "").partition(";")[0].rstrip("."), members)
