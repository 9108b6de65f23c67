"""Limits and the three levels they stand at, as frozen values that are valid by construction.
Never text, never a whole manifest: that is `manifest`."""

from collections.abc import Mapping
from typing import Literal

from attrs import asdict, field, frozen

from .checks import enforce, settle
from .frozenmap import FrozenMap, freeze, values_are
from .rules import DEFAULT_REFILL_PERIOD_SECONDS, ENTITY, LIMIT, RESOURCE, SYSTEM

OnUnavailable = Literal["allow", "block"]


@frozen
class LimitDecl:
    """One limit: capacity, burst and refill amount in tokens, refill period in seconds; raises `ManifestError`."""

    capacity: int
    burst: int = field(kw_only=True)
    refill_amount: int = field(kw_only=True)
    refill_period: int = field(default=DEFAULT_REFILL_PERIOD_SECONDS, kw_only=True)

    @burst.default
    def _burst_is_capacity(self) -> int:
        return self.capacity

    @refill_amount.default
    def _refill_is_capacity(self) -> int:
        return self.capacity

    def __attrs_post_init__(self) -> None:
        enforce(LIMIT, asdict(self), "LimitDecl")


@frozen
class SystemDecl:
    """Defaults of a whole namespace: limits by name, and what acquires do while the store is away (None: not said)."""

    on_unavailable: OnUnavailable | None = None
    limits: Mapping[str, LimitDecl] = field(default=FrozenMap({}), converter=freeze, validator=values_are(LimitDecl))

    def __attrs_post_init__(self) -> None:
        said = {"on_unavailable": self.on_unavailable, "limits": settle(self.limits)}
        enforce(SYSTEM, {key: value for key, value in said.items() if value not in (None, {})}, "SystemDecl")


@frozen
class ResourceDecl:
    """The limits of one resource by name, at least one; raises `ManifestError`."""

    limits: Mapping[str, LimitDecl] = field(converter=freeze, validator=values_are(LimitDecl))

    def __attrs_post_init__(self) -> None:
        enforce(RESOURCE, {"limits": settle(self.limits)}, "ResourceDecl")


@frozen
class EntityDecl:
    """The limits of one entity by resource, at least one, `_default_` for all resources; raises `ManifestError`."""

    resources: Mapping[str, ResourceDecl] = field(converter=freeze, validator=values_are(ResourceDecl))

    def __attrs_post_init__(self) -> None:
        enforce(ENTITY, {"resources": settle(self.resources)}, "EntityDecl")
