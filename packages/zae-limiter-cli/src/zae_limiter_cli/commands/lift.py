"""`zae-limiter lift`: other limits of an entity for a time, which hold at once."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..columns import say_columns, say_json, say_sentence
from ..confirmation import confirm
from ..data.bare_money import warn_of_bare_money
from ..data.overrides import End, blocks, end_options, own_configs, places_in_words, set_override
from ..data.parsing import limits_option, parse_new_values
from ..data.places import composed_beneath
from ..data.showing import VALUES_HEAD, plain_limits, values_cells
from ..errors import CommandError
from ..now import live_line
from ..options import FiniteRange, OutputForm, connected, in_namespace, output_option, yes_option
from ..paging import open_namespace
from ..principal import principal_option
from ..rates import amount, in_money
from ..times import both, iso

if TYPE_CHECKING:
    from zae_limiter import Limit, SyncRepository
    from zae_limiter.values import Bucket
    from zae_limiter.values.schedules import ScheduleEntry

    from ..connection import Connection

AN_HOUR = End("--for", "1h")


@click.command()
@connected
@in_namespace
@click.argument("entity_id")
@click.option("--resource", "-r", metavar="NAME", help="The resource; with --end all, by default.")
@click.option(
    "--by",
    type=FiniteRange(min=0, min_open=True, max=1000),
    metavar="NUMBER",
    help="Multiply every limit by this.",
)
@limits_option(required=False, parse=parse_new_values)
@end_options("1h")
@click.option("--end", "ends", is_flag=True, help="End the override at once; asks first, unless --yes is given.")
@principal_option
@yes_option
@output_option
def lift(
    *,
    connection: "Connection",
    namespace: str,
    entity_id: str,
    resource: str | None,
    by: float | None,
    limits: "list[Callable[[Mapping[str, Limit]], Limit]]",
    end: End | None,
    ends: bool,
    principal: str,
    yes: bool,
    output: OutputForm,
) -> None:
    """Give ENTITY_ID other limits on a resource for a time, by a factor (--by 2) or by value (-l rpm:500).

    A factor multiplies the entries of a schedule, too; a value holds at all times. Limits that -l does not name go on
    to follow their levels; a factor is taken once, of what holds now. The command shows which values hold now, and
    which at other times. Processes at work obey with their next request. --end ends an override, of this command or of
    `entity set-limits --for`.
    """
    if ends and (by is not None or limits or end is not None):
        raise CommandError("--end ends an override: pass no --by, -l, --for or --until with it")
    if not ends and (by is None) is not bool(limits):
        raise CommandError("pass either --by FACTOR or -l LIMIT: --by 2, -l rpm:500; or --end")
    with open_namespace(connection, namespace) as repository:
        if ends:
            _end(repository, entity_id, resource, principal, output, yes=yes)
        elif resource is None:
            raise CommandError("which limits? Pass --resource NAME")
        else:
            _lift(repository, entity_id, resource, by, limits, end or AN_HOUR, principal, output)


def _lift(
    repository: "SyncRepository",
    entity_id: str,
    resource: str,
    by: float | None,
    limits: "list[Callable[[Mapping[str, Limit]], Limit]]",
    end: End,
    principal: str,
    output: OutputForm,
) -> None:
    end.of(repository)  # a wrong one is the first error
    if blocks(repository.get_override(entity_id, resource)):
        raise CommandError(f"{entity_id} is disabled on {resource} for a time: `enable` it first; nothing was changed")
    beneath = composed_beneath(repository, entity_id, resource).limits
    known = {limit.name: limit for limit in beneath}
    if by is None:
        own = {limit.name: limit for limit in (new_values(known) for new_values in limits)}
        warn_of_bare_money(own.values())
    else:
        own = {name: _times(limit, by) for name, limit in known.items()}
    lifted = known | own
    if not lifted:
        raise CommandError(f"no level has limits for {entity_id} on {resource}: there is nothing to multiply")
    bucket = repository.get_bucket(entity_id, resource)
    until, live = set_override(
        repository, entity_id, resource, [*own.values()], end=end, principal=principal, extends=True
    )
    left = {} if bucket is None else _left(repository, bucket)
    now_ms = repository.namespace_state.now()
    if output == "json":
        plain = {"until": iso(until), "limits": plain_limits([*lifted.values()], now_ms), "live_buckets": live}
        plain |= {"left": {name: _plain_left(each) for name, each in left.items()}}
        say_json({"entity_id": entity_id, "resources": [resource], "action": "lifted", **plain})
    else:
        say_sentence(f"{entity_id} has other limits until {both(until)} on {resource}: {live_line(live)}.")
        say_columns([VALUES_HEAD, *(row for limit in lifted.values() for row in values_cells(limit, now_ms))])
        for name, (before, now, unit) in left.items():
            say_sentence(f"{name}: {amount(before, unit)} left -> {amount(now, unit)}.")


def _end(
    repository: "SyncRepository",
    entity_id: str,
    resource: str | None,
    principal: str,
    output: OutputForm,
    *,
    yes: bool,
) -> None:
    """End the override on a resource, or those on all."""
    own = own_configs(repository, entity_id, None if resource is None else [resource])
    found = [place for place, config in own.items() if config.override]
    if not found:
        on = "" if resource is None else f" on {resource}"
        raise CommandError(f"there is no override of {entity_id}{on} in namespace {repository.name}: nothing was ended")
    what = f"override of {entity_id} on {places_in_words(found)}"
    if not yes:
        confirm(f"End the {what} in namespace {repository.name}?")
    live = max([repository.delete_override(entity_id, place, principal=principal) for place in found])
    if output == "json":
        say_json({"entity_id": entity_id, "resources": found, "action": "ended", "live_buckets": live})
    else:
        say_sentence(f"The {what} has ended.")


def _times(limit: "Limit", factor: float) -> "Limit":
    """Return a limit that gives ``factor`` times as much, at all times: the entries of its schedule do, too."""
    return replace(limit, schedule=tuple(_more(each, factor) for each in limit.schedule), **_multiplied(limit, factor))


def _more(entry: "ScheduleEntry", factor: float) -> "ScheduleEntry":
    return replace(entry, **_multiplied(entry, factor))


def _multiplied(values: "Limit | ScheduleEntry", factor: float) -> dict[str, Any]:
    """Return the amounts of a limit or an entry times ``factor``, at least one token; what blocks goes on to block."""
    if values.capacity == 0:
        return {}
    return {each: max(1, round(getattr(values, each) * factor)) for each in ("capacity", "burst", "refill_amount")}


def _plain_left(each: "_Left") -> dict[str, Any]:
    unit = {"unit": each.unit} if each.unit else {}
    return {"before": each.before, "now": each.now, **unit, **in_money(each.unit, before=each.before, now=each.now)}


class _Left(NamedTuple):
    """What is left of a limit before a change and after it, in whole tokens."""

    before: int
    now: int
    unit: str


def _left(repository: "SyncRepository", bucket: "Bucket") -> dict[str, _Left]:
    """Return what is left now of each quota of a bucket, as it was before, by limit."""
    from zae_limiter import SyncRateLimiter

    quotas = [each for each in bucket.limits if each.limit.kind not in ("token_bucket", "concurrent")]
    there = SyncRateLimiter(repository).available(bucket.entity_id, bucket.resource) if quotas else {}
    found = {
        each.limit.name: _Left(each.available, there.get(each.limit.name, each.available), each.limit.unit)
        for each in quotas
    }
    return {name: left for name, left in found.items() if left.before != left.now}
