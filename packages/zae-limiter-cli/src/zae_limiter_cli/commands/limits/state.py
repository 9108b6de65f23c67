"""`zae-limiter limits export`, `state` and `unlock`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...confirmation import confirm
from ...errors import CommandError
from ...options import DocumentForm, connected, in_namespace, yes_option
from .options import form_option

if TYPE_CHECKING:
    from ...connection import Connection


@click.command(short_help="Print live limits as a manifest.")
@connected
@in_namespace
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="File to write.  [default: standard output]"
)
def export(*, connection: "Connection", namespace: str, out: Path | None) -> None:
    """Print all live limits of a namespace as a manifest: the managed ones, and those set by hand.

    In a region with a share these are its share of each limit, and not those of the files.
    """
    from zae_limiter_manifest import dump

    from ...limits.provisioner import ask
    from ...limits.showing import report_left_out
    from ...results import write_file

    answer = ask(connection, "export", namespace)
    report_left_out(answer)
    if answer.manifest is None:
        raise CommandError(f"{namespace}: the answer contains no manifest")
    if out is None:
        click.echo(dump(answer.manifest), nl=False)
    else:
        write_file(out, dump(answer.manifest))


@click.command(short_help="Show managed items, owner, serial, lock, last apply.")
@connected
@in_namespace
@form_option("text", "json")
def state(*, connection: "Connection", namespace: str, form: DocumentForm) -> None:
    """Show the items that the last apply manages, their owner, and the apply that runs now, if any."""
    from ...limits.provisioner import ask
    from ...limits.showing import show_state

    show_state(namespace, ask(connection, "state", namespace), form)


@click.command(short_help="Release the lock of an apply that was killed.")
@connected
@in_namespace
@click.argument("lock_id")
@form_option("text", "json")
@yes_option
def unlock(*, connection: "Connection", namespace: str, lock_id: str, form: DocumentForm, yes: bool) -> None:
    """Release the lock LOCK_ID, which `limits state` shows. The lock of a killed apply expires after some minutes.

    An apply that still runs without its lock reports that at its end, and does not write the state.
    """
    from ...limits.provisioner import ask
    from ...limits.showing import show_state

    if not yes:
        confirm(f"Release the lock {lock_id} of {namespace}? No apply may be running.")
    show_state(namespace, ask(connection, "unlock", namespace, lock_id=lock_id), form)
