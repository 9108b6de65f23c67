"""Limits and the levels they stand at, as frozen values that are valid by construction; their fields state the rules.
Never text, never a whole manifest: that is `manifest`."""

from collections.abc import Mapping
from typing import Final, Literal

from attrs import field, frozen

from .checks import enforce, settle
from .naming import NameKind
from .shapes import Choice, Integer, Table, about, record_of
from .sortedmap import SortedMap, freeze, values_are

OnUnavailable = Literal["allow", "block"]

MAX_AMOUNT: Final = 10**15
MAX_REFILL_PERIOD_SECONDS: Final = 3_153_600_000  # a hundred years
DEFAULT_REFILL_PERIOD_SECONDS: Final = 60
MAX_LIMITS: Final = 32  # of one bucket

LIMIT_FIELDS: Final = ("capacity", "burst", "refill_amount", "refill_period")

_AMOUNT: Final = Integer(MAX_AMOUNT)
_PERIOD: Final = Integer(MAX_REFILL_PERIOD_SECONDS)


@frozen
class LimitDecl:
    """One limit: capacity, burst and refill amount in tokens, refill period in seconds; raises `ManifestError`."""

    capacity: int = field(metadata=about(_AMOUNT, "the nominal amount, in tokens"))
    burst: int = field(
        kw_only=True,
        metadata=about(
            _AMOUNT,
            "the most tokens at once; not less than the capacity, and the capacity where absent",
            at_least="capacity",
        ),
    )
    refill_amount: int = field(
        kw_only=True, metadata=about(_AMOUNT, "tokens that come back in every period; the capacity where absent")
    )
    refill_period: int = field(
        kw_only=True, default=DEFAULT_REFILL_PERIOD_SECONDS, metadata=about(_PERIOD, "the period, in seconds")
    )

    @burst.default
    def _burst_is_capacity(self) -> int:
        return self.capacity

    @refill_amount.default
    def _refill_is_capacity(self) -> int:
        return self.capacity

    def __attrs_post_init__(self) -> None:
        said = {name: getattr(self, name) for name in LIMIT_FIELDS}
        enforce(LIMIT, said, "LimitDecl")


LIMIT: Final = record_of(LimitDecl)
_LIMITS: Final = about(
    Table(NameKind.LIMIT, LIMIT, least=1, most=MAX_LIMITS), f"the limits, by name; at least one, at most {MAX_LIMITS}"
)


@frozen
class SystemDecl:
    """Defaults of a whole namespace; raises `ManifestError`."""

    on_unavailable: OnUnavailable | None = field(
        default=None,
        metadata=about(
            Choice(("allow", "block")),
            "what acquires do while the table cannot be reached; the client says it where absent",
        ),
    )
    limits: Mapping[str, LimitDecl] = field(
        default=SortedMap({}), converter=freeze, validator=values_are(LimitDecl), metadata=_LIMITS
    )

    def __attrs_post_init__(self) -> None:
        said = {"on_unavailable": self.on_unavailable, "limits": settle(self.limits)}
        enforce(SYSTEM, {key: value for key, value in said.items() if value not in (None, {})}, "SystemDecl")


@frozen
class ResourceDecl:
    """The limits of one resource; raises `ManifestError`."""

    limits: Mapping[str, LimitDecl] = field(converter=freeze, validator=values_are(LimitDecl), metadata=_LIMITS)

    def __attrs_post_init__(self) -> None:
        enforce(RESOURCE, {"limits": settle(self.limits)}, "ResourceDecl")


SYSTEM: Final = record_of(SystemDecl)
RESOURCE: Final = record_of(ResourceDecl)


@frozen
class EntityDecl:
    """The limits of one entity; raises `ManifestError`."""

    resources: Mapping[str, ResourceDecl] = field(
        converter=freeze,
        validator=values_are(ResourceDecl),
        metadata=about(
            Table(NameKind.RESOURCE_OR_DEFAULT, RESOURCE, least=1),
            "its limits by resource, `_default_` for all others; at least one",
        ),
    )

    def __attrs_post_init__(self) -> None:
        enforce(ENTITY, {"resources": settle(self.resources)}, "EntityDecl")


ENTITY: Final = record_of(EntityDecl)

Decl = SystemDecl | ResourceDecl
"""What stands at one address: the system's, or the limits of a resource or of an entity on one."""


def canonical(decl: Decl) -> str:
    """A line for everything that is declared, defaults spelled out: equal texts for equal declarations."""
    lines = []
    if isinstance(decl, SystemDecl) and decl.on_unavailable:
        lines.append(f"on_unavailable {decl.on_unavailable}")
    lines += [
        f"{name} {limit.capacity} {limit.burst} {limit.refill_amount} {limit.refill_period}"
        for name, limit in decl.limits.items()
    ]
    return "\n".join(lines)
