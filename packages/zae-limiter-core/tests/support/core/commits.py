"""Commits that are played to their end.

Lives here: the player, and a table that answers. Never: a claim.
"""

from typing import Any

from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.flows.bucket.group_commit import commit
from zae_limiter.flows.bucket_queue import BucketRequest, Verdict
from zae_limiter.flows.steps import Step
from zae_limiter.operations.values import Item, Put

from .plays import Stage, play_script


def run(it: Stage, requests: list[BucketRequest], *replies: Any) -> list[Step]:
    return play_script(commit(it.namespace_state, it.cached, requests), *replies)[0]


def verdicts(*requests: BucketRequest) -> list[Verdict | None]:
    return [request.outcome.verdict if request.outcome else None for request in requests]


def table_of(item: Item) -> MemoryTable:
    """A table that has this item."""
    table = MemoryTable()
    table.execute(Put(item))
    return table


def applied_to(item: Item) -> Any:
    """The answer of a store that has this item."""
    return table_of(item).execute


def kinds(steps: list[Step]) -> list[str]:
    return [type(step).__name__ for step in steps]
