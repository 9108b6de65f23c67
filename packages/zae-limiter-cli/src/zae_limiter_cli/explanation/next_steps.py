"""What to do next, as commands to paste."""

import math
import shlex
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from zae_limiter.values.money import MICRO, write_money

from ..data.places import ALL_RESOURCES
from ..times import duration
from .report import Report, in_force

if TYPE_CHECKING:
    from zae_limiter import Limit
    from zae_limiter.values import BucketExplanation, LimitExplanation

LARGEST_FACTOR: Final = 1000
OF_THE_STORE: Final = {"entity", "entity_default", "tier", "tier_default", "resource", "pattern", "system"}


class NextStep(NamedTuple):
    """A command, and what it does."""

    does: str
    command: str


class _Step(NamedTuple):
    """What a command does, its words, the entity that it names, and its options."""

    does: str
    verb: str
    entity_id: str | None
    options: Sequence[str]

    def command(self, options: Sequence[str]) -> str:
        """Return the command; an id that begins with a dash comes after all options, because it is none."""
        ids = [] if self.entity_id is None else [self.entity_id]
        given = [*self.options, *options]
        words = [*given, "--", *ids] if ids and ids[0].startswith("-") else [*ids, *given]
        return shlex.join(["zae-limiter", *self.verb.split(), *words])

    @property
    def too(self) -> "_Step":
        """The same, for a bucket that refuses beside another one."""
        return self._replace(does=f"{self.does.removesuffix('.')}: it refuses, too.")


def next_steps(report: Report, options: Sequence[str]) -> list[NextStep]:
    """Return the steps that may help, the strongest first; ``options`` name the place where the command looked."""
    steps = _remedies_of_all(report) if report.explanation.disabled is None else _enabling_all(report)
    return [NextStep(step.does, step.command(options)) for step in (*steps, *_views(report))]


def _remedies_of_all(report: Report) -> Iterator[_Step]:
    """Yield the remedies of the limit that decides; behind its first one the first of each other bucket that refuses,
    for one alone lets nothing pass.
    """
    if report.suspect is None:
        return
    bucket, limit = report.suspect
    steps = list(_remedies(report, bucket, limit))
    if _is_drawn(report, limit) and limit.limit.kind == "token_bucket":
        steps.sort(key=lambda step: step.verb != "bucket reset")  # a lift only makes them come faster
    yield from steps[:1]
    for other in report.explanation.buckets:
        refusing = [each for each in other.limits if each.refuses]
        if other is not bucket and refusing:
            step = next(_remedies(report, other, max(refusing, key=lambda each: each.wait_seconds)), None)
            if step is not None:
                yield step.too
    yield from steps[1:]


def _remedies(report: Report, bucket: "BucketExplanation", limit: "LimitExplanation") -> Iterator[_Step]:
    entity_id, on, name = bucket.entity_id, ["-r", bucket.resource], limit.limit.name
    where_set = [] if limit.source == "entity_default" else on
    stored = limit.source in OF_THE_STORE
    if limit.override_until is not None and all(each.blocked for each in bucket.limits):
        yield _Step(f"Let {entity_id} in again.", "enable", entity_id, where_set)
    elif limit.override_until is not None and _end_helps(report, bucket, limit):
        place = where_set or ["-r", ALL_RESOURCES]
        yield _Step("End the override, whose limits are lower.", "lift", entity_id, [*place, "--end"])
    elif limit.blocked and stored:
        yield from _opening(bucket, limit)
    elif bucket.is_over(report.explanation.at):
        return
    elif _wants_credit(limit) and not _is_drawn(report, limit):
        more = max(1, (limit.requested or 1) - limit.available)
        text = write_money(more, limit.limit.unit) if limit.limit.unit else f"{more}"
        yield _Step(f"Give {entity_id} {text} {name} now.", "bucket credit", entity_id, [*on, "-t", f"{name}:{text}"])
    elif stored and (factor := _factor(report, bucket, limit)) is not None:
        after = _seconds_after(report, bucket, limit, factor)
        if after is None or after < limit.wait_seconds:
            yield _lift(report, bucket, factor, after)
    if not math.isinf(limit.wait_seconds):
        if limit.limit.kind != "concurrent":  # slots stay with their holders
            yield _Step(f"Fill the bucket of {entity_id} once.", "bucket reset", entity_id, on)
        yield _Step(f"See who consumes {name}.", "usage top", None, [*on, "--by", name])


def _is_drawn(report: Report, limit: "LimitExplanation") -> bool:
    """Return whether a limit is of a draw whose amounts are not known, so that no credit is right."""
    return report.drawn is not None and report.drawn.found is not None and report.drawn.found[1] is limit


def _lift(report: Report, bucket: "BucketExplanation", factor: int, after: float | None) -> _Step:
    """Return a lift of the limits of a bucket by a factor; ``after`` so many seconds the call passes."""
    entity_id, until = bucket.entity_id, _until(report, bucket)
    whose = (
        "the limits that it has without the override"
        if (entity_id, bucket.resource) in report.beneath
        else "its limits"
    )
    time, end = (f"until {until}", ["--until", until]) if until else ("for an hour", [])
    later = "" if after is None else f": the call passes {duration(after)} later"
    does = f"Give {entity_id} {factor} times {whose} {time}{later}."
    return _Step(does, "lift", entity_id, ["-r", bucket.resource, "--by", str(factor), *end])


def _opening(bucket: "BucketExplanation", limit: "LimitExplanation") -> Iterator[_Step]:
    """Yield how to give a limit of 0 another capacity; nothing where that would end an override of others."""
    entity_id, name, asked = bucket.entity_id, limit.limit.name, limit.requested or 1
    if any(each.override_until is not None for each in bucket.limits):
        return
    if unit := limit.limit.unit:
        text = write_money(max(60 * MICRO, asked), unit)
        does = f"Let {entity_id} spend {text} of {name} for an hour."
    else:
        text = str(max(60, asked))
        does = f"Give {entity_id} {text} {name} {'' if limit.limit.kind == 'concurrent' else 'a minute '}for an hour."
    yield _Step(does, "lift", entity_id, ["-r", bucket.resource, "-l", f"{name}:{text}"])


def _end_helps(report: Report, bucket: "BucketExplanation", limit: "LimitExplanation") -> bool:
    """Return whether without the override the limit is larger, what is asked fits, and no other limit is smaller."""
    if limit.limit.kind != "token_bucket" and (limit.available <= 0 or _wants_credit(limit)):
        return False  # more than the override has may be used: a credit is sure
    beneath = report.beneath[bucket.entity_id, bucket.resource]

    def is_larger(each: "LimitExplanation", *, or_equal: bool) -> bool:
        there = beneath.get(each.limit.name)
        if there is None:
            return True
        now = in_force(each)
        more = there.usable_burst > now.usable_burst or _rate(there) > _rate(now)
        less = there.usable_burst < max(now.usable_burst, _needed(each)) or _rate(there) < _rate(now)
        return not less and (more or or_equal)

    known = {each.limit.name for each in bucket.limits}
    others = all(is_larger(each, or_equal=True) for each in bucket.limits)
    return beneath.keys() <= known and others and is_larger(limit, or_equal=False)


def _needed(each: "LimitExplanation") -> int:
    """Return the burst with which the call passes: of a quota what was used counts, of slots what is held."""
    used = 0 if each.limit.kind == "token_bucket" else max(0, in_force(each).usable_burst - each.available)
    return used + (each.requested or 0)


def _rate(limit: "Limit") -> float:
    """Return the tokens that come in a second; those of a slot or a total come by no rate."""
    return limit.refill_amount / limit.refill_period if limit.kind == "token_bucket" else 0.0


def _seconds_after(report: Report, bucket: "BucketExplanation", limit: "LimitExplanation", factor: int) -> float | None:
    """Return in how many seconds the missing tokens come after a lift, which leaves what is there; ``None`` where they
    are there at once, and for slots, which others have to release.
    """
    beneath = report.beneath.get((bucket.entity_id, bucket.resource), {})
    per_second = _rate(beneath.get(limit.limit.name) or in_force(limit)) * factor
    if not (limit.refuses and bucket.shard_count and per_second):
        return None
    missing: float = (limit.requested or 0) - limit.available
    if not math.isinf(limit.wait_seconds):
        missing = limit.wait_seconds * _rate(in_force(limit))  # without the part of a token that is there
    return missing / per_second if missing > 0 else None


def _until(report: Report, bucket: "BucketExplanation") -> str:
    """Return the end of an override that a lift would replace, as an option has it, if an hour is not as long."""
    ends = [each.override_until for each in bucket.limits if each.override_until is not None]
    if not ends or max(ends) <= report.explanation.at + timedelta(hours=1):
        return ""
    return f"{max(ends) + timedelta(seconds=60, microseconds=-1):%Y-%m-%dT%H:%MZ}"


def _enabling_all(report: Report) -> Iterator[_Step]:
    """Yield how to enable each bucket that is disabled, then what helps against the limits that refuse, too."""
    shut = [each for each in report.explanation.buckets if each.switches is not None and each.switches.disables]
    first, *others = (list(_enabling(each)) for each in shut)
    yield from first
    for steps in others:
        yield from (step.too for step in steps[:1])
    if report.explanation.binding is not None:
        yield from (step.too for step in islice(_remedies_of_all(report), 1))


def _enabling(bucket: "BucketExplanation") -> Iterator[_Step]:
    """Yield how to end what disables a bucket, at the level that does."""
    switch = None if bucket.switches is None else bucket.switches.disabled
    if switch is None:
        return
    own = switch.source in {"entity", "entity_default"}
    on = {"entity": ["-r", bucket.resource], "resource": ["-r", bucket.resource], "system": ["--system"]}
    if switch.pattern is not None:
        on["pattern"] = ["-r", switch.pattern]
    ends = [*on.get(switch.source, []), *([] if own else ["--now"])]
    whom = bucket.entity_id if own else "every entity"
    yield _Step(f"Let {whom} in again.", "enable", bucket.entity_id if own else None, ends)
    if not own:
        yield _Step(
            f"Let {bucket.entity_id} alone in.", "enable", bucket.entity_id, ["-r", bucket.resource, "--exempt"]
        )


def _views(report: Report) -> Iterator[_Step]:
    found, bucket = report.explanation, report.deciding
    yield from _draws(report)
    if report.overflow is not None and not report.overflow.passes:
        there = report.overflow.resource
        yield _Step(f"See why its overflow {there} refuses it.", "why", found.entity_id, ["-r", there])
    of_caller = ["--entity", found.entity_id, "-r", found.resource]
    yield _Step(f"See the use of {found.entity_id} by the hour.", "usage list", None, of_caller)
    of = {"resource": ["--resource", bucket.resource], "system": ["--system"]}
    if bucket.tier is not None:
        of |= {source: ["--tier", bucket.tier] for source in ("tier", "tier_default")}
    switch = None if found.disabled is None or bucket.switches is None else bucket.switches.disabled
    if pattern := switch.pattern if switch else bucket.pattern:
        of["pattern"] = ["--resource", pattern]
    source = bucket.source if report.suspect is None else report.suspect[1].source
    subject = of.get(switch.source if switch else source, ["--entity", bucket.entity_id])
    what = "switches" if switch else "limits"
    yield _Step(f"See all changes of the {what} that decide.", "audit list", None, subject)


def _draws(report: Report) -> Iterator[_Step]:
    """Yield how to ask the bucket that refused most often, if the call does not take from it: a draw of the service."""
    found, refused_by = report.explanation, report.usage.refused_by or report.explanation.buckets[0].refused_by
    if (drawn := report.drawn) is not None and drawn.is_of_runs:
        if drawn.found is None:
            yield _Step("See the budgets of all runs.", "entity list", None, ["--buckets", "-r", "budget"])
        else:
            run = drawn.found[0]
            yield _Step(f"See why {run.entity_id} refuses.", "why", run.entity_id, ["-r", run.resource])
        return
    if drawn is not None and drawn.found is not None:
        asks = ["--cascade"] if drawn.of_parent else ["--draw", _a_draw(*drawn.found, drawn.left)]
        does = f"Ask with what the call draws there, such as {asks[-1].rpartition(':')[2]}."
        if drawn.of_parent:
            does = f"Ask with {drawn.refuser.entity_id}, its parent."
        yield _Step(does, "why", found.entity_id, ["-r", found.resource, *asks])
        return
    asked = {bucket.entity_id for bucket in found.buckets}
    others = {each: count for each, count in refused_by.items() if each.entity_id not in asked}
    if others:
        whom = max(others, key=lambda each: others[each])
        whose = "which is, or was, disabled for" if whom.is_disabled else f"whose {whom.limit_name} refused"
        does = f"Ask for a draw on {whom.entity_id}, {whose} {others[whom]:,} calls."
        yield _Step(does, "why", found.entity_id, ["-r", found.resource, "--draw", whom.entity_id])


def _a_draw(bucket: "BucketExplanation", limit: "LimitExplanation", left: int) -> str:
    """Return a draw of a little more than is left, as an option has it."""
    name, unit = limit.limit.name, limit.limit.unit
    some = min(max(0, left) + (MICRO // 100 if unit else 1), max(1, in_force(limit).usable_burst))
    text = write_money(some, unit).replace(" ", "") if unit else f"{some}"
    return f"{bucket.entity_id} on {bucket.resource} {name}:{text}"


def _wants_credit(limit: "LimitExplanation") -> bool:
    """Return whether what lacks is given by a credit: of a quota or a total, for a window or for ever."""
    is_quota = limit.limit.kind not in ("token_bucket", "concurrent")
    return is_quota and (limit.requested or 1) <= in_force(limit).usable_burst


def _factor(report: Report, bucket: "BucketExplanation", limit: "LimitExplanation") -> int | None:
    """Return the factor of the limits with which the requested tokens fit into the bucket; ``None`` for none.

    A lift replaces an override, and multiplies what holds without it: so the factor keeps every limit as large as now.
    """
    beneath = report.beneath.get((bucket.entity_id, bucket.resource))
    if beneath is None:
        least = _needed(limit) / max(1, in_force(limit).usable_burst)
    elif beneath.keys() != {each.limit.name for each in bucket.limits}:
        return None  # a lift would add a limit, or end one
    else:
        now = [(in_force(each), beneath[each.limit.name]) for each in bucket.limits]
        if any(there.kind != here.kind or there.blocks for here, there in now):
            return None
        asked = _needed(limit) / max(1, beneath[limit.limit.name].usable_burst)
        sizes = [here.usable_burst / max(1, there.usable_burst) for here, there in now]
        rates = [_rate(here) / _rate(there) for here, there in now if _rate(there)]
        own = in_force(limit).usable_burst / max(1, beneath[limit.limit.name].usable_burst)
        least = max(asked, 2 * own if limit.reason != "never" else 0, *sizes, *rates)
    factor = max(2, math.ceil(least))
    return factor if factor <= LARGEST_FACTOR else None
