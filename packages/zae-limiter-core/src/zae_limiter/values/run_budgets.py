"""The budget of a run: the names of its bucket, its limits, and what a call of it costs there.

A run is often named by an agent or a client. So its bucket belongs to an entity of its own, whose id has the names of
the run and of the entity that it is within: two tenants may name their runs alike, and no run has the bucket of a real
entity. A name has neither ``/``, which joins it to the run above, nor ``@``, which ends it.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ..exceptions import ValidationError
from ..runtime.dataclass import replace
from .estimates import Amount
from .limits import Limit, check_limits
from .naming import RUN_PREFIX, RUN_RESOURCE, check_identifier

if TYPE_CHECKING:
    from decimal import Decimal

CALLS: Final = "calls"
"""The limit of a budget that counts each acquire as one, unless the call says otherwise."""
KEPT_SECONDS: Final = 7 * 24 * 3600
"""How long a bucket stays after the end of its budget, and after its last use: longer than a process sleeps in a call,
so that no call of a run comes to the bucket of a later one of the same name."""
LONGEST: Final = 366 * 24 * 3600
_EXAMPLE: Final = "must map limits to amounts, like {'usd': '$2', 'calls': 50}"


def check_run(name: object) -> str:
    """Return the name of a run. Raises ``ValidationError``."""
    run = check_identifier("budget", name)
    for mark in "/@":
        if mark in run:
            raise ValidationError("budget", run, f"has a {mark!r}: leave it out of the name of a run")
    return run


def entity_of(runs: Sequence[str], within: str) -> str:
    """Return the entity of a run's bucket, by the names of the runs from the topmost one to it. Raises
    ``ValidationError``.
    """
    return check_identifier("entity of the budget", f"{RUN_PREFIX}{'/'.join(runs)}@{within}")


def within_of(entity_id: str, resource: str) -> str | None:
    """Return the entity that a run is within, by the place of its bucket; ``None`` for another one."""
    is_run = resource == RUN_RESOURCE and entity_id.startswith(RUN_PREFIX)
    return entity_id.partition("@")[2] or None if is_run else None


def check_budget(amounts: object) -> tuple[Limit, ...]:
    """Return the limits of a budget, which never refill, sorted by name. Raises ``ValidationError``."""
    if not isinstance(amounts, Mapping) or not amounts:
        raise ValidationError("budget", amounts, _EXAMPLE)
    limits = check_limits("budget", [_limit(name, amount) for name, amount in amounts.items()])
    return tuple(replace(limit, expires=KEPT_SECONDS) for limit in limits)


def _limit(name: object, amount: object) -> Limit:
    from decimal import Decimal

    if not isinstance(name, str):
        raise ValidationError("budget", name, _EXAMPLE)
    if isinstance(amount, Decimal):
        return Limit.money(name, amount, per="total")
    if not isinstance(amount, str):
        return Limit.total(name, amount)  # type: ignore[arg-type]  # which says what is wrong with it
    try:
        limit = Limit.parse(f"{name}: {amount} total")
    except ValidationError as error:
        raise ValidationError(f"budget[{name!r}]", amount, f"{error.problem}; {_EXAMPLE}") from None
    return limit


def check_expires(seconds: object) -> int:
    """Return the life of a budget in milliseconds. Raises ``ValidationError``."""
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0.001 <= seconds <= LONGEST:
        return int(seconds * 1000)
    raise ValidationError("expires", seconds, f"must be a number of seconds above 0, at most {LONGEST} (a year)")


def cost_of(
    run: str, limits: Sequence[Limit], consume: Mapping[str, Amount], costs: "Mapping[str, Amount | Decimal]"
) -> dict[str, Amount]:
    """Return what a call costs a run: by ``costs``, else by ``consume``; of ``calls`` one.

    Raises ``ValidationError`` for a limit of which the call says nothing: it would be a hole in the budget.
    """
    given = {CALLS: 1, **consume, **costs}
    for limit in limits:
        if limit.name not in given:
            problem = f"the budget of {run} has {limit.name}: say what the call costs of it, 0 for nothing"
            raise ValidationError("costs", sorted(costs), problem)
    return {limit.name: given[limit.name] for limit in limits}


def check_costs(costs: object, limits: Sequence[Sequence[Limit]]) -> "Mapping[str, Amount | Decimal]":
    """Return the costs of a call, each of a limit of some run. Raises ``ValidationError``."""
    if costs is None:
        return {}
    if not isinstance(costs, Mapping):
        raise ValidationError("costs", costs, "must map limits of the budget to amounts, like {'usd': Decimal('0.02')}")
    known = sorted({limit.name for each in limits for limit in each})
    for name in costs:
        if name not in known:
            raise ValidationError("costs", name, f"is not a limit of the budget (known: {', '.join(known)})")
    return costs
