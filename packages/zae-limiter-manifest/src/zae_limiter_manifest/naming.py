"""The rules for names of namespaces, limits, resources and entities."""

import re
from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple
from unicodedata import normalize

RESERVED_LIMIT_NAMES: Final = (
    "wcu",
    "total_events",
    "total_refused",
    "total_shadowed",
    "total_uncounted",
    "total_below",
    "total_refused_below",
)

DEFAULT_RESOURCE: Final = "_default_"
PATTERN_END: Final = "*"  # of a pattern of resources, `openai/*`; no resource ends with it
TIER_SUBJECT: Final = "$TIER:"  # with a tier's name, it stands where others have an entity


class NameKind(Enum):
    """The kind of thing that a name identifies; the value is the word in messages."""

    NAMESPACE = "namespace"
    LIMIT = "limit"
    RESOURCE = "resource"
    RESOURCE_OR_DEFAULT = "resource_or_default"
    RESOURCE_OR_PATTERN = "resource_or_pattern"
    ENTITY = "entity"
    TIER = "tier"


class _Form(NamedTuple):
    """The rule of a kind. A text is checked by its pattern, which JSON Schema has, too, and by its length in NFC and in
    bytes.
    """

    pattern: re.Pattern[str]
    rule: str
    reserved: tuple[str, ...] = ()
    longest: int = 0
    most_bytes: int = 0

    @classmethod
    def of_text(cls, longest: int, most_bytes: int, reserved: tuple[str, ...] = ()) -> "_Form":
        """Return the form of an id that may have any printable characters."""
        rule = (
            f"must be 1 to {longest} printable characters without white space, "
            f"at most {most_bytes} bytes when all but ASCII letters, digits and `_ - . : @ ~` is percent-encoded"
        )
        return cls(re.compile(r"\S+"), rule, reserved, longest, most_bytes)

    def matches(self, name: str) -> bool:
        """Return whether the text, in NFC, follows the rule."""
        if not self.longest:
            return self.pattern.fullmatch(name) is not None
        fits = len(name) <= self.longest and self.pattern.fullmatch(name) is not None and name.isprintable()
        # Most names are short enough for every character to be encoded, and need no count.
        return fits and (3 * len(name.encode()) <= self.most_bytes or _size(name) <= self.most_bytes)


_SHORT_NAME: Final = _Form(
    re.compile(r"[A-Za-z][A-Za-z0-9_.\-]{0,63}"),
    "must be a letter, then letters, digits, `_`, `-` or `.`; 64 characters at most",
)
_RESOURCE_TEXT: Final = _Form.of_text(128, 384)
_RESOURCE: Final = _RESOURCE_TEXT._replace(
    pattern=re.compile(r"\S*[^\s*]"), rule=f"{_RESOURCE_TEXT.rule}, without a `*` at the end"
)
_PATTERN: Final = _RESOURCE_TEXT._replace(
    pattern=re.compile(r"[^\s*]*\*|\S*[^\s*]"),
    rule=f"{_RESOURCE_TEXT.rule}; a pattern has one `*`, at its end",
    reserved=(DEFAULT_RESOURCE,),
)
_ENTITY: Final = _Form.of_text(256, 512, ("$SYSTEM",))
_FORMS: Final = {
    NameKind.NAMESPACE: _SHORT_NAME,
    NameKind.LIMIT: _SHORT_NAME._replace(reserved=RESERVED_LIMIT_NAMES),
    NameKind.RESOURCE: _RESOURCE._replace(reserved=(DEFAULT_RESOURCE,)),
    NameKind.RESOURCE_OR_DEFAULT: _RESOURCE,
    NameKind.RESOURCE_OR_PATTERN: _PATTERN,
    NameKind.TIER: _SHORT_NAME,
    NameKind.ENTITY: _ENTITY._replace(pattern=re.compile(r"(?!\$(?:RESOURCE|TIER):)\S+")),
}
_LONGEST_DECOMPOSITION: Final = 4  # characters that NFC makes one of
_LONGEST_SPELLING: Final = _LONGEST_DECOMPOSITION * _ENTITY.longest
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:@~\-]")


# What nearly all ids and resources are: it has none of the characters, beginnings and lengths that the rules are about.
_SIMPLE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@~\-]{0,127}")
_TEXTS: Final = frozenset(
    {NameKind.RESOURCE, NameKind.RESOURCE_OR_DEFAULT, NameKind.RESOURCE_OR_PATTERN, NameKind.ENTITY}
)


def find_name_problem(kind: NameKind, value: object) -> str | None:
    """Return the problem of `value` as a name of this kind, as a phrase that follows the name; None if it is valid."""
    if not isinstance(value, str):
        return "must be a string"
    if kind in _TEXTS and _SIMPLE.fullmatch(value):
        return None
    if value == DEFAULT_RESOURCE and kind in (NameKind.RESOURCE, NameKind.RESOURCE_OR_PATTERN):
        return "is reserved: it means all resources of an entity"
    if kind in (NameKind.RESOURCE, NameKind.RESOURCE_OR_DEFAULT) and value.endswith(PATTERN_END):
        return "ends with `*`: patterns are for `resources` at the top of the file alone, name each one here"
    form = _FORMS[kind]
    if value in form.reserved:
        return "is a reserved name"
    composed = in_nfc(value)
    if kind is NameKind.ENTITY and composed.startswith(("$RESOURCE:", "$TIER:")):
        return "is a reserved name"
    return None if form.matches(composed if form.longest else value) else form.rule


def in_nfc(name: str) -> str:
    """Return the name in Unicode's form NFC, in which all its spellings are equal; unchanged if it is too long for a
    name.
    """
    if not isinstance(name, str) or name.isascii() or len(name) > _LONGEST_SPELLING:
        return name
    return normalize("NFC", name)


def matching(names: Iterable[str], resource: str) -> list[str]:
    """Return the patterns among the names that a resource or a longer pattern matches, the longest first."""
    patterns = (each for each in names if each.endswith(PATTERN_END) and each != resource)
    return sorted((each for each in patterns if resource.startswith(each[:-1])), key=len, reverse=True)


def name_pattern(kind: NameKind) -> str:
    """Return the regular expression that a whole name of this kind matches."""
    return _FORMS[kind].pattern.pattern


def reserved_names(kind: NameKind) -> tuple[str, ...]:
    """Return the names that match the pattern but are refused."""
    return _FORMS[kind].reserved


def _size(name: str) -> int:
    """Return the most bytes that the name takes in a key."""
    return 3 * len(name.encode()) - 2 * len(_PLAIN.findall(name))
