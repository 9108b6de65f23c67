"""`zae-limiter entity show`."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ...columns import say_columns, say_json, say_sentence
from ...data.declared import as_declared
from ...data.effective import Effective, read_effective, said_in_force
from ...data.places import ALL_RESOURCES, name_of
from ...data.refusals import say_on_refused
from ...data.showing import LIMIT_HEAD, limit_cells, override_line, plain_bucket, say_buckets, show_entity
from ...data.switches import lines_of, plain_resolved, sentences
from ...last_call import last_call, plain_last_call
from ...options import OutputForm, output_option
from ...paging import in_repository
from ...times import both

if TYPE_CHECKING:
    from zae_limiter import Entity, Limit, SyncRepository
    from zae_limiter.values import Bucket
    from zae_limiter.values.provisioner import StoredConfig


@click.command(short_help="Show record, limits, switches, and what is left in buckets.")
@in_repository
@click.argument("entity_id")
@click.option("--resource", "-r", metavar="NAME", help="Only this resource, with all levels of limits.")
@output_option
def show(*, repository: "SyncRepository", entity_id: str, resource: str | None, output: OutputForm) -> None:
    """Show the record of ENTITY_ID, the limits in force with the level that each comes from, the switches in force,
    its own limits, and the tokens that it has left in its buckets, over all shards.

    The levels, in order: the entity on the resource, the entity on all resources, its tier on the resource and on all,
    the resource, the system. The first level with limits wins as a whole; an override in force replaces the limits of
    its level. Each switch, and what follows a refusal, is that of the first level that sets it.

    SHADOWED counts the acquires that were admitted although shadow limits would have refused them. A resource without a
    bucket has all its tokens, unless a capacity of 0 blocks. The lists may miss a change of the last second.
    """
    from zae_limiter import EntityNotFoundError
    from zae_limiter.maintenance import SyncMaintenance

    record = repository.get_entity(entity_id)
    tier = None if record is None else record.tier
    buckets = [as_declared(repository, each) for each in repository.get_buckets(entity_id, resource)]
    if resource is not None:
        found = read_effective(repository, entity_id, tier, [resource])
    else:
        found = _read_all(repository, entity_id, tier, {each.resource for each in buckets})
        if record is None and not buckets and not any(map(_own, found.values())):
            raise EntityNotFoundError(entity_id)
    call = SyncMaintenance(repository).get_last_calls([entity_id]).get(entity_id)
    if output == "json":
        say_json(_plain(entity_id, record, found, buckets) | {"last_call": plain_last_call(call)})
        return
    _say_record(entity_id, record)
    when = last_call(call)
    say_sentence(f"Last call by its usage: {when}{'' if call is None else f' (UTC), on {call.resource}'}.")
    click.echo()
    if resource is not None:
        _say_levels(entity_id, found[resource], tier)
    else:
        _say_in_force(entity_id, found)
    _say_buckets(entity_id, buckets, found)


def _read_all(
    repository: "SyncRepository", entity_id: str, tier: str | None, used: "AbstractSet[str]"
) -> dict[str, Effective]:
    """Return what holds on each resource that an entity uses or that a level names, and last on all others."""
    names = {*repository.list_resources_with_defaults(), *repository.list_resources_with_entity_configs(), *used}
    names |= set() if tier is None else {*repository.list_tiers().get(tier, ())}
    found = read_effective(repository, entity_id, tier, [*sorted(names - {ALL_RESOURCES}), ALL_RESOURCES])
    return {name: each for name, each in found.items() if name == ALL_RESOURCES or name in used or each.is_named}


def _own(found: Effective) -> "StoredConfig | None":
    return found.configs["entity_default" if found.resource == ALL_RESOURCES else "entity"]


def _plain(
    entity_id: str, record: "Entity | None", found: Mapping[str, Effective], buckets: "Sequence[Bucket]"
) -> dict[str, object]:
    switched = ((each, found[each.resource].switches) for each in buckets)
    return {
        "entity_id": entity_id,
        "record": None if record is None else asdict(record),
        "resources": [each.plain() for each in found.values()],
        "buckets": [
            {**plain_bucket(each), **({"switches": plain_resolved(set_)} if set_ else {})} for each, set_ in switched
        ],
    }


def _say_record(entity_id: str, record: "Entity | None") -> None:
    if record is None:
        say_sentence(f"{entity_id} has no record, so neither parents nor a tier.")
    else:
        show_entity(record, "table")


def _say_levels(entity_id: str, found: Effective, tier: str | None) -> None:
    """Print each level on one resource, and which one wins."""
    composed = found.composed
    of = "" if tier is None else f" (tier {tier})"
    names = [name_of(each) for each in composed.levels]
    wins = _wins(names, unlimited=not composed.limits)
    winners = {limit.name: name_of(each) for each in reversed(composed.levels) for limit in each.limits}
    say_sentence(f"{entity_id} on {found.resource}{of}: {wins}")
    rows: list[tuple[str, ...]] = [("LEVEL", "WINS", *LIMIT_HEAD)]
    for source, config in found.configs.items():
        said = said_in_force(config)
        marks = ["yes" if winners.get(limit.name) == source else "-" for limit in said.limits]
        if not said.limits:
            marks = ["yes" if source in names else "-"]
        cells = _cells(said.limits, unlimited=bool(said))
        rows += [(source, mark, *each) for mark, each in zip(marks, cells, strict=True)]
    say_columns(rows)
    for source, config in found.configs.items():
        if config is not None and config.override is not None:
            say_sentence(f"{source}: {override_line(config.override)[:-1]}; then these limits of its own:")
            say_columns([LIMIT_HEAD, *_cells(config.limits)])
    for line in lines_of(found.switches):
        say_sentence(line)
    policy_from, policy = found.on_refused
    say_on_refused(policy, by=policy_from)


def _say_in_force(entity_id: str, found: Mapping[str, Effective]) -> None:
    """Print the limits in force by resource, the switches in force, and what an override replaces."""
    rows: list[tuple[str, ...]] = [("ON", "BY", *LIMIT_HEAD)]
    for each in found.values():
        composed = each.composed
        sources: list[str] = [composed.sources[limit.name] for limit in composed.limits] or [composed.source or "-"]
        cells = _cells(composed.limits, unlimited=bool(composed.levels))
        rows += [(_on(each), source, *of_limit) for source, of_limit in zip(sources, cells, strict=True)]
    say_columns(rows)
    for each in found.values():
        for line in sentences(entity_id, _on(each), each.switches):
            say_sentence(line)
        policy_from, policy = each.on_refused
        say_on_refused(policy, by=policy_from, place=_on(each))
        config = _own(each)
        if config is not None and config.override is not None:
            after = ", ".join(" ".join(cells) for cells in map(limit_cells, config.limits))
            after = after or ("unlimited" if config.said else "none of its own")
            say_sentence(f"Override on {_on(each)} until {both(config.override.until)}; then: {after}.")


def _on(found: Effective) -> str:
    return "other resources" if found.resource == ALL_RESOURCES else found.resource


def _say_buckets(entity_id: str, buckets: "Sequence[Bucket]", found: Mapping[str, Effective]) -> None:
    click.echo()
    if buckets:
        say_buckets(buckets)
        return
    if len(found) > 1:
        left = "all tokens are available, unless a capacity of 0 blocks"
    else:
        (only,) = found.values()
        blocked = [each.name for each in only.composed.limits if each.blocks and not each.shadow]
        left = f"a capacity of 0 blocks {', '.join(blocked)}" if blocked else "all tokens are available"
    say_sentence(f"{entity_id} has no bucket: {left}.")


def _cells(limits: "Sequence[Limit]", *, unlimited: bool = False) -> list[tuple[str, ...]]:
    return [limit_cells(each) for each in limits] or [("unlimited" if unlimited else "-", "-", "-", "-")]


def _wins(sources: Sequence[str], *, unlimited: bool) -> str:
    if not sources:
        return "no level has limits."
    first, *others = sources
    adds = f", and extends {', then '.join(others)}" if others else ""
    return f"the level {first} wins{adds}{': unlimited' if unlimited else ''}."
