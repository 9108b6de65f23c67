"""`zae-limiter entity list` and `tree`."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import click

from ...columns import say_columns, say_json, say_tree
from ...data.showing import word, words, yes_or_no
from ...options import OutputForm, output_option
from ...paging import (
    ROWS_OF_A_PAGE,
    FetchPage,
    following_option,
    in_repository,
    rows_option,
    say_following,
    say_more,
    some_rows,
)

if TYPE_CHECKING:
    from zae_limiter import SyncRepository
    from zae_limiter.values import KnownEntity

    from ...data.tree import Node


@click.command("list", short_help="List all entities.")
@in_repository
@click.option(
    "--resource",
    "-r",
    metavar="NAME",
    help="Only those with limits of their own on this resource; _default_ means all resources.  [default: everybody]",
)
@click.option("--begins-with", metavar="TEXT", default="", help="Only ids that begin so.")
@rows_option
@following_option
@output_option
def list_entities(
    *,
    repository: "SyncRepository",
    resource: str | None,
    begins_with: str,
    rows: int,
    following: str | None,
    output: OutputForm,
) -> None:
    """List the entities that have a record, limits of their own, or a bucket, by id.

    In JSON, `next` is what --next takes to list the rest. The list may miss a change of the last second.
    """
    everybody = partial(_page, repository, begins_with)
    fetch = everybody
    if resource is not None:
        allowed = partial(repository.list_entities_with_custom_limits, resource, begins_with=begins_with)
        fetch = partial(_with_limits_on, allowed, everybody)
    found, behind = some_rows(fetch, rows, following)
    if output == "json":
        say_json({"entities": [asdict(each) for each in found], "next": behind})
    elif found:
        head = ("ENTITY", "PARENT", "CASCADE", "HAS", "NAME")
        say_columns([head, *map(_cells, found)])
        say_following(behind)
    else:
        of = "" if resource is None else f" with limits of its own on {resource}"
        begin = f" whose id begins with {begins_with!r}" if begins_with else ""
        click.echo(f"There is no entity{of}{begin} in namespace {repository.name}.")


@click.command(short_help="Show the entities below their parents.")
@in_repository
@click.argument("entity_id", required=False)
@rows_option
@output_option
def tree(*, repository: "SyncRepository", entity_id: str | None, rows: int, output: OutputForm) -> None:
    """Show the entities below their parents: all that have a record, or those below ENTITY_ID.

    Without ENTITY_ID the command reads the record of every entity of the namespace, a read unit for each.
    """
    from ...data.tree import plain, read_below, read_forest, walk
    from ...terminal import Terminal

    roots = read_forest(repository) if entity_id is None else [read_below(repository, entity_id)]
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


def _cells(each: "KnownEntity") -> tuple[str, ...]:
    parents, cascade, name = "-", "-", "-"
    if (record := each.record) is not None:
        parents, cascade, name = words(record.parent_ids), yes_or_no(record.cascade), word(record.name)
    has = {"record": record is not None, "limits": each.has_limits, "buckets": each.has_buckets}
    return each.entity_id, parents, cascade, ", ".join(what for what, there in has.items() if there), name


def _tree_cells(indent: str, node: "Node") -> tuple[str, ...]:
    return f"{indent}{node.entity.entity_id}", yes_or_no(node.entity.cascade), word(node.entity.name)
