"""What both variants share: the clock and the namespace of a repository, the cause of changes, a decorator's
arguments.
"""

import logging
import os
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import count
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from .clock.system import Clock, SystemClock
from .engines.engine import Store, SyncStore
from .exceptions import RateLimiterUnavailable, StoreRefusedError, ValidationError
from .flows.process.late_opening import OpenedNamespace, open_later
from .flows.process.namespace_state import NamespaceState
from .flows.public_errors import with_public_errors
from .flows.records.opening import create_table, open_namespace
from .flows.steps import Flow, Log, play
from .runtime.dataclass import replace
from .settings import Options
from .values.audit import Cause, iso_instant
from .values.limits import Policy
from .values.namespaces import Namespace
from .values.naming import check_namespace, check_principal
from .values.versions import core_version

if TYPE_CHECKING:
    from .engines.memory.table import MemoryTable

NAMESPACE_ID_BYTES = 8
_PARTS: Final = frozenset({"store", "namespace_state", "options", "clock"})  # of a repository
SECONDS_PER_DAY = 24 * 3600
T = TypeVar("T")
Decorated = TypeVar("Decorated", bound=Callable[..., Awaitable[Any]])
SyncDecorated = TypeVar("SyncDecorated", bound=Callable[..., Any])

log = logging.getLogger(__name__)
_serials = count()  # keeps the events of one millisecond in order


def iso_time(clock: Clock) -> str:
    """Return the current time, as an ISO time in UTC."""
    return iso_instant(clock.now_ms())


def clock_over(store: Store | SyncStore, options: Options) -> Clock:
    """Return the clock of the options, which nothing corrects; else the store's, which its answers correct; else the
    system's.
    """
    return options.clock or store.capabilities.clock or SystemClock()


def is_doubted(clock: Clock) -> bool:
    """Return whether the last answers contradict the clock; ``False`` for a clock that answers do not correct."""
    return bool(getattr(clock, "doubted", False))


def connecting(options: Options, clock: Clock) -> Flow[OpenedNamespace]:
    """Return the flow that opens the namespace of the options, and first creates the table if the options say so."""
    if options.create_table:
        yield from create_table(options.stack_name)
    return (yield from opening(options, options.namespace_name, clock))


def opening(options: Options, name: str, clock: Clock) -> Flow[OpenedNamespace]:
    """Return the flow that finds or registers a namespace. Raises ``ValidationError`` for a bad name."""
    check_namespace("namespace", name)
    finding = open_namespace(
        name,
        partial(new_namespace, name, clock),
        stack=options.stack_name,
        register=options.register,
        client_version=core_version if options.check_version else None,
        doubted=partial(is_doubted, clock),
    )
    return with_public_errors(options.stack_name, finding)


def open_in_memory(options: Options, name: str, clock: Clock, table: "MemoryTable") -> str:
    """Return the id of a namespace of a new table, in which each one is new: no line is logged. Raises
    ``ValidationError``.

    The table's items expire by the clock: a few with each operation, or all at each move of a clock that tests move.
    """
    table.expire_by(clock.now_ms)
    table.count_usage(clock.now_ms)
    if (on_move := getattr(clock, "on_move", None)) is not None:
        on_move(lambda now_ms: table.expire(now_ms // 1000))
    found = play(opening(options, name, clock), lambda step: None if isinstance(step, Log) else table.execute(step))
    return found.id


def new_namespace(name: str, clock: Clock) -> Namespace:
    """Return a new namespace, with a random id. Raises ``ValidationError`` for a bad name."""
    check_namespace("namespace", name)
    while (drawn := urlsafe_b64encode(os.urandom(NAMESPACE_ID_BYTES)).decode().rstrip("=")).startswith("-"):
        pass  # a command line would take it for an option
    return Namespace(name, drawn, iso_time(clock))


_MEANWHILE: Final[Mapping[Policy, str]] = {"allow": "no call is counted", "share": "no call passes"}


def late_namespace_state(
    options: Options,
    name: str,
    clock: Clock,
    find: Callable[[], Flow[OpenedNamespace]],
    outage: RateLimiterUnavailable,
    *,
    reads_spread: bool,
) -> NamespaceState:
    """Return the state of a namespace that ``find`` will open when the store answers. Raises ``outage`` if it is
    blocking.
    """
    if options.on_unavailable == "block":
        raise outage
    meanwhile = _MEANWHILE[options.on_unavailable]
    log.warning("namespace %r is opened when the store answers; until then %s: %s", name, meanwhile, outage)
    return open_later(namespace_state_of(options, name, None, clock, reads_spread=reads_spread), find)


def namespace_state_of(
    options: Options,
    name: str,
    namespace_id: str | None,
    clock: Clock,
    *,
    reads_spread: bool = False,
    spread: bool = False,
) -> NamespaceState:
    """Return the state of a namespace that this process has just opened; ``None`` for an id that is not known yet.

    ``reads_spread``: the engine's indexes may have rows with a suffix. ``spread``: the table's schema has them.
    """
    return NamespaceState(
        name,
        namespace_id,
        stack=options.stack_name,
        now=clock.now_ms,
        settings=replace(options.settings(), reads_spread=reads_spread),
        doubted=partial(is_doubted, clock),
        spread=spread,
    )


def cause_of(options: Options, clock: Clock, principal: str | None) -> Cause:
    """Return the cause of a change at the current time. Raises ``ValidationError`` for a bad principal."""
    if principal is not None:
        check_principal("principal", principal)
    days = options.audit_days
    expires_at = clock.now_ms() // 1000 + days * SECONDS_PER_DAY if days else None
    serial = f"{next(_serials) % 10**8:08d}-{os.urandom(8).hex()}"
    return Cause(principal, iso_time(clock), serial, expires_at)


def of_call(given: T | Callable[..., T], args: Sequence[Any], kwargs: Mapping[str, Any]) -> T:
    """Return an argument of a decorator: a value, or computed from the arguments of the call."""
    return given(*args, **kwargs) if callable(given) else given


def check_key_of_calls(key: object, life: object) -> None:
    """Raise ``ValidationError`` unless the key of each call is a function of it, and the life that of a key."""
    if key is not None and not callable(key):
        problem = "must be a function of the call, as retry_key is of the request: a key is of one call"
        raise ValidationError("idempotency_key", key, problem)
    if life is not None:
        from .flows.acquire.repeats import check_life

        check_life("key_life", life)
        if key is None:
            raise ValidationError("key_life", life, "needs a key: give a function of the call as idempotency_key")


def with_key(key: object, life: float | None) -> dict[str, Any]:
    """Return the options of a call by the key that a function of it has returned: none without a key."""
    return {} if key is None else {"idempotency_key": key, "key_life": life}


def quiet(refusal: StoreRefusedError) -> StoreRefusedError:
    """Return an error whose traceback shows neither our frames nor its cause, which stays its ``__context__``."""
    refusal.__context__, refusal.__cause__ = refusal.__cause__, None
    return refusal.with_traceback(None)


def check_repository(given: object, kind: type) -> None:
    """Raise ``TypeError`` unless a limiter has a repository of its own variant, ``kind``."""
    if isinstance(given, kind):
        return
    name, limiter = kind.__name__, kind.__name__.replace("Repository", "RateLimiter")
    if isinstance(given, CoroutineType):
        given.close()  # else Python warns as well that it was never awaited
        way = (
            "await it first, like `await Repository.open()`" if name == "Repository" else f"open one with {name}.open()"
        )
        raise TypeError(f"{limiter} needs a {name}, not a coroutine: {way}")
    twin = {"Repository": "RateLimiter", "SyncRepository": "SyncRateLimiter"}.get(type(given).__name__)
    advice = f"use {twin}, or open a {name}" if twin else f"open one with {name}.open, or {name}.in_memory"
    raise TypeError(f"{limiter} needs a {name}, not a {type(given).__name__}: {advice}")


def refuse_construction(kind: str, given: Sequence[object], named: Mapping[str, object]) -> None:
    """Raise ``TypeError`` unless a repository is made of its parts, as ``open`` does it."""
    if len(given) >= len(_PARTS) or not _PARTS.isdisjoint(named):
        return
    stack = next((each for each in (named.get("stack"), named.get("name"), *given) if isinstance(each, str)), "my-app")
    waits = "" if kind.startswith("Sync") else "await "
    ways = f"{waits}{kind}.open(stack={stack!r}), {waits}{kind}.sqlite('limits.db') or {kind}.in_memory()"
    problem = f"{kind}(...) opens nothing: use {ways}"
    if given or "name" in named:
        from .runtime.namesake import PAGE

        problem = f"{problem}; for code of the other zae-limiter: {PAGE}"
    raise TypeError(problem)


def refuse_other_limiter(kind: str, given: Sequence[object], named: Mapping[str, object]) -> None:
    """Raise ``TypeError`` for the arguments of the other project's limiter, which opens its table itself."""
    named_a_stack = bool(given) and isinstance(given[0], str)
    if not named_a_stack and named.keys() <= {"repository", "default_limits", "observers", "shadow"}:
        return
    from .renamed import refuse_arguments
    from .runtime.namesake import ARGUMENTS, told

    if named_a_stack:
        raise TypeError(told(f"{kind}() needs a repository, not the name of a stack", ARGUMENTS["name"]))
    refuse_arguments(kind, [name for name in named if name in ARGUMENTS])


def check_decorated(function: object, kind: type) -> None:
    """Raise ``ValidationError`` for a function that a limiter of the variant ``kind`` cannot run inside its block: one
    of the other variant, or one that yields.
    """
    from .runtime.callables import is_awaited, yields

    if yields(function):
        raise ValidationError("function", function, "yields: use `acquire` inside it, around what it does")
    name = kind.__name__
    takes, other = ("def", "RateLimiter") if name == "SyncRateLimiter" else ("async def", "SyncRateLimiter")
    if is_awaited(function) != (takes == "async def"):
        raise ValidationError("function", function, f"must be a function by `{takes}`: {other} has the other kind")
