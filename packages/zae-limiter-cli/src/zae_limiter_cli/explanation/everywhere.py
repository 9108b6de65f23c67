"""Find every resource that refused an entity lately, the worst first, and what holds there now.

One query has the usage of this hour and the one before, one has the entity's buckets, which know refusals that the
aggregator has not counted yet. Of the first resources the acquire is explained, for two reads each.
"""

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Final

import click

from ..columns import counted, say_columns, say_command, say_wrapped
from ..data.effective import read_effective
from ..data.places import ALL_RESOURCES
from ..data.switches import plain_resolved, sentences
from ..paging import every_row
from ..times import both, iso
from .draws import Drawing, Drawn
from .next_steps import NextStep
from .overflow import read_overflow
from .plain import plain_drawn, plain_instant, plain_overflow
from .report import LAST, by_cause, is_disabled_for_a_time, passes_at
from .showing import WHY, drawn_by, served_by, waiting
from .unknown import Unknown, unknown_entity

if TYPE_CHECKING:
    from zae_limiter import Explanation, SyncRepository, UsageSnapshot
    from zae_limiter.values import Refuser, ResolvedSwitches

EXPLAINED: Final = 10
COMMANDS: Final = 3


@dataclass(frozen=True, slots=True)
class Refusals:
    """A resource that refused an entity; ``now`` is ``None`` where it was not asked, or no level has limits."""

    resource: str
    admitted: int
    refused: int
    refused_by: "Mapping[Refuser, int]"
    now: "Explanation | None"
    drawn: Drawn | None = None
    overflow: "Explanation | None" = None

    @property
    def passes(self) -> bool | None:
        """Whether one token of each limit passes; ``None`` where it is not known, or a draw decides."""
        if self.overflow is not None and self.overflow.passes:
            return True
        if self.now is not None and self.drawn is not None:
            return False if self.drawn.is_short else None
        return None if self.now is None else self.now.passes

    @property
    def rank(self) -> tuple[int, int, str]:
        """What comes first as the smallest: what refuses now, what a draw may refuse, then what refused most."""
        order = 0 if self.passes is False else 1 if self.drawn is not None else 2
        return order, -self.refused, self.resource


@dataclass(frozen=True, slots=True)
class Everywhere:
    """The resources that refused an entity since ``since``, the begin of an hour, the worst first.

    ``places`` are its buckets, those that refused it first.
    """

    entity_id: str
    since: datetime
    resources: Sequence[Refusals]
    switches: "ResolvedSwitches | None"
    unknown: Sequence[Unknown]
    places: Sequence[tuple[str, str]] = ()

    def steps(self, options: Sequence[str]) -> list[NextStep]:
        """Return the commands that explain the worst."""
        ids = ["--", self.entity_id] if self.entity_id.startswith("-") else [self.entity_id]
        return [
            NextStep(
                f"See why on {each.resource}, and what helps.",
                shlex.join(["zae-limiter", "why", "-r", each.resource, *options, *ids]),
            )
            for each in self.resources[:COMMANDS]
        ]


def read_everywhere(repository: "SyncRepository", entity_id: str, *, cascade: bool) -> Everywhere:
    """Read where an entity was refused; write nothing."""
    from zae_limiter import SyncRateLimiter
    from zae_limiter.values.usage import window_start

    now = datetime.fromtimestamp(repository.namespace_state.now() / 1000, UTC)  # the store's time
    since = window_start("hourly", int((now - LAST).timestamp() * 1000))
    admitted, refused = Counter[str](), Counter[str]()
    by: dict[str, Counter[Refuser]] = {}
    for each in _windows(repository, entity_id, since):
        admitted[each.resource] += each.total_events
        refused[each.resource] += each.total_refused
        by.setdefault(each.resource, Counter()).update(each.refused_by)
    buckets = repository.get_buckets(entity_id)
    recent = {each.resource for each in buckets if each.refused or any(left <= 0 for left in each.available.values())}
    found = sorted({*(name for name, count in refused.items() if count), *recent}, key=lambda name: -refused[name])
    explained = {name: _explained(repository, entity_id, name, cascade=cascade) for name in found[:EXPLAINED]}
    counted_by = {each.resource: each.refused_by for each in buckets}
    limiter, drawing, rows = SyncRateLimiter(repository), Drawing(repository), list[Refusals]()
    for name in found:
        now_there, refusers = explained.get(name), by.setdefault(name, Counter())
        drawn = None
        if now_there is not None and now_there.passes:
            drawn = drawing.find(now_there, {**counted_by.get(name, {}), **refusers})
        there = None if now_there is None else read_overflow(limiter, now_there, None, cascade=cascade)
        rows.append(Refusals(name, admitted[name], refused[name], refusers, now_there, drawn, there))
    worst = [row for row in rows if row.refused or (row.now is not None and not row.passes)]
    switches = read_effective(repository, entity_id, None, [ALL_RESOURCES])[ALL_RESOURCES].switches
    known = bool(admitted or buckets or (switches is not None and switches.disables))
    unknown = [] if known else [*unknown_entity(repository, entity_id)]
    names = dict.fromkeys([*found, *(each.resource for each in buckets), *admitted])
    places = [(entity_id, name) for name in names]
    return Everywhere(entity_id, since, sorted(worst, key=lambda row: row.rank), switches, unknown, places)


def _windows(repository: "SyncRepository", entity_id: str, since: datetime) -> "Iterator[UsageSnapshot]":
    def fetch(size: int, following: str | None) -> "tuple[Sequence[UsageSnapshot], str | None]":
        page = repository.get_usage_snapshots(entity_id=entity_id, start=since, limit=size, next=following)
        return page.snapshots, page.next

    return every_row(fetch)


def _explained(repository: "SyncRepository", entity_id: str, resource: str, *, cascade: bool) -> "Explanation | None":
    """Explain an acquire of one token of each limit; ``None`` where no level has limits."""
    from zae_limiter import SyncRateLimiter, ValidationError

    try:
        return SyncRateLimiter(repository).explain(entity_id, resource, cascade=cascade)
    except ValidationError as error:
        if error.field != "limits":
            raise
        return None


def say_everywhere(found: Everywhere, steps: Sequence[NextStep]) -> None:
    """Print the resources that refused an entity, the worst first."""
    width = get_terminal_size().columns
    counts = [each.refused for each in found.resources if each.refused]
    where = counted(len(counts), "resource") if counts else "no resource"
    head = f"{found.entity_id}, since {both(found.since)}: {where} refused it, {counted(sum(counts), 'acquire')}."
    if others := len(found.resources) - len(counts):
        head = f"{head} Now {others:,} {'more ' if counts else ''}would."
    for line in (head, *sentences(found.entity_id, "all resources", found.switches)):
        say_wrapped([(line,)], width=width)
    for name in found.unknown:
        say_wrapped([(name.sentence,)], width=width)
    if not found.resources:
        return
    click.echo()
    cells = [
        (each.resource, f"{each.refused:,}", f"{each.admitted:,}", _by(each), _now(each)) for each in found.resources
    ]
    say_columns([("RESOURCE", "REFUSED", "ADMITTED", "BY", "NOW, FOR ONE TOKEN"), *cells])
    click.echo("\nNext:")
    for step in steps:
        say_wrapped([(f"# {step.does}",)], width=width, indent="  ")
        say_command(step.command, indent="  ")


def plain_everywhere(found: Everywhere, steps: Sequence[NextStep]) -> dict[str, Any]:
    """Return the same as plain values."""
    return {
        "entity_id": found.entity_id,
        "since": iso(found.since),
        "switches": plain_resolved(found.switches),
        "unknown": [each.plain() for each in found.unknown],
        "resources": [_plain(each) for each in found.resources],
        "next": [step._asdict() for step in steps],
    }


def _by(each: Refusals) -> str:
    counts = by_cause(each.refused_by)
    by = [f"{cause} {count:,}" for cause, count in sorted(counts.items(), key=lambda one: -one[1])]
    if (rest := each.refused - sum(counts.values())) > 0:
        by.append(f"its own limits {rest:,}")
    return ", ".join(by) or "-"


def _now(each: Refusals) -> str:
    now = each.now
    if now is None:
        return "not asked"
    if now.disabled is not None:
        return f"refused: {now.disabled.entity_id} is disabled"
    if each.drawn is not None:
        return drawn_by(each.drawn)
    if now.binding is None:
        return "passes"
    bucket, limit = now.binding
    if is_disabled_for_a_time(bucket) and limit.override_until is not None:
        return f"refused: {bucket.entity_id} is disabled until {both(limit.override_until)}"
    wait = "" if math.isinf(now.wait_seconds) else f", {waiting(limit)}"
    if each.overflow is not None and each.overflow.passes:
        return f"refused by {bucket.entity_id}/{limit.limit.name}, {served_by(each.overflow)}"
    return f"refused by {bucket.entity_id}/{limit.limit.name}{WHY.get(limit.reason, '')}{wait}"


def _plain(each: Refusals) -> dict[str, Any]:
    now = each.now
    binding = None
    if now is not None and now.binding is not None:
        bucket, limit = now.binding
        binding = {"entity_id": bucket.entity_id, "resource": bucket.resource, "limit_name": limit.limit.name}
    return {
        "resource": each.resource,
        "admitted": each.admitted,
        "refused": each.refused,
        "refused_by": [{**refuser._asdict(), "refused": count} for refuser, count in each.refused_by.items()],
        "passes": each.passes,
        "reason": None if now is None else now.reason,
        "passes_at": None if now is None else plain_instant(passes_at(now)),
        "disabled": None if now is None or now.disabled is None else now.disabled.entity_id,
        **({} if each.drawn is None else {"drawn": plain_drawn(each.drawn)}),
        **({} if each.overflow is None else {"overflow": plain_overflow(each.overflow)}),
        "binding": binding,
    }
