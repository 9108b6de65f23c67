"""What to do next, as commands to paste."""

import math
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from zae_limiter.values.money import MICRO, write_money

from ..data.places import ALL_RESOURCES
from .report import Report, in_force

if TYPE_CHECKING:
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


def next_steps(report: Report, options: Sequence[str]) -> list[NextStep]:
    """Return the steps that may help, the strongest first; ``options`` name the place where the command looked."""
    shut, suspect = report.explanation.disabled, report.suspect
    steps = _enabling(shut) if shut is not None else () if suspect is None else _remedies_of_all(report, *suspect)
    return [NextStep(step.does, step.command(options)) for step in (*steps, *_views(report))]


def _remedies_of_all(report: Report, bucket: "BucketExplanation", limit: "LimitExplanation") -> Iterator[_Step]:
    """Yield the remedies of the limit that decides; behind its first one the first of each other bucket that refuses,
    for one alone lets nothing pass.
    """
    steps = list(_remedies(bucket, limit))
    yield from steps[:1]
    for other in report.explanation.buckets:
        refusing = [each for each in other.limits if each.refuses]
        if other is not bucket and refusing:
            step = next(_remedies(other, max(refusing, key=lambda each: each.wait_seconds)), None)
            if step is not None:
                yield step._replace(does=f"{step.does.removesuffix('.')}: it refuses, too.")
    yield from steps[1:]


def _remedies(bucket: "BucketExplanation", limit: "LimitExplanation") -> Iterator[_Step]:
    entity_id, on, name = bucket.entity_id, ["-r", bucket.resource], limit.limit.name
    where_set = [] if limit.source == "entity_default" else on
    stored = limit.source in OF_THE_STORE
    if limit.override_until is not None and all(each.blocked for each in bucket.limits):
        yield _Step(f"Let {entity_id} in again.", "enable", entity_id, where_set)
    elif limit.override_until is not None:
        place = where_set or ["-r", ALL_RESOURCES]
        yield _Step("End the override.", "lift", entity_id, [*place, "--end", "--yes"])
    elif limit.blocked and stored:
        if unit := limit.limit.unit:
            text = write_money(60 * MICRO, unit)
            yield _Step(
                f"Let {entity_id} spend {text} of {name} for an hour.", "lift", entity_id, [*on, "-l", f"{name}:{text}"]
            )
        else:
            yield _Step(
                f"Give {entity_id} 60 {name} a minute for an hour.", "lift", entity_id, [*on, "-l", f"{name}:60"]
            )
    elif _wants_credit(limit):
        more = max(1, (limit.requested or 1) - limit.available)
        text = write_money(more, limit.limit.unit) if limit.limit.unit else f"{more}"
        yield _Step(f"Give {entity_id} {text} {name} now.", "bucket credit", entity_id, [*on, "-t", f"{name}:{text}"])
    elif stored and (factor := _factor(limit)) <= LARGEST_FACTOR:
        yield _Step(
            f"Give {entity_id} {factor} times its limits for an hour.", "lift", entity_id, [*on, "--by", str(factor)]
        )
    if not math.isinf(limit.wait_seconds):
        yield _Step(f"Fill the bucket of {entity_id} once.", "bucket reset", entity_id, on)
        yield _Step(f"See who consumes {name}.", "usage top", None, [*on, "--by", name])


def _enabling(bucket: "BucketExplanation") -> Iterator[_Step]:
    """Yield how to end what disables a bucket, at the level that does."""
    switch = None if bucket.switches is None else bucket.switches.disabled
    if switch is None:
        return
    own = switch.source in {"entity", "entity_default"}
    on = {"entity": ["-r", bucket.resource], "resource": ["-r", bucket.resource], "system": ["--system"]}
    if switch.pattern is not None:
        on["pattern"] = ["-r", switch.pattern]
    ends = [*on.get(switch.source, []), *([] if own else ["--now", "--yes"])]
    whom = bucket.entity_id if own else "every entity"
    yield _Step(f"Let {whom} in again.", "enable", bucket.entity_id if own else None, ends)
    if not own:
        yield _Step(
            f"Let {bucket.entity_id} alone in.", "enable", bucket.entity_id, ["-r", bucket.resource, "--exempt"]
        )


def _views(report: Report) -> Iterator[_Step]:
    found, bucket = report.explanation, report.deciding
    yield from _draws(report)
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
    asked = {bucket.entity_id for bucket in found.buckets}
    others = {each: count for each, count in refused_by.items() if each.entity_id not in asked}
    if others:
        whom = max(others, key=lambda each: others[each])
        does = f"Ask for a draw on {whom.entity_id}, whose {whom.limit_name} refused {others[whom]:,} calls."
        yield _Step(does, "why", found.entity_id, ["-r", found.resource, "--draw", whom.entity_id])


def _wants_credit(limit: "LimitExplanation") -> bool:
    """Return whether what lacks is given by a credit: of a quota or a total, for a window or for ever."""
    is_quota = limit.limit.kind not in ("token_bucket", "concurrent")
    return is_quota and (limit.requested or 1) <= in_force(limit).usable_burst


def _factor(limit: "LimitExplanation") -> int:
    """Return the factor of the limits with which the requested tokens fit into the bucket."""
    return max(2, math.ceil((limit.requested or 0) / max(1, in_force(limit).usable_burst)))
