"""`zae-limiter entity list` and `tree`."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import click

from ...columns import say_columns, say_json, say_sentence, say_tree
from ...data.showing import plain_bucket, say_all_buckets, show_entities, word, words, yes_or_no
from ...errors import CommandError
from ...options import OutputForm, output_option
from ...paging import (
    ROWS_OF_A_PAGE,
    FetchPage,
    bucket_pages,
    following_option,
    in_repository,
    rows_option,
    say_following,
    say_more,
    some_rows,
)

if TYPE_CHECKING:
    from zae_limiter import SyncRepository
    from zae_limiter.values import Bucket, KnownEntity

    from ...data.tree import Node


@click.command("list", short_help="List all entities, those of a tier, or all buckets.")
@in_repository
@click.option(
    "--resource",
    "-r",
    metavar="NAME",
    help="Only those with limits of their own on this resource; _default_ means all resources.  [default: everybody]",
)
@click.option("--tier", metavar="NAME", help="Only those that have this tier.")
@click.option("--no-tier", is_flag=True, help="Only those without a tier.")
@click.option("--begins-with", metavar="TEXT", default="", help="Only ids that begin so.")
@click.option(
    "--without-limits",
    is_flag=True,
    help="Only those that no level limits on --resource; without it, on resources that no level names.",
)
@click.option("--buckets", is_flag=True, help="List buckets with what is left in each; --resource is theirs.")
@rows_option
@following_option
@output_option
def list_entities(
    *,
    repository: "SyncRepository",
    resource: str | None,
    tier: str | None,
    no_tier: bool,
    begins_with: str,
    without_limits: bool,
    buckets: bool,
    rows: int,
    following: str | None,
    output: OutputForm,
) -> None:
    """List the entities that have a record, limits of their own, or a bucket, by id; with --tier those of a tier; with
    --buckets, the buckets by entity and resource.

    --without-limits composes all levels of each entity: its own limits and overrides, its tier, the resource with its
    patterns, the system. UNLIMITED BY is the level that says so, if one does. Limits that a program passes by itself
    are not stored.

    In JSON, `next` is what --next takes to list the rest. The list may miss a change of the last second.
    """
    if no_tier and (tier is not None or buckets or without_limits):
        raise CommandError("--no-tier goes with --resource and --begins-with: pass no other choice with it")
    if without_limits:
        if tier is not None or buckets:
            raise CommandError(
                "--without-limits goes with --resource and --begins-with: pass no --tier and no --buckets"
            )
        _list_without_limits(repository, resource, begins_with, output, rows=rows, following=following)
        return
    if tier is not None:
        if buckets or resource is not None:
            raise CommandError("--tier lists the entities of a tier: pass no --resource and no --buckets with it")
        _list_tier(repository, tier, begins_with, output, rows=rows, following=following)
        return
    if buckets:
        _list_buckets(repository, resource, begins_with, output, rows=rows, following=following)
        return
    everybody = partial(_page, repository, begins_with)
    fetch = everybody
    if resource is not None:
        allowed = partial(repository.list_entities_with_custom_limits, resource, begins_with=begins_with)
        fetch = partial(_with_limits_on, allowed, everybody)
    if no_tier:
        fetch = partial(_without_tier, fetch)
    found, behind = some_rows(fetch, rows, following)
    if output == "json":
        say_json({"entities": [asdict(each) for each in found], "next": behind})
    elif found:
        head = ("ENTITY", "PARENT", "TIER", "CASCADE", "HAS", "NAME")
        say_columns([head, *map(_cells, found)])
        say_following(behind)
    else:
        of = "" if resource is None else f" with limits of its own on {resource}"
        of += " without a tier" if no_tier else ""
        click.echo(f"There is no entity{of}{_beginning(begins_with)} in namespace {repository.name}.")


def _beginning(begins_with: str) -> str:
    """Return how a sentence says which ids were asked for."""
    return f" whose id begins with {begins_with!r}" if begins_with else ""


def _list_without_limits(
    repository: "SyncRepository",
    resource: str | None,
    begins_with: str,
    output: OutputForm,
    *,
    rows: int,
    following: str | None,
) -> None:
    from ...data.without_limits import Unlimited, only_without_limits

    def fetch(size: int, behind: str | None) -> tuple[Sequence[Unlimited], str | None]:
        entities, after = _page(repository, begins_with, size, behind)
        return only_without_limits(repository, entities, resource), after

    found, behind = some_rows(fetch, rows, following)
    if output == "json":
        entities = [{**asdict(each.entity), "unlimited_by": each.by} for each in found]
        say_json({"resource": resource, "entities": entities, "next": behind})
    elif found:
        records = ((each, each.entity.record) for each in found)
        cells = (
            (
                each.entity.entity_id,
                word(record.tier if record else None),
                word(each.by),
                word(record.name if record else None),
            )
            for each, record in records
        )
        say_columns([("ENTITY", "TIER", "UNLIMITED BY", "NAME"), *cells])
        say_following(behind)
    else:
        on = "resources that no level names" if resource is None else resource
        say_sentence(f"Every entity{_beginning(begins_with)} in namespace {repository.name} has limits on {on}.")


def _list_tier(
    repository: "SyncRepository",
    tier: str,
    begins_with: str,
    output: OutputForm,
    *,
    rows: int,
    following: str | None,
) -> None:
    """Print the entities of a tier: one query has the ids of all, and a read has the records of a hundred."""
    from zae_limiter.maintenance import SyncMaintenance

    ids = sorted(each for each in repository.list_entities_of_tier(tier) if each.startswith(begins_with))
    found = [each for each in ids if following is None or each > following]
    shown, behind = found[:rows], found[rows - 1] if len(found) > rows else None
    records = SyncMaintenance(repository).get_entity_records(shown, skip_unreadable=True)
    if output == "json":
        entities = [{"entity_id": each, "record": asdict(record)} for each, record in records.items()]
        say_json({"tier": tier, "total": len(ids), "entities": entities, "next": behind})
    elif records:
        cells = [
            (each, words(record.parent_ids), yes_or_no(record.cascade), word(record.name))
            for each, record in records.items()
        ]
        say_columns([("ENTITY", "PARENT", "CASCADE", "NAME"), *cells])
        say_following(behind)
    else:
        click.echo(f"There is no entity{_beginning(begins_with)} of tier {tier} in namespace {repository.name}.")


def _list_buckets(
    repository: "SyncRepository",
    resource: str | None,
    begins_with: str,
    output: OutputForm,
    *,
    rows: int,
    following: str | None,
) -> None:
    pages = bucket_pages(repository, resource)

    def fetch(size: int, behind: str | None) -> "tuple[Sequence[Bucket], str | None]":
        page, after = pages(size, behind)
        return [each for each in page if each.entity_id.startswith(begins_with)], after

    found, behind = some_rows(fetch, rows, following)
    if output == "json":
        say_json({"buckets": [plain_bucket(each) for each in found], "next": behind})
    elif found:
        say_all_buckets(found)
        say_following(behind)
    else:
        on = "" if resource is None else f" on {resource}"
        say_sentence(f"There is no bucket{on} in namespace {repository.name}: all tokens are available.")


@click.command(short_help="Show the entities below their parents, or all above one.")
@in_repository
@click.argument("entity_id", required=False)
@click.option("--above", is_flag=True, help="Its parents, then all above them, nearest first, each once.")
@click.option("--depth", type=click.IntRange(min=1), metavar="N", help="Levels below ENTITY_ID: 1 for its children.")
@rows_option
@output_option
def tree(
    *,
    repository: "SyncRepository",
    entity_id: str | None,
    above: bool,
    depth: int | None,
    rows: int,
    output: OutputForm,
) -> None:
    """Show the entities below their parents: all that have a record, or those below ENTITY_ID; with --above, those
    that are above it.

    Without ENTITY_ID the command reads the record of every entity of the namespace, a read unit for each.
    """
    from ...data.tree import plain, read_below, read_forest, walk
    from ...terminal import Terminal

    if entity_id is None and (above or depth):
        raise CommandError("--above and --depth are about one entity: pass ENTITY_ID, too")
    if above and depth:
        raise CommandError("--above and --depth exclude each other: pass one of them")
    if above and entity_id is not None:
        none = f"Entity {entity_id} has no parents."
        show_entities(repository.get_ancestors(entity_id), output, none=none)
        return
    roots = read_forest(repository) if entity_id is None else [read_below(repository, entity_id, depth)]
    if output == "json":
        say_json([plain(root) for root in roots])
        return
    if not roots:
        click.echo(f"No entity has a record in namespace {repository.name}: `zae-limiter entity create` makes one.")
        return
    lines = [*walk(roots, symbols=Terminal.of_stdout().symbols)]
    say_tree([("ENTITY", "CASCADE", "NAME"), *(_tree_cells(indent, node) for indent, node in lines[:rows])])
    if len(lines) > rows:
        say_more("entities")


def _page(
    repository: "SyncRepository", begins_with: str, size: int, behind: str | None
) -> tuple[Sequence["KnownEntity"], str | None]:
    page = repository.list_entities(begins_with=begins_with, limit=size, next=behind)
    return page.entities, page.next


def _with_limits_on(
    ids: Callable[..., list[str]], everybody: FetchPage["KnownEntity"], size: int, behind: str | None
) -> tuple[Sequence["KnownEntity"], str | None]:
    """Return at most a page of those whose ``ids`` are listed: those with limits of their own on a resource.

    Both lists have the same order, and everybody with limits is in the first one. So behind the same id, a page of the
    second reaches as far as one of the first.
    """
    allowed = {*ids(limit=ROWS_OF_A_PAGE, next=behind)}
    if not allowed:
        return [], None
    entities, following = everybody(ROWS_OF_A_PAGE, behind)
    found = [each for each in entities if each.entity_id in allowed]
    return found[:size], found[size - 1].entity_id if len(found) > size else following


def _without_tier(
    fetch: FetchPage["KnownEntity"], size: int, behind: str | None
) -> tuple[Sequence["KnownEntity"], str | None]:
    found, following = fetch(size, behind)
    return [each for each in found if each.record is None or each.record.tier is None], following


def _cells(each: "KnownEntity") -> tuple[str, ...]:
    parents, tier, cascade, name = "-", "-", "-", "-"
    if (record := each.record) is not None:
        parents, cascade, name = words(record.parent_ids), yes_or_no(record.cascade), word(record.name)
        tier = record.tier or "-"
    has = {"record": record is not None, "limits": each.has_limits, "buckets": each.has_buckets}
    return each.entity_id, parents, tier, cascade, ", ".join(what for what, there in has.items() if there), name


def _tree_cells(indent: str, node: "Node") -> tuple[str, ...]:
    return f"{indent}{node.entity.entity_id}", yes_or_no(node.entity.cascade), word(node.entity.name)
