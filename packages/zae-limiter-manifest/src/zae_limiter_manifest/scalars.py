"""Read one YAML scalar as None, a boolean, a number, a date or text, like yaml.safe_load."""

import re
from decimal import Decimal
from functools import lru_cache, reduce
from typing import Final, Self

from yaml.constructor import SafeConstructor
from yaml.events import ScalarEvent
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from .problems import show

_STRING_TAG: Final = "tag:yaml.org,2002:str"
_INTEGER_TAG: Final = "tag:yaml.org,2002:int"
_FLOAT_TAG: Final = "tag:yaml.org,2002:float"
_MERGE_TAG: Final = "tag:yaml.org,2002:merge"
_NO_TAG: Final = (None, "!")
# YAML 1.1 gives a lone "=" and "<<" a special meaning, which is never meant in a value.
_READ_AS_TEXT: Final = (_STRING_TAG, "tag:yaml.org,2002:value", _MERGE_TAG)
_LONGEST_KEPT: Final = 64
# YAML 1.1 reads octal, hexadecimal, binary and sexagesimal numbers; people and YAML 1.2 may read other values.
_DECIMAL: Final = re.compile(r"-?(0|[1-9][0-9]*(_[0-9]+)*)")
_OCTAL: Final = re.compile(r"[-+]?0[0-7_]+")
_LARGEST_ADVISED: Final = 10**18
_LONGEST_COUNTED: Final = 32
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_RESOLVER: Final = Resolver()


class ScalarError(ValueError):
    """A scalar without a valid value; the message gives the reason."""


class OddInteger(int):
    """An integer of YAML 1.1 whose `text` is not in plain decimal digits."""

    text: str

    @classmethod
    def of(cls, value: int, text: str) -> Self:
        """Return the integer with its source text."""
        odd = cls(value)
        odd.text = text
        return odd

    @property
    def advice(self) -> str:
        """Return the correct spelling; two spellings if the text may mean two numbers."""
        if abs(self) > _LARGEST_ADVISED:
            return "write its decimal digits"
        meant = {int(self), int(Decimal(self.text))} if _OCTAL.fullmatch(self.text) else {int(self)}
        return f"write {' or '.join(map(str, sorted(meant, key=abs)))}"


def read_scalar(event: ScalarEvent) -> object:
    """Return the value of a scalar; an `OddInteger` if its digits are not plain decimal ones.

    Raises `ScalarError` for a foreign tag, a lone surrogate, a number in base 60, and for text that only looks like
    a number or a date.
    """
    if event.tag is None and len(event.value) <= _LONGEST_KEPT:
        return _plain(event.value) if event.implicit[0] else _in_unicode(event.value)
    if event.tag not in _NO_TAG and event.tag != _STRING_TAG:
        raise ScalarError(f"the tag {show(event.tag)} is not supported")
    text = _in_unicode(event.value)
    tag = _tag_of(event)
    return text if tag in _READ_AS_TEXT else _construct(tag, text)


def is_merge_key(event: ScalarEvent) -> bool:
    """Return whether a key is the plain `<<` that asks YAML 1.1 to merge maps."""
    return event.value == "<<" and _tag_of(event) == _MERGE_TAG


def _tag_of(event: ScalarEvent) -> str:
    if event.tag not in _NO_TAG:
        return str(event.tag)
    return str(_RESOLVER.resolve(ScalarNode, event.value, event.implicit))  # type: ignore[no-untyped-call]


def _construct(tag: str, text: str) -> object:
    if tag == _INTEGER_TAG and ":" in text:  # a long one takes minutes
        raise ScalarError(
            f"{show(text)} is an integer in base 60 for YAML: {_decimal_advice(text)}, or put it in quotes"
        )
    if tag == _FLOAT_TAG and ":" in text:
        raise ScalarError(
            f"{show(text)} is a number in base 60 for YAML: write it in decimal digits, or put it in quotes"
        )
    try:
        # A constructor keeps the values that it has built, so each scalar gets a new one.
        value: object = SafeConstructor().construct_object(ScalarNode(tag, text))
    except (ValueError, OverflowError):
        raise ScalarError(f"cannot be read as {tag.rpartition(':')[2]}: {show(text)}") from None
    return OddInteger.of(value, text) if type(value) is int and not _DECIMAL.fullmatch(text) else value


def _decimal_advice(text: str) -> str:
    """Return how to write a short integer in base 60, such as hours, minutes and seconds, in decimal digits."""
    if len(text) > _LONGEST_COUNTED:
        return "write it in decimal digits"
    seconds = reduce(lambda total, digits: total * 60 + int(digits), text.strip("-+").replace("_", "").split(":"), 0)
    return f"write {'-' if text.startswith('-') else ''}{seconds}"


@lru_cache(maxsize=4096)
def _plain(text: str) -> object:
    """Return the value of a short scalar without quotes and tag: a large manifest repeats few of them many times."""
    tag = str(_RESOLVER.resolve(ScalarNode, _in_unicode(text), (True, False)))  # type: ignore[no-untyped-call]
    return text if tag in _READ_AS_TEXT else _construct(tag, text)


def _in_unicode(text: str) -> str:
    """Return the text. Raises `ScalarError` for a lone surrogate."""
    # PyYAML without libyaml reads the escape "\ud800".
    if not text.isascii() and (surrogate := _SURROGATE.search(text)):
        raise ScalarError(f"the lone surrogate U+{ord(surrogate[0]):04X} is not a character")
    return text
