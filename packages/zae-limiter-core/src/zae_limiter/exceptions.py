"""Every exception that leaves this library, as one tree; ``values.refusal`` has the refusals.

Errors of a single store operation are internal (operations.errors).

ZAELimiterError
├── RateLimitError
│   ├── RateLimitExceeded            a limit is short of tokens; has the amounts and the time to wait
│   │   ├── AccessDisabled           a switch refuses the entity, or one above it; has the level and the reason
│   │   └── BudgetEnded              the budget of a run has expired, or was ended
│   └── LeaseExpiredError            a lease was used after its block
├── EntityError
│   ├── EntityNotFoundError
│   ├── EntityExistsError
│   ├── EntityHasChildrenError       the entity cannot be deleted before its children
│   └── StaleEntityError             the entity has another version than expected
├── InfrastructureError
│   ├── RateLimiterUnavailable       the store did not answer, or not in time: an outage
│   ├── StoreRefusedError            the store refuses the request, and would refuse it again
│   │   └── CertificateError         the certificate of the store does not verify; has the host and the reason
│   ├── ContentionError              others changed the bucket or its limits during each attempt
│   ├── RepositoryClosedError        the repository is closed
│   ├── EventLoopError               the repository is in use on another event loop
│   ├── InfrastructureNotFoundError  the table does not exist, nor did it in the life of this process
│   ├── NamespaceNotFoundError
│   ├── NamespaceStateError          the namespace has the wrong state, or its name is taken
│   └── StaleStateError              another state was stored since this one was read
├── VersionError                     client and stack are incompatible
│   ├── ClientTooOldError
│   ├── NoUpgradePathError
│   ├── OlderClientsError
│   └── StackTooOldError
├── UsageMissing                     an answer of a language model reports no usage
├── PriceMissing                     a list of prices lacks what was used
└── ValidationError (ValueError)     invalid input; names the field, the value and the rule
    ├── InvalidIdentifierError       an entity, a parent or a resource
    ├── IdempotencyKeyError          an idempotency key stands for a call with other amounts
    └── InvalidNameError             a limit or a namespace

Every exception keeps its arguments in ``args``, so that it can be pickled.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .values.refusal import AccessDisabled as AccessDisabled  # noqa: PLC0414 - it makes the name public
    from .values.refusal import BudgetEnded as BudgetEnded  # noqa: PLC0414
    from .values.refusal import RateLimitExceeded as RateLimitExceeded  # noqa: PLC0414

__all__ = [
    "AccessDisabled",
    "BudgetEnded",
    "CertificateError",
    "ClientTooOldError",
    "ContentionError",
    "EntityError",
    "EntityExistsError",
    "EntityHasChildrenError",
    "EntityNotFoundError",
    "EventLoopError",
    "IdempotencyKeyError",
    "InfrastructureError",
    "InfrastructureNotFoundError",
    "InvalidIdentifierError",
    "InvalidNameError",
    "LeaseExpiredError",
    "NamespaceNotFoundError",
    "NamespaceStateError",
    "NoUpgradePathError",
    "OlderClientsError",
    "PriceMissing",
    "RateLimitError",
    "RateLimitExceeded",
    "RateLimiterUnavailable",
    "RepositoryClosedError",
    "StackTooOldError",
    "StaleEntityError",
    "StaleStateError",
    "StoreRefusedError",
    "UsageMissing",
    "ValidationError",
    "VersionError",
    "ZAELimiterError",
]

LONGEST_SHOWN: Final = 12  # of a wrong name; "Bearer" and a token are longer
BEGINNING: Final = 6
LONGEST_FIELD: Final = 1_000  # characters: a field may name a key of the input, such as consume['…']


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Return a refusal, which has the statuses of limits, so that its module imports this one."""
        if name in ("RateLimitExceeded", "AccessDisabled", "BudgetEnded"):
            return getattr(import_module(".values.refusal", __package__), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class ZAELimiterError(Exception):
    """The base class of all exceptions of this library."""


class ValidationError(ZAELimiterError, ValueError):
    """Invalid input: ``field`` had ``value``, and ``problem`` states the rule. Nothing was written."""

    def __init__(self, field: str, value: object, problem: str) -> None:
        field = field if len(field) <= LONGEST_FIELD else f"{field[: LONGEST_FIELD - 1]}…"
        super().__init__(field, value, problem)
        self.field = field
        self.value = value
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.field} {_shown(self.value)}: {self.problem}"


class _InvalidNamingError(ValidationError):
    """A name is invalid. What is given as one may be a secret, such as a header: its texts show the beginning only."""

    def __str__(self) -> str:
        value = self.value
        if isinstance(value, str) and len(value) > LONGEST_SHOWN:
            shown = f"{value[:BEGINNING]!r}... ({len(value)} characters)"
        else:
            shown = _shown(value) if isinstance(value, str | int | float | None) else f"<{type(value).__name__}>"
        return f"{self.field} {shown}: {self.problem}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class InvalidIdentifierError(_InvalidNamingError):
    """The id of an entity, of a parent or of a resource is invalid."""


class IdempotencyKeyError(_InvalidNamingError):
    """The idempotency key stands for a call of the same entity and resource with other amounts."""


class InvalidNameError(_InvalidNamingError):
    """The name of a limit or of a namespace is invalid."""


class RateLimitError(ZAELimiterError):
    """A limit refuses the call, or a lease is not open."""


class LeaseExpiredError(RateLimitError):
    """A lease was used outside its ``with`` block."""

    def __init__(self, entity_id: str, resource: str) -> None:
        super().__init__(entity_id, resource)
        self.entity_id = entity_id
        self.resource = resource

    def __str__(self) -> str:
        return f"the lease of {self.entity_id}/{self.resource} is valid inside its `with` block only: acquire again"


class EntityError(ZAELimiterError):
    """The base class of errors about one entity."""

    def __init__(self, entity_id: str) -> None:
        super().__init__(entity_id)
        self.entity_id = entity_id


class EntityNotFoundError(EntityError):
    """The entity does not exist."""

    def __str__(self) -> str:
        return f"there is no entity {self.entity_id!r}: check the id and the namespace"


class EntityExistsError(EntityError):
    """An entity with this id exists already."""

    def __str__(self) -> str:
        return f"entity {self.entity_id!r} exists already"


class EntityHasChildrenError(EntityError):
    """The entity has ``children`` children, and was not deleted."""

    def __init__(self, entity_id: str, children: int) -> None:
        super(EntityError, self).__init__(entity_id, children)
        self.entity_id = entity_id
        self.children = children

    def __str__(self) -> str:
        return (
            f"entity {self.entity_id!r} has children, {self.children}: delete them first, or give them another parent"
        )


class StaleEntityError(EntityError):
    """The entity has another version than expected: it was changed since it was read; nothing was written."""

    def __init__(self, entity_id: str, expected_version: int, version: int) -> None:
        super(EntityError, self).__init__(entity_id, expected_version, version)
        self.entity_id = entity_id
        self.expected_version = expected_version
        self.version = version

    def __str__(self) -> str:
        return f"entity {self.entity_id!r} has version {self.version}, not {self.expected_version}: read it again"


class InfrastructureError(ZAELimiterError):
    """The store fails, or its contents do not fit the request."""


class RateLimiterUnavailable(InfrastructureError):
    """The store was not reachable, or did not answer in time; ``__cause__`` is the reason."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"the rate limiter's store is unavailable: {self.problem}"


class StoreRefusedError(InfrastructureError):
    """The store refuses the request and would refuse it again: invalid, not allowed, the wrong region, no store at all.

    ``on_unavailable`` does not cover it, because it is not an outage.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"the rate limiter's store cannot be used: {self.problem}"


class CertificateError(StoreRefusedError):
    """The certificate of ``host`` does not verify: expired, for another host, of an unknown authority.

    ``reason`` says which. A store that served this process before is unavailable instead, until its certificate
    verifies.
    """

    def __init__(self, host: str, reason: str) -> None:
        super(StoreRefusedError, self).__init__(host, reason)
        self.host = host
        self.reason = reason
        self.problem = f"the certificate of {host} does not verify: {reason}"


class ContentionError(InfrastructureError):
    """Others changed the same item during each attempt; nothing stays consumed. Try again."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"too many changes at the same time: {self.problem}; try again"


class RepositoryClosedError(InfrastructureError):
    """The repository is closed and accepts no more calls."""

    def __str__(self) -> str:
        return "the repository is closed: open another one"


class EventLoopError(InfrastructureError):
    """The repository is in use on another running event loop: open one repository for each loop."""

    def __str__(self) -> str:
        return "the repository is in use on another event loop that is running: open one repository for each loop"


class InfrastructureNotFoundError(InfrastructureError):
    """The table does not exist. One that served this process before is unavailable instead, until it is back."""

    def __init__(self, stack: str) -> None:
        super().__init__(stack)
        self.stack = stack

    def __str__(self) -> str:
        if ":" in self.stack:
            return f"there is no table {self.stack!r}, or its policy does not let this account see it"
        return f"there is no table {self.stack!r}: create it with `zae-limiter deploy --name {self.stack}`"


class NamespaceNotFoundError(InfrastructureError):
    """The namespace is not registered; ``deleted_id`` is the id of a deleted namespace with that name, if any.

    ``copied_from`` is the id, in the source, of a namespace whose copy under that name is not complete.
    """

    def __init__(self, namespace: str, deleted_id: str | None = None, copied_from: str | None = None) -> None:
        super().__init__(namespace, deleted_id, copied_from)
        self.namespace = namespace
        self.deleted_id = deleted_id
        self.copied_from = copied_from

    def __str__(self) -> str:
        if self.copied_from is not None:
            way_out = "wait until `zae-limiter copy` ends, or run it again if it was interrupted"
            return f"the copy of the namespace {self.namespace!r} is not complete: {way_out}"
        if self.deleted_id is not None:
            return f"the namespace {self.namespace!r} was deleted: recover it, or register it anew"
        return f"there is no namespace {self.namespace!r}: register it first"


class NamespaceStateError(InfrastructureError):
    """The state of the namespace does not allow the operation; ``problem`` is the reason."""

    def __init__(self, namespace_id: str, problem: str) -> None:
        super().__init__(namespace_id, problem)
        self.namespace_id = namespace_id
        self.problem = problem

    def __str__(self) -> str:
        return f"namespace {self.namespace_id!r}: {self.problem}"


class StaleStateError(InfrastructureError):
    """The provisioner's state has another serial than expected; nothing was stored."""

    def __init__(self, expected_serial: int, serial: int) -> None:
        super().__init__(expected_serial, serial)
        self.expected_serial = expected_serial
        self.serial = serial

    def __str__(self) -> str:
        return f"the provisioner's state has serial {self.serial}, not {self.expected_serial}: read it again"


class UsageMissing(ZAELimiterError):
    """An answer of a language model reports no usage, or only a part of it."""

    def __str__(self) -> str:
        return (
            "the answer has no usage that could be read: a stream may have to ask for it "
            "(OpenAI: stream_options={'include_usage': True}), or has not ended"
        )


class PriceMissing(ZAELimiterError):
    """A list of prices has none for a model, for an instant, or for a kind of tokens."""


class VersionError(ZAELimiterError):
    """The client and the stack are incompatible."""


class ClientTooOldError(VersionError):
    """The stack admits newer clients only."""

    def __init__(self, stack: str, client_version: str, min_client_version: str) -> None:
        super().__init__(stack, client_version, min_client_version)
        self.stack = stack
        self.client_version = client_version
        self.min_client_version = min_client_version

    def __str__(self) -> str:
        return (
            f"stack {self.stack!r} needs zae-limiter-core {self.min_client_version} or newer, "
            f"this is {self.client_version}: upgrade the package"
        )


class StackTooOldError(VersionError):
    """The stack is too old for this client."""

    def __init__(self, stack: str, schema_version: int, oldest_schema_version: int) -> None:
        super().__init__(stack, schema_version, oldest_schema_version)
        self.stack = stack
        self.schema_version = schema_version
        self.oldest_schema_version = oldest_schema_version

    def __str__(self) -> str:
        return (
            f"stack {self.stack!r} has schema {self.schema_version}, this client needs "
            f"{self.oldest_schema_version} or newer: upgrade it with `zae-limiter upgrade --name {self.stack}`"
        )


class OlderClientsError(VersionError):
    """The stack still admits clients that do not know the schema that is to be written."""

    def __init__(self, stack: str, min_client_version: str, oldest_client: str) -> None:
        super().__init__(stack, min_client_version, oldest_client)
        self.stack = stack
        self.min_client_version = min_client_version
        self.oldest_client = oldest_client

    def __str__(self) -> str:
        upgrade = f"zae-limiter upgrade --name {self.stack}"
        return (
            f"stack {self.stack!r} admits zae-limiter-core {self.min_client_version}, which does not know the new "
            f"schema. Run `{upgrade} --oldest-client {self.oldest_client}`, which shuts older clients out; wait "
            f"until no process that was open before runs a release before {self.oldest_client}; then run `{upgrade}`"
        )


class NoUpgradePathError(VersionError):
    """The release can neither use nor upgrade the table; ``problem`` says why."""

    def __init__(self, stack: str, problem: str) -> None:
        super().__init__(stack, problem)
        self.stack = stack
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"no upgrade leads from table {self.stack!r} to this release, nothing was changed: {self.problem}. "
            "Tables of other implementations are not converted: deploy a new stack, and set its limits"
        )


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested without end, or a number of thousands of digits
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 80 else f"{text[:77]}..."
