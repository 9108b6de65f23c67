"""What lives here: `zae-limiter delete`.
What never does: an import that `--help` does not need.
"""

from typing import TYPE_CHECKING

import click

from ...errors import CommandError
from ...options import connected, quiet_option, yes_option
from ...progress import teller

if TYPE_CHECKING:
    from ...connection import Connection


@click.command(short_help="Delete a stack and all that is in it.")
@connected
@click.option("--keep-archive", is_flag=True, help="Leave the bucket with the archived audit events.")
@yes_option
@quiet_option
def delete(*, connection: "Connection", keep_archive: bool, yes: bool, quiet: bool) -> None:
    """Delete the stack NAME: its table with all limits, buckets and usage, its Lambdas, its archive of audit events.

    Asks before it does, unless --yes says so. There is no way back but a backup of the table.
    """
    from .. import remove
    from ..cloudformation import find

    stack = find(connection.client("cloudformation"), connection.name)
    if stack is None:
        raise CommandError(f"there is no stack {connection.name}: nothing was deleted")
    remove.check_deletable(stack)
    bucket = None if keep_archive else remove.archive_of(stack)
    if not yes:
        archive = f", and its archive, bucket {bucket}" if bucket else ""
        click.confirm(f"Delete stack {stack.name}, its table with everything in it{archive}?", abort=True)
    tell = teller(quiet=quiet)
    remove.delete(connection, stack, tell)
    if bucket is not None:
        remove.delete_bucket(connection, bucket, tell)
    click.echo(f"Stack {stack.name} deleted.")
