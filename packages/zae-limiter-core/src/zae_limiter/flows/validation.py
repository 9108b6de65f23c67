"""Check the arguments of changes and lists. Rules that need the stored state are in ``records``."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ..exceptions import ValidationError
from ..runtime.named_tuple import NamedTuple
from ..values.entities import UNCHANGED, check_parent_ids
from ..values.limits import Limit, Policy, check_on_unavailable
from ..values.naming import check_identifier, check_resource, check_tier
from ..values.resolution import Said, check_said

LARGEST_PAGE = 1000
LONGEST_NAME = 256
MOST_KEYS = 50
LONGEST_KEY = 128
LONGEST_VALUE = 1024
DEEPEST_VALUE = 16
SMALLEST_NUMBER, LARGEST_NUMBER = -(2**63), 2**63 - 1
LARGEST_METADATA = 16 * 1024  # bytes; the audit event of a change has the metadata twice
OwnPlace = tuple[str, str]  # entity id and resource
P = TypeVar("P")
V = TypeVar("V")


def validate_page_size(limit: int) -> None:
    """Check how many records a page may have. Raises ``ValidationError``."""
    if type(limit) is not int or not 1 <= limit <= LARGEST_PAGE:
        raise ValidationError("limit", limit, f"must be a whole number from 1 to {LARGEST_PAGE}")


def validate_page(limit: int, start: str | None) -> None:
    """Check the size of a page, and the ``next`` of the page before. Raises ``ValidationError``."""
    validate_page_size(limit)
    if start is not None and not (isinstance(start, str) and 1 <= len(start) <= 100 and start.isascii()):
        raise ValidationError("start", start, "must be the `next` of the page before")


def validate_changes(changes: Mapping[OwnPlace, Sequence[Limit | str]], *, extends: bool) -> dict[OwnPlace, Said]:
    """Check the new limits, and return them by place. Raises ``ValidationError``."""
    if not isinstance(changes, Mapping):
        raise ValidationError("changes", changes, "must map places to limits, like {('key-1', 'gpt-4'): [...]}")
    checked = validate_keys("changes", changes, lambda place: validate_pair("changes", place))
    return {place: check_said(limits, extends=extends) for place, limits in checked.items()}


def validate_keys(field: str, given: Mapping[P, V], check: Callable[[P], P]) -> dict[P, V]:
    """Return the map with its keys checked. Raises ``ValidationError``, also for two keys that are equal once
    checked.
    """
    checked: dict[P, V] = {}
    for key, value in given.items():
        if (name := check(key)) in checked:
            raise ValidationError(field, key, "is there already, in another spelling of Unicode: leave one out")
        checked[name] = value
    return checked


def validate_places(places: Iterable[OwnPlace]) -> list[OwnPlace]:
    """Check the places, and return them in order, without duplicates. Raises ``ValidationError``."""
    if not isinstance(places, Iterable):
        raise ValidationError("places", places, "must be a list of places: (entity_id, resource)")
    return list(dict.fromkeys(validate_pair("places", place) for place in places))


def validate_pair(field: str, place: OwnPlace) -> OwnPlace:
    """Check a pair of entity id and resource, and return it as a place. Raises ``ValidationError``, which names
    ``field``.
    """
    if not isinstance(place, tuple) or len(place) != 2:
        raise ValidationError(field, place, "must name places as (entity_id, resource)")
    return validate_own_place(*place)


def validate_bucket(entity_id: object, resource: object) -> tuple[str, str]:
    """Check and return the entity and the resource of a bucket. Raises ``ValidationError``."""
    return check_identifier("entity_id", entity_id), check_resource("resource", resource)


def validate_own_place(entity_id: object, resource: object) -> OwnPlace:
    """Check and return the place of an entity's own limits, on a resource or on all (``_default_``). Raises
    ``ValidationError``.
    """
    return check_identifier("entity_id", entity_id), check_resource("resource", resource, allow_default=True)


def validate_system(
    limits: Sequence[Limit | str] | None, on_unavailable: Policy | None, *, has_policy: bool = False
) -> Said | None:
    """Check and return what the system config says of limits, ``None`` to keep the stored ones.

    Raises ``ValidationError``. With an ``on_unavailable``, or another policy, limits may be empty or ``None``.
    """
    if on_unavailable is not None:
        check_on_unavailable(on_unavailable)
    elif not has_policy:
        return check_said(limits or ())
    return None if limits in (None, [], ()) else check_said(limits)


def check_no_policy(on_refused: object) -> None:
    """Raise ``ValidationError`` for a policy beside an override."""
    if on_refused is not None:
        raise ValidationError("on_refused", str(on_refused), "is of the entity's own limits: leave override_until out")


def validate_update(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Check and return the fields to change, without those that are ``UNCHANGED``. Raises ``ValidationError``."""
    given = {name: value for name, value in fields.items() if value is not UNCHANGED}
    validate_name(given.get("name"))
    parents = validate_parents(given.pop("parent_id", UNCHANGED), given.pop("parent_ids", UNCHANGED))
    if parents is not None:
        given["parents"] = parents
    if validate_flag("cascade", given.get("cascade", False)) and parents is not None and not parents.ids:
        raise ValidationError("cascade", given["cascade"], "needs a parent_id to cascade to")
    validate_tier(given.get("tier"))
    if "metadata" in given:
        given["metadata"] = validate_metadata(given["metadata"])
    return given


def validate_tier(tier: str | None) -> str | None:
    """Return the tier of an entity, or ``None``; ``InvalidNameError`` otherwise."""
    return None if tier is None else check_tier("tier", tier)


class Parents(NamedTuple):
    """The parents that a call gives, and the ``field`` in which it does."""

    ids: tuple[str, ...]
    field: str


def validate_parents(parent_id: object, parent_ids: object) -> Parents | None:
    """Check and return the parents of an entity, in order; ``None`` if both are ``UNCHANGED``. Raises
    ``ValidationError``.
    """
    if parent_ids is UNCHANGED:
        if parent_id is UNCHANGED:
            return None
        return Parents(() if parent_id is None else (check_identifier("parent_id", parent_id),), "parent_id")
    if parent_id is not UNCHANGED:
        raise ValidationError("parent_ids", parent_ids, "give parent_id or parent_ids, not both")
    if isinstance(parent_ids, str) or not isinstance(parent_ids, Iterable | None):
        raise ValidationError("parent_ids", parent_ids, "must be a list of entity ids")
    return Parents(check_parent_ids(parent_ids or ()), "parent_ids")


def validate_version(expected: int | None) -> None:
    """Check the version that an entity is expected to have, ``None`` for any. Raises ``ValidationError``."""
    if expected is not None and (type(expected) is not int or expected < 1):
        raise ValidationError("expected_version", expected, "must be the version of an entity, a whole number from 1")


def validate_flag(field: str, value: object) -> bool:
    """Return ``value``, which must be ``True`` or ``False``. Raises ``ValidationError``, for other truthy values
    too.
    """
    if isinstance(value, bool):
        return value
    raise ValidationError(field, value, "must be True or False")


def validate_name(name: object) -> str | None:
    """Check and return the name of an entity, ``None`` for no name. Raises ``ValidationError``."""
    if name is None:
        return None
    if not isinstance(name, str):
        raise ValidationError("name", name, "must be a string, or None for no name")
    _validate_size("name", name, LONGEST_NAME)
    return name


def validate_metadata(metadata: object) -> dict[str, Any]:
    """Check and return the metadata as a new dict, as JSON has it, empty for ``None``. Raises ``ValidationError`` for
    types or sizes.
    """
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise ValidationError("metadata", metadata, "must map strings to JSON values")
    if len(metadata) > MOST_KEYS:
        problem = f"at most {MOST_KEYS}: keep the rest elsewhere, under the entity's id"
        raise ValidationError("number of metadata keys", len(metadata), problem)
    checked = {_validate_key(key): validate_json(f"metadata[{key!r}]", value) for key, value in metadata.items()}
    size = sum(len(key.encode()) + _json_bytes(value) for key, value in checked.items())
    if size > LARGEST_METADATA:
        problem = f"at most {LARGEST_METADATA}, of all keys and values: keep the rest elsewhere, under the entity's id"
        raise ValidationError("bytes of metadata", size, problem)
    return checked


def _validate_key(key: object) -> str:
    if not isinstance(key, str):
        raise ValidationError("metadata key", key, "must be a string")
    if not key:
        raise ValidationError("metadata key", key, "must not be empty")
    _validate_size("metadata key", key, LONGEST_KEY)
    return key


def validate_json(field: str, value: object, *, depth: int = DEEPEST_VALUE) -> Any:
    """Check and return the value as JSON gives it back: lists for tuples, dicts for mappings. Raises
    ``ValidationError``.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        _validate_size(field, value, LONGEST_VALUE)
        return str.__str__(value)
    if isinstance(value, int | float):
        if not (math.isfinite(value) if isinstance(value, float) else SMALLEST_NUMBER <= value <= LARGEST_NUMBER):
            problem = f"must be a finite number, as an integer from {SMALLEST_NUMBER} to {LARGEST_NUMBER}"
            raise ValidationError(field, value, problem)
        return float(value) if isinstance(value, float) else int(value)
    if not isinstance(value, Mapping | list | tuple):
        raise ValidationError(
            field, value, "must be a JSON value: a string, a number, true, false, null, a list or a map"
        )
    if not depth:
        raise ValidationError(field, value, f"lists and maps may be {DEEPEST_VALUE} deep")
    if isinstance(value, Mapping):
        for key in value:
            _validate_json_key(field, key)
        return {key: validate_json(f"{field}[{key!r}]", part, depth=depth - 1) for key, part in value.items()}
    return [validate_json(f"{field}[{place}]", part, depth=depth - 1) for place, part in enumerate(value)]


def _validate_json_key(field: str, key: object) -> None:
    if not isinstance(key, str):
        raise ValidationError(field, key, "a key of a map must be a string")
    _validate_size(field, key, LONGEST_VALUE)


def _json_bytes(value: object) -> int:
    """Return the size of a value: of a string its own, of any other value that of its JSON."""
    if isinstance(value, str):
        return len(value.encode())
    import json  # few metadata have more than strings

    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def _validate_size(field: str, text: str, most: int) -> int:
    """Check and return the size of ``text`` in bytes. Raises ``ValidationError`` above ``most`` characters, or for a
    lone surrogate.
    """
    if len(text) > most:
        raise ValidationError(field, text, f"has {len(text)} characters: at most {most}")
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise ValidationError(field, text, "must be characters that UTF-8 has") from None
