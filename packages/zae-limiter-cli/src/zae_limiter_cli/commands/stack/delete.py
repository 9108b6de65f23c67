"""`zae-limiter delete`."""

from typing import TYPE_CHECKING

import click

from ...columns import say_json
from ...errors import CommandError
from ...options import OutputForm, connected_to_stack, output_option, yes_option
from ...progress import reporter
from . import changes
from .options import errors_only_option

if TYPE_CHECKING:
    from ...connection import Connection
    from ...stack.cloudformation import Stack


@click.command()
@connected_to_stack
@click.option("--keep-archive", is_flag=True, help="Keep the bucket with the archived audit events.")
@changes.dry_run_option
@yes_option
@output_option
@errors_only_option
def delete(
    *, connection: "Connection", keep_archive: bool, dry_run: bool, yes: bool, output: OutputForm, quiet: bool
) -> None:
    """Delete the stack NAME: its table with all limits, buckets and usage, its Lambdas, its archive of audit events.

    Shows what goes and asks first, unless --yes is given. Only a backup of the table can bring the data back.
    """
    from ...stack import preview, remove

    if not (yes or dry_run):
        changes.check_terminal("delete", connection.name)
    stack = _deletable(connection)
    archived = remove.archive_of(stack)
    bucket, kept = (None, archived) if keep_archive else (archived, None)
    if bucket is not None:
        remove.check_unlocked(connection, stack, bucket)
    if dry_run:
        changes.show(preview.removal(connection.client("cloudformation"), stack, bucket), output)
        return
    if not yes:
        archive = f", and its archive, bucket {bucket}" if bucket else ""
        found = preview.removal(connection.client("cloudformation"), stack, bucket)
        changes.ask(found, f"Delete stack {stack.name}, its table with everything in it{archive}?")
    objects = remove.delete(connection, stack, bucket, reporter(quiet=quiet))
    if output == "json":
        say_json({"stack": stack.name, "action": "deleted", "bucket": bucket, "objects": objects, "kept": kept})
    elif not quiet:
        click.echo(f"Stack {stack.name} deleted.")
        if kept is not None:
            click.echo(f"Bucket {kept} stays, with the archived audit events; no stack leads to it any more.")


def _deletable(connection: "Connection") -> "Stack":
    from ...stack.cloudformation import find
    from ...stack.ownership import check_ours
    from ...stack.remove import check_deletable, check_table

    client = connection.client("cloudformation")
    stack = find(client, connection.name)
    if stack is None:
        raise CommandError(f"{connection.no_stack()}: nothing was deleted")
    check_ours(client, stack)
    check_deletable(stack)
    check_table(connection)
    return stack
