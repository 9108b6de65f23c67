"""The rules for names of namespaces, limits, resources and entities."""

import re
from enum import Enum
from typing import Final, NamedTuple

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

DEFAULT_RESOURCE: Final = "_default_"


class NameKind(Enum):
    """The kind of thing that a name identifies; the value is the word in messages."""

    NAMESPACE = "namespace"
    LIMIT = "limit"
    RESOURCE = "resource"
    RESOURCE_OR_DEFAULT = "resource_or_default"
    ENTITY = "entity"


class _Form(NamedTuple):
    pattern: re.Pattern[str]
    rule: str
    reserved: tuple[str, ...] = ()


_SHORT_NAME: Final = _Form(
    re.compile(r"[A-Za-z][A-Za-z0-9_.\-]{0,63}"),
    "must be a letter, then letters, digits, `_`, `-` or `.`; 64 characters at most",
)
_RESOURCE: Final = _Form(
    re.compile(r"[A-Za-z][A-Za-z0-9_.\/:\-]{0,127}"),
    "must be a letter, then letters, digits, `_`, `-`, `.`, `/` or `:`; 128 characters at most",
)
_IDENTIFIER: Final = _Form(
    re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@\-]{0,255}"),
    "must be a letter or digit, then letters, digits, `_`, `-`, `.`, `:` or `@`; 256 characters at most",
)
_FORMS: Final = {
    NameKind.NAMESPACE: _SHORT_NAME,
    NameKind.LIMIT: _SHORT_NAME._replace(reserved=RESERVED_LIMIT_NAMES),
    NameKind.RESOURCE: _RESOURCE,
    NameKind.RESOURCE_OR_DEFAULT: _RESOURCE._replace(
        pattern=re.compile(f"{_RESOURCE.pattern.pattern}|{DEFAULT_RESOURCE}")
    ),
    NameKind.ENTITY: _IDENTIFIER,
}


def find_name_problem(kind: NameKind, value: object) -> str | None:
    """The problem of `value` as a name of this kind, as a phrase that follows the name; None if it is valid."""
    if not isinstance(value, str):
        return "must be a string"
    if value == DEFAULT_RESOURCE and kind is NameKind.RESOURCE:
        return "is reserved: it means all resources of an entity"
    form = _FORMS[kind]
    if value in form.reserved:
        return "is a reserved name"
    return None if form.pattern.fullmatch(value) else form.rule


def name_pattern(kind: NameKind) -> str:
    """The regular expression that a whole name of this kind matches."""
    return _FORMS[kind].pattern.pattern


def reserved_names(kind: NameKind) -> tuple[str, ...]:
    """The names that match the pattern but are refused."""
    return _FORMS[kind].reserved
