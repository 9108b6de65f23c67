"""Usage of budgets of runs: a call of a run counts at the entity that the run is within, too."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zae_limiter import UsageSnapshot


def payer_of(snapshot: "UsageSnapshot") -> str:
    """Return whose calls a snapshot counts: of a run's bucket the entity that the run is within."""
    from zae_limiter.values.run_budgets import within_of

    return within_of(snapshot.entity_id, snapshot.resource) or snapshot.entity_id


def without_runs(window: Sequence["UsageSnapshot"], own: Sequence["UsageSnapshot"]) -> list["UsageSnapshot"]:
    """Return the own parts of a window, those of runs without what counts at the entities that they are within."""
    from zae_limiter.values.own_usage import names_of, own_of_run, usage_of_run

    used = names_of((each.entity_id, each.consumed) for each in window)
    kept = [own_of_run(each.entity_id, each.resource, each.consumed, used) for each in own]
    return [each if of is None else usage_of_run(each, of) for each, of in zip(own, kept, strict=True)]
