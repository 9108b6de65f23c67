"""`zae-limiter bucket list`."""

from typing import TYPE_CHECKING

import click

from ...columns import say_json
from ...data.showing import plain_bucket, say_all_buckets
from ...options import OutputForm, output_option
from ...paging import bucket_pages, following_option, in_repository, rows_option, say_following, some_rows

if TYPE_CHECKING:
    from zae_limiter import SyncRepository


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
    found, behind = some_rows(bucket_pages(repository, resource), rows, following)
    if output == "json":
        say_json({"buckets": [plain_bucket(each) for each in found], "next": behind})
    elif found:
        say_all_buckets(found)
        say_following(behind)
    else:
        on = "" if resource is None else f" on {resource}"
        click.echo(f"There is no bucket{on} in namespace {repository.name}: everybody has all tokens.")
