"""Show a report to people: the verdict, each bucket, the refusals, the changes, the next steps."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import click

from ..columns import counted, say_command, say_wrapped
from ..data.switches import sentences
from ..rates import amount, rate
from ..times import both, duration, shown
from .draws import Drawn
from .next_steps import NextStep
from .overflow import left_there
from .report import Report, by_cause, in_force, is_disabled_for_a_time

if TYPE_CHECKING:
    from zae_limiter import Explanation, Limit
    from zae_limiter.values import BucketExplanation, LimitExplanation, Reason

ROWS: Final = ("LIMIT", "ASKED", "TOKENS", "BURST", "REFILL", "")
WHY: Final[Mapping["Reason | None", str]] = {
    "rate": ": too fast",
    "quota": ": used up",
    "concurrency": ": too many at once",
}
SOURCES: Final[Mapping[str, str]] = {
    "entity": "its own limits on {resource}",
    "entity_default": "its own limits on all resources",
    "tier": "the limits of its tier {tier} on {resource}",
    "tier_default": "the limits of its tier {tier} on all resources",
    "resource": "the limits of {resource}",
    "pattern": "the limits of the pattern {pattern}",
    "system": "the limits of the system",
    "call": "the limits that the call passes",
    "default_limits": "the limiter's default limits",
    "bucket": "no level has limits: those that a service passed to its bucket",
}


def say_report(report: Report, steps: Sequence[NextStep], *, width: int) -> None:
    """Print a report in lines of at most ``width``, but for the commands: without a terminal they are whole."""
    found = report.explanation
    for line in (*_verdict(report), *(each.sentence for each in report.unknown)):
        say_wrapped([(line,)], width=width)
    for bucket in found.buckets:
        click.echo()
        say_wrapped([(_head(found, bucket),)], width=width)
        for line in sentences(bucket.entity_id, bucket.resource, bucket.switches):
            say_wrapped([(line,)], width=width, indent="  ")
        say_wrapped([ROWS, *map(_cells, bucket.limits)], width=width, indent="  ")
        for line in _of_levels(bucket):
            say_wrapped([(line,)], width=width, indent="  ")
        if bucket.unlimited:
            names = ", ".join(bucket.unlimited)
            say_wrapped([(f"Not limited here, only counted: {names}",)], width=width, indent="  ")
    click.echo()
    for line in _refusals(report):
        say_wrapped([(line,)], width=width)
    click.echo()
    _say_changes(report, width)
    click.echo("\nNext:")
    for step in steps:
        say_wrapped([(f"# {step.does}",)], width=width, indent="  ")
        say_command(step.command, indent="  ")


def _verdict(report: Report) -> Iterator[str]:
    found = report.explanation
    what = ", ".join(filter(None, (f"{found.entity_id} on {found.resource}", amounts_of(report))))
    shut = found.disabled
    if shut is not None:
        yield f"{what}: refused, because {shut.entity_id} is disabled."
        yield f"Path: {' -> '.join(shut.path)}"
    elif report.by_draw is not None:
        yield from by_draw(report, what)
    elif found.binding is None:
        yield f"{what}: passes now."
        if report.suspect is not None:
            yield f"Refused before, most often by {report.suspect[0].entity_id}/{report.suspect[1].limit.name}."
    else:
        bucket, limit = found.binding
        disabled = f": {bucket.entity_id} is disabled" if is_disabled_for_a_time(bucket) else ""
        on = "" if bucket.resource == found.resource else f" on {bucket.resource}"
        refused = f"{what}: refused by {bucket.entity_id}/{limit.limit.name}{on}{WHY.get(limit.reason, disabled)}"
        there = report.overflow
        yield f"{refused}{served(report)}."
        if there is not None and there.binding is not None:
            also, by = there.binding
            yield f"Its overflow {there.resource} refuses it, too: {also.entity_id}/{by.limit.name}."
        yield f"Path: {' -> '.join([*bucket.path, limit.limit.name])}"
        yield until(report)
    if found.overflows_to is not None:
        yield f"It asks {found.overflows_to} first: its on_refused says so from here on, so much of a limit is used."
    for line in asked_by(report):
        yield f"{line} -c asks for other amounts."
    if found.parent_ids and not found.cascades:
        who = (
            f"parents {', '.join(found.parent_ids)} are"
            if len(found.parent_ids) > 1
            else f"parent {found.parent_id} is"
        )
        switch = found.buckets[0].switches
        off = switch is not None and switch.cascade is not None
        why = "a switch is off" if off else "neither the entity nor the call cascades"
        yield f"Its {who} not asked: {why}."


def amounts_of(report: Report) -> str:
    """Return what is asked for: `1 rpm, 8,000 tpm, $0.50 usd`."""
    units = {each.limit.name: each.limit.unit for bucket in report.explanation.buckets for each in bucket.limits}
    return ", ".join(f"{amount(each, units.get(name, ''))} {name}" for name, each in report.asked.amounts.items())


def asked_by(report: Report) -> Iterator[str]:
    """Yield by what the amounts are, if none were given and calls were refused."""
    asked = report.asked
    if asked.by == "last":
        yield "It asks for what the last refused call asked for, as far as it was counted."
    elif asked.since is not None:
        yield f"It asks for the mean of its admitted calls since {shown(asked.since)} (UTC)."
    elif asked.by == "one" and report.was_refused and report.explanation.passes:
        yield "How much its refused calls asked for is not known, so it asks for 1."


def served(report: Report) -> str:
    """Return that the overflow serves a call, and what is left there; empty if it does not."""
    there = report.overflow
    return f", {served_by(there)}" if there is not None and there.passes else ""


def served_by(there: "Explanation") -> str:
    """Return which overflow serves a call, and what is left there."""
    left = ", ".join(f"{amount(tokens, unit)} {name}" for name, tokens, unit in left_there(there))
    return f"served by its overflow {there.resource} ({left} left)"


def by_draw(report: Report, what: str) -> Iterator[str]:
    """Yield what a draw decides: nothing is recorded of how much the calls take there."""
    drawn = report.by_draw
    if drawn is None:
        return
    yield f"{what}: {drawn_by(drawn)}."
    if drawn.refused:
        yield f"{drawn.refuser} refused {counted(drawn.refused, 'call')}; how much they draw there is not recorded."
    if drawn.found is None and drawn.is_of_runs:
        yield f"No run within {report.explanation.entity_id} has that limit now."
        return
    if drawn.found is None:
        yield "Its own limits let it pass, and no bucket of that name and limit is left, which is like a full one."
        return
    bucket, limit = drawn.found
    left, most = (amount(each, limit.limit.unit) for each in (drawn.left, in_force(limit).usable_burst))
    if not drawn.is_short:
        yield f"A call that draws {left} or less passes."
    if bucket.is_over(report.explanation.at):
        yield "The run is over: open a budget of another name."
    elif math.isinf(drawn.full_seconds):
        yield "No more come by themselves: credit the bucket."
    elif drawn.full_seconds:
        at = report.explanation.at + timedelta(seconds=drawn.full_seconds + 1)  # `both` leaves out the seconds
        yield f"It has all {most} again in {duration(drawn.full_seconds)}, at {both(at)}, if no call draws."


def drawn_by(drawn: Drawn) -> str:
    """Return which draw refuses, and what is left there."""
    whose = "parent" if drawn.of_parent else "draw"
    if drawn.found is None:
        return f"a {whose} on {drawn.refuser} refused it"
    bucket, limit = drawn.found
    left = amount(drawn.left, limit.limit.unit)
    state = f", which has {left} left" if drawn.is_short else f", if it draws more than {left}"
    return f"refused by a {whose} on {bucket.entity_id}/{limit.limit.name} on {bucket.resource}{state}"


def until(report: Report) -> str:
    """Return when a call passes that a limit refuses."""
    found = report.explanation
    if found.binding is None:
        return ""
    bucket, limit = found.binding
    if bucket.is_over(found.at):
        return "The run is over: open a budget of another name."
    there = f"On {found.resource}: " if served(report) else ""
    return f"{there}{_until(found.passes_at, limit)}"


def _until(passes_at: datetime | None, limit: "LimitExplanation") -> str:
    if limit.blocked:
        if limit.override_until is not None:
            return f"Blocked by an override until {both(limit.override_until)}."
        return "Blocked: its capacity is 0, and nothing ends that by itself."
    if passes_at is None and limit.reason == "quota":
        return "No more come by themselves: credit the bucket."
    if passes_at is None:
        unit = limit.limit.unit
        most = amount(max(each.usable_burst for each in values_of(limit.limit)), unit)
        asked = amount(limit.requested or 0, unit)
        return f"Never passes: it asks for {asked}, and the bucket holds {most} at most."
    if limit.limit.kind == "concurrent":
        longest = duration(2 * limit.limit.expires)
        return f"Passes when a holder frees its slot; a holder that is gone loses it within {longest}."
    at = passes_at if not passes_at.microsecond else passes_at + timedelta(seconds=1)
    return f"Passes in {duration(limit.wait_seconds)}, at {at:%Y-%m-%d %H:%M:%S} (UTC), if no other call comes first."


def waiting(limit: "LimitExplanation") -> str:
    """Return how long a call waits for a limit, which of slots their holders decide."""
    return "held" if limit.limit.kind == "concurrent" else f"{duration(limit.wait_seconds)} to wait"


def values_of(limit: "Limit") -> list["Limit"]:
    """Return all the values that a limit ever has: its own, and those of its schedule."""
    return [limit, *(limit.during(entry) for entry in limit.schedule)]


def _is_further(found: "Explanation", bucket: "BucketExplanation") -> bool:
    """Return whether a bucket is drawn on because of ``draws``."""
    return (bucket.path[0], bucket.resource) != (found.entity_id, found.resource)


def _of_levels(bucket: "BucketExplanation") -> Iterator[str]:
    """Yield which limits are not of the level, or the override, that the head names, and that a level is unlimited."""
    if bucket.is_unlimited:
        yield "It is unlimited: every call is admitted and counted."
    if bucket.run_ended is not None:
        yield f"It is the budget of a run, which was ended at {both(bucket.run_ended)}."
    elif bucket.run_until is not None:
        yield f"It is the budget of a run, until {both(bucket.run_until)}."
    for each in bucket.limits:
        of_head = (each.source, each.override_until) == (bucket.source, bucket.override_until)
        if not of_head or each.pattern not in (None, bucket.pattern):
            yield f"{each.limit.name} by {_words_of(each.source, bucket, each.override_until, each.pattern)}"


def _words_of(source: str, bucket: "BucketExplanation", override_until: datetime | None, pattern: str | None) -> str:
    if override_until is not None:
        place = "on all resources" if source == "entity_default" else f"on {bucket.resource}"
        return f"an override {place} until {both(override_until)}"
    return SOURCES[source].format(resource=bucket.resource, tier=bucket.tier, pattern=pattern)


def _head(found: "Explanation", bucket: "BucketExplanation") -> str:
    above = " (parent)" if bucket.entity_id in found.parent_ids else " (above a parent)"
    role = "" if bucket.entity_id == found.entity_id else above
    if _is_further(found, bucket):
        on = "" if bucket.resource == found.resource else f" on {bucket.resource}"
        role = f"{on} (draw)" if len(bucket.path) == 1 else f"{on} (draw, above {bucket.path[0]})"
    of = _words_of(bucket.source, bucket, bucket.override_until, bucket.pattern)
    shards = {0: "no bucket yet, so it is full", 1: "1 shard"}.get(bucket.shard_count, f"{bucket.shard_count} shards")
    return f"{bucket.entity_id}{role}: {of}; {shards}"


def _cells(each: "LimitExplanation") -> tuple[str, ...]:
    limit = in_force(each)
    asked = "-" if each.requested is None else amount(each.requested, limit.unit)
    left, burst = amount(each.available, limit.unit), amount(limit.burst, limit.unit)
    return limit.name, asked, left, burst, rate(limit), ", ".join(_notes(each))


def _notes(each: "LimitExplanation") -> Iterator[str]:
    if each.limit.shadow:
        yield "shadow"
    if each.blocked:
        yield "blocked"
    elif each.wait_seconds:
        verb = "would refuse" if each.limit.shadow else "REFUSES"
        never = "used up" if each.reason == "quota" else "above the burst"
        wait = never if math.isinf(each.wait_seconds) else waiting(each)
        yield f"{verb}: {wait}"
    elif each.requested is not None:
        yield "enough"
    if each.schedule:
        yield each.schedule
    if each.limit.prefetch:
        yield f"{amount(in_force(each).usable_burst, each.limit.unit)} of the burst usable"
    if each.prefetched:
        yield f"{amount(each.prefetched, each.limit.unit)} prefetched"


def _refusals(report: Report) -> Iterator[str]:
    """Yield who refused the caller: as the aggregator counted by the hour, and as its bucket has counted."""
    usage, found = report.usage, report.explanation
    own = found.buckets[0]
    since = f"Since {shown(report.since)} (UTC)"
    if usage.windows:
        yield f"{since}: {_counts(usage.total_events, usage.total_refused, by_cause(usage.refused_by))}"
    else:
        yield f"{since}: no usage is counted."
    if own.shard_count:
        yield f"Since its bucket began: {_counts(own.admitted, own.refused, by_cause(own.refused_by))}"


def _counts(admitted: int, refused: int, refused_by: Mapping[str, int]) -> str:
    by = [f"{count:,} by {refuser}" for refuser, count in refused_by.items()]
    if by and (rest := refused - sum(refused_by.values())) > 0:
        by.append(f"{rest:,} by its own limits")
    told = f"{counted(admitted, 'acquire')} admitted, {refused:,} refused"
    return f"{told} ({', '.join(by)})" if by else told


def _say_changes(report: Report, width: int) -> None:
    from ..audit.changes import changes, of_subject

    of = of_subject(report.subject)
    if not report.changes:
        say_wrapped([(f"No changes of {of} are recorded.",)], width=width)
        return
    say_wrapped([(f"Last changes of {of}, newest first (UTC):",)], width=width)
    for event in report.changes:
        on = f" on {event.resource}" if event.resource else ""
        head = f"{event.at[:16].replace('T', ' ')}  {event.principal or '-'}  {event.action}{on}"
        say_wrapped([(head,)], width=width, indent="  ")
        if changed := ", ".join(changes(event)):
            say_wrapped([(changed,)], width=width, indent="    ", most=2)
