"""`zae-limiter bucket list`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ...columns import say_json
from ...data.showing import plain_bucket, say_all_buckets
from ...options import OutputForm, output_option
from ...paging import following_option, in_repository, rows_option, say_following, some_rows

if TYPE_CHECKING:
    from zae_limiter import Bucket, SyncRepository


@click.command("list", short_help="List the buckets of all entities, and what is left in each.")
@in_repository
@click.option("--resource", "-r", metavar="NAME", help="Only buckets of this resource.  [default: all]")
@rows_option
@following_option
@output_option
def list_buckets(
    *, repository: "SyncRepository", resource: str | None, rows: int, following: str | None, output: OutputForm
) -> None:
    """List the buckets of all entities, by entity and resource, with what is left in each.

    The limits are those that `bucket show` has. In JSON, `next` is what --next takes.
    """

    def fetch(size: int, behind: str | None) -> tuple[Sequence["Bucket"], str | None]:
        page = repository.list_buckets(resource, limit=size, next=behind)
        return page.buckets, page.next

    found, behind = some_rows(fetch, rows, following)
    if output == "json":
        say_json({"buckets": [plain_bucket(each) for each in found], "next": behind})
    elif found:
        say_all_buckets(found)
        say_following(behind)
    else:
        on = "" if resource is None else f" on {resource}"
        click.echo(f"There is no bucket{on} in namespace {repository.name}: everybody has all tokens.")
