"""The border of a flow: errors of the store become the ones that users know.

Lives here: that translation, and the checks of what callers pass in. Never: a rule of the limiter.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from ...exceptions import ValidationError
from ...limits import Limit, OnUnavailable, check_amounts, check_limits, check_on_unavailable
from ...naming import check_identifier, check_resource
from ...operations.errors import StoreError
from ..process.namespace_state import NamespaceState
from ..public_errors import public_error
from ..records.entities import NewEntity
from ..steps import Flow
from ..validation import validate_flag, validate_metadata, validate_name
from .claims import AcquireRequest

T = TypeVar("T")


def with_public_errors(namespace_state: NamespaceState, flow: Flow[T]) -> Flow[T]:
    """The flow's result. Raises an ``InfrastructureError`` where the store fails."""
    try:
        return (yield from flow)
    except StoreError as error:
        raise public_error(namespace_state.stack, error) from error


def validate_request(
    entity_id: str,
    resource: str,
    consume: Mapping[str, int],
    *,
    limits: Sequence[Limit] | None = None,
    default_limits: tuple[Limit, ...] = (),
    cascade: bool = False,
    on_unavailable: OnUnavailable | None = None,
    rollback: bool = True,
) -> AcquireRequest:
    """What a caller asks for, checked. Raises ``ValidationError``."""
    if not isinstance(consume, Mapping):
        raise ValidationError("consume", consume, "must map limits to amounts, like {'rpm': 1}")
    if not consume:
        raise ValidationError("consume", {}, "name at least one limit and an amount")
    return AcquireRequest(  # by position, because every acquire makes one
        check_identifier("entity_id", entity_id),
        check_resource("resource", resource),
        check_amounts("consume", consume),
        () if limits is None else check_limits("limits", limits),
        default_limits,
        cascade and validate_flag("cascade", cascade),
        None if on_unavailable is None else check_on_unavailable(on_unavailable),
        rollback is True or validate_flag("rollback", rollback),
    )


def validate_place(entity_id: str, resource: str, *, default_limits: tuple[Limit, ...] = ()) -> AcquireRequest:
    """A request that asks for nothing yet. Raises ``ValidationError``."""
    check_identifier("entity_id", entity_id)
    return AcquireRequest(entity_id, check_resource("resource", resource), {}, default_limits=default_limits)


def validate_entity(
    entity_id: str, name: str | None, parent_id: str | None, *, cascade: bool, metadata: Mapping[str, str] | None
) -> NewEntity:
    """An entity to be made. Raises ``ValidationError``."""
    check_identifier("entity_id", entity_id)
    if parent_id is not None:
        check_identifier("parent_id", parent_id)
    if validate_flag("cascade", cascade) and parent_id is None:
        raise ValidationError("cascade", cascade, "needs a parent_id to cascade to")
    return NewEntity(entity_id, validate_name(name), parent_id, cascade, validate_metadata(metadata))


def validate_own_place(entity_id: str, resource: str) -> tuple[str, str]:
    """Where an entity's own limits stand: on a resource, or with ``_default_`` on all. Raises ``ValidationError``."""
    check_identifier("entity_id", entity_id)
    return entity_id, check_resource("resource", resource, allow_default=True)


def validate_system(limits: Sequence[Limit] | None, on_unavailable: OnUnavailable | None) -> tuple[Limit, ...] | None:
    """The limits of the system config, none where it only says ``on_unavailable``. Raises ``ValidationError``.

    ``None`` keeps those that stand there, and is for who says something else.
    """
    if on_unavailable is not None and not limits:
        return None if limits is None else ()
    return check_limits("limits", limits or ())


def validate_policy(on_unavailable: OnUnavailable | None) -> OnUnavailable | None:
    """``block``, ``allow``, or nothing said. Raises ``ValidationError``."""
    return None if on_unavailable is None else check_on_unavailable(on_unavailable)
