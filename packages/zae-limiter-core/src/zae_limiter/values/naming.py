"""The rules for names of entities, resources, limits, namespaces and principals, with their checks."""

import re
from functools import lru_cache
from typing import Final
from unicodedata import normalize

from ..exceptions import InvalidIdentifierError, InvalidNameError, ValidationError

DEFAULT_RESOURCE: Final = "_default_"
PATTERN_END: Final = "*"  # no resource ends with it: who writes `openai/*` means a pattern (``patterns``)

DISABLED: Final = "disabled"  # counts calls that a disable refused, in place of a limit's name

# A bucket counts its writes as `wcu`; usage sorts by the totals, beside the limits.
RESERVED_LIMIT_NAMES: Final = (
    "wcu", "total_events", "total_refused", "total_shadowed", "total_uncounted", "total_below", "total_refused_below",
    DISABLED,
)  # fmt: skip

SYSTEM_SUBJECT: Final = "$SYSTEM"  # what audit events of levels are filed under, beside the entities' ids
RESOURCE_SUBJECT: Final = "$RESOURCE:"
TIER_SUBJECT: Final = "$TIER:"

RUN_PREFIX: Final = "run:"  # how the entities of runs begin (``run_budgets``)
RUN_RESOURCE: Final = "budget"
"""The resource of all buckets of runs."""

LONGEST_IDENTIFIER: Final = 256
LONGEST_RESOURCE: Final = 128
_MOST_IDENTIFIER_BYTES: Final = 512  # with those of a resource and the rest, below 1,024 in each sort key
_MOST_RESOURCE_BYTES: Final = 384
_LONGEST_DECOMPOSITION: Final = 4  # characters that NFC makes one of

# Explicit classes and fullmatch: \w and \d know letters and digits beyond ASCII, and $ lets a last newline pass.
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_\-.]{0,63}")
_NAMESPACE_ID: Final = re.compile(r"[A-Za-z0-9_\-]{1,64}")

_TEXT_RULE: Final = (
    "must be 1 to {} printable characters without white space, "
    "at most {} bytes when all but ASCII letters, digits and _ - . : @ ~ is percent-encoded"
)
_IDENTIFIER_RULE: Final = _TEXT_RULE.format(LONGEST_IDENTIFIER, _MOST_IDENTIFIER_BYTES)
_RESOURCE_RULE: Final = _TEXT_RULE.format(LONGEST_RESOURCE, _MOST_RESOURCE_BYTES)
_NAME_RULE: Final = "must be 1 to 64 characters: an ASCII letter, then letters, digits and _ - ."


def check_identifier(field: str, value: object) -> str:
    """Return ``value`` in NFC if it is a valid entity id; ``InvalidIdentifierError`` otherwise."""
    if isinstance(value, str):
        # The length comes first, so that the caches hold no endless strings.
        short = value if len(value) <= LONGEST_IDENTIFIER else _compose(value, LONGEST_IDENTIFIER)
        if (checked := _identifier(short)) is not None:
            return checked
    reserved = isinstance(value, str) and _is_subject(value)
    raise InvalidIdentifierError(field, value, "is reserved" if reserved else _problem(value, _IDENTIFIER_RULE))


def check_resource(field: str, value: object, *, allow_default: bool = False, allow_pattern: bool = False) -> str:
    """Return ``value`` in NFC if it is a valid resource name; ``InvalidIdentifierError`` otherwise.

    ``allow_default`` also admits ``_default_``, which means all resources of an entity; ``allow_pattern`` a pattern of
    resources: ``anthropic/*``, or ``*``.
    """
    if allow_pattern and isinstance(value, str) and value.endswith(PATTERN_END):
        return _check_pattern(field, value)
    if isinstance(value, str):
        short = value if len(value) <= LONGEST_RESOURCE else _compose(value, LONGEST_RESOURCE)
        if (checked := _resource(short)) is not None:
            return checked
        if allow_default and value == DEFAULT_RESOURCE:
            return DEFAULT_RESOURCE
    reserved = "is reserved" if value == DEFAULT_RESOURCE else None
    if isinstance(value, str) and value.endswith(PATTERN_END):
        reserved = "ends with *: only the defaults of resources may be those of a pattern, name the resource here"
    raise InvalidIdentifierError(field, value, reserved or _problem(value, _RESOURCE_RULE))


def _check_pattern(field: str, value: str) -> str:
    short = value if len(value) <= LONGEST_RESOURCE else _compose(value, LONGEST_RESOURCE)
    pattern = normalize("NFC", str.__str__(short))
    if PATTERN_END in pattern[:-1]:
        raise InvalidIdentifierError(field, value, "has more than one *: a pattern has one, at its end")
    if not _fits(pattern, LONGEST_RESOURCE, _MOST_RESOURCE_BYTES):
        raise InvalidIdentifierError(field, value, _RESOURCE_RULE)
    return pattern


def check_limit_name(field: str, value: object) -> str:
    """Return ``value`` if it is a valid limit name; ``InvalidNameError`` otherwise."""
    if isinstance(value, str) and len(value) <= 64 and _is_limit_name(value):
        return value
    reserved = "is reserved" if isinstance(value, str) and value in RESERVED_LIMIT_NAMES else None
    raise InvalidNameError(field, value, reserved or _problem(value, _NAME_RULE))


def check_namespace(field: str, value: object) -> str:
    """Return ``value`` if it is a valid namespace name; ``InvalidNameError`` otherwise."""
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise InvalidNameError(field, value, _problem(value, _NAME_RULE))


check_tier = check_namespace  # the names of tiers follow the same rule


def check_namespace_id(field: str, value: object) -> str:
    """Return ``value`` if it is a valid namespace id; ``InvalidIdentifierError`` otherwise."""
    if isinstance(value, str) and _NAMESPACE_ID.fullmatch(value):
        return value
    raise InvalidIdentifierError(field, value, _problem(value, "must be 1 to 64 ASCII letters, digits and _ -"))


def check_principal(field: str, value: object) -> str:
    """Return ``value`` if it is a valid principal; ``ValidationError`` otherwise."""
    if isinstance(value, str) and 1 <= len(value) <= 256 and value.isprintable():
        return value
    raise ValidationError(field, value, _problem(value, "must be 1 to 256 printable characters"))


def check_idempotency_key(field: str, value: object) -> str:
    """Return ``value`` in NFC if it is a valid idempotency key, by the rule of an entity id; ``ValidationError``
    otherwise.
    """
    if isinstance(value, str) and len(value) <= _LONGEST_DECOMPOSITION * LONGEST_IDENTIFIER:
        key = normalize("NFC", str.__str__(value))
        if _fits(key, LONGEST_IDENTIFIER, _MOST_IDENTIFIER_BYTES):
            return key
    raise InvalidIdentifierError(field, value, _problem(value, _IDENTIFIER_RULE))


# Every acquire checks its names, and they are few: a look-up instead of a match.
@lru_cache(maxsize=16_384)
def _identifier(value: str) -> str | None:
    """Return the id in NFC, as a plain string; ``None`` if it is not valid."""
    name = normalize("NFC", str.__str__(value))
    return name if _fits(name, LONGEST_IDENTIFIER, _MOST_IDENTIFIER_BYTES) and not _is_subject(name) else None


@lru_cache(maxsize=4_096)
def _resource(value: str) -> str | None:
    """Return the resource in NFC, as a plain string; ``None`` if it is not valid."""
    name = normalize("NFC", str.__str__(value))
    if name == DEFAULT_RESOURCE or name.endswith(PATTERN_END):
        return None
    return name if _fits(name, LONGEST_RESOURCE, _MOST_RESOURCE_BYTES) else None


@lru_cache(maxsize=4_096)
def _is_limit_name(value: str) -> bool:
    return _NAME.fullmatch(value) is not None and value not in RESERVED_LIMIT_NAMES


def _compose(value: str, longest: int) -> str:
    """Return a text in NFC, which may be shorter; an empty one, which names nothing, where it stays too long."""
    composed = normalize("NFC", value) if len(value) <= _LONGEST_DECOMPOSITION * longest else ""
    return composed if len(composed) <= longest else ""


def _fits(name: str, longest: int, most_bytes: int) -> bool:
    if not (1 <= len(name) <= longest and name.isprintable() and " " not in name):
        return False
    if 3 * len(name.encode()) <= most_bytes:  # most names are short, however they are encoded
        return True
    from urllib.parse import quote

    return len(quote(name, safe=":@")) <= most_bytes


def _is_subject(value: str) -> bool:
    return value == SYSTEM_SUBJECT or value.startswith((RESOURCE_SUBJECT, TIER_SUBJECT))


def _problem(value: object, rule: str) -> str:
    return rule if isinstance(value, str) else f"must be a string, not {type(value).__name__}"


def refuse_run(entity_id: object) -> None:
    """Raise ``InvalidIdentifierError`` for the entity of a run: a name of a client must not drain its budget."""
    if str(entity_id).startswith(RUN_PREFIX):
        raise InvalidIdentifierError("entity_id", entity_id, "is of a run: acquire from its `limiter.budget(…)`")
