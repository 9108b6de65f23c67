"""The rules for names of entities, resources, limits, namespaces and principals, with their checks."""

import re
from functools import lru_cache
from typing import Final

from .exceptions import InvalidIdentifierError, InvalidNameError, ValidationError

DEFAULT_RESOURCE: Final = "_default_"

RESERVED_LIMIT_NAMES: Final = (
    "wcu",
    *("PK", "SK", "GSI1PK", "GSI1SK", "GSI2PK", "GSI2SK", "GSI3PK", "GSI3SK", "GSI4PK", "GSI4SK"),
    *("entity_id", "resource", "shard_count", "cascade", "parent_id", "name", "metadata", "created_at", "version"),
    *("rf", "cv", "ev", "ttl", "window", "window_start", "total_events", "config_version", "on_unavailable"),
    *("override_until", "fingerprint", "child_count", "event_id", "action", "at", "principal", "before", "after"),
    *("serial", "owner", "lock", "tag", "parts", "handled", "last_applied", "applied_hash"),
    *("managed_system", "managed_resources", "managed_entities"),
    *("intended_system", "intended_resources", "intended_entities"),
    *("namespace_id", "deleted_at", "purging_at", "purged_at", "schema_version", "core_version", "min_client_version"),
)

# Explicit classes and fullmatch: \w and \d know letters and digits beyond ASCII, and $ lets a last newline pass.
_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_\-.:@]{0,255}")
_RESOURCE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_\-./:]{0,127}")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_\-.]{0,63}")
_NAMESPACE_ID: Final = re.compile(r"[A-Za-z0-9_\-]{1,64}")

_IDENTIFIER_RULE: Final = "must be 1 to 256 characters: an ASCII letter or digit, then letters, digits and _ - . : @"
_RESOURCE_RULE: Final = "must be 1 to 128 characters: an ASCII letter, then letters, digits and _ - . / :"
_NAME_RULE: Final = "must be 1 to 64 characters: an ASCII letter, then letters, digits and _ - ."


def check_identifier(field: str, value: object) -> str:
    """Return ``value`` if it is a valid entity id; ``InvalidIdentifierError`` otherwise."""
    # The length comes first, so that the caches hold no endless strings.
    if isinstance(value, str) and len(value) <= 256 and _is_identifier(value):
        return value
    raise InvalidIdentifierError(field, value, _problem(value, _IDENTIFIER_RULE))


def check_resource(field: str, value: object, *, allow_default: bool = False) -> str:
    """Return ``value`` if it is a valid resource name; ``InvalidIdentifierError`` otherwise.

    ``allow_default`` also admits ``_default_``, which means all resources of an entity.
    """
    if isinstance(value, str) and len(value) <= 128 and _is_resource(value):
        return value
    if value == DEFAULT_RESOURCE and isinstance(value, str) and allow_default:
        return value
    reserved = "is reserved" if value == DEFAULT_RESOURCE else None
    raise InvalidIdentifierError(field, value, reserved or _problem(value, _RESOURCE_RULE))


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


# Every acquire checks its names, and they are few: a look-up instead of a match.
@lru_cache(maxsize=16_384)
def _is_identifier(value: str) -> bool:
    return _IDENTIFIER.fullmatch(value) is not None


@lru_cache(maxsize=4_096)
def _is_resource(value: str) -> bool:
    return _RESOURCE.fullmatch(value) is not None


@lru_cache(maxsize=4_096)
def _is_limit_name(value: str) -> bool:
    return _NAME.fullmatch(value) is not None and value not in RESERVED_LIMIT_NAMES


def _problem(value: object, rule: str) -> str:
    return rule if isinstance(value, str) else f"must be a string, not {type(value).__name__}"
