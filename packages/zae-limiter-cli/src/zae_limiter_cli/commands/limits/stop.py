"""`zae-limiter limits stop` and `unlock`: end an apply, or the lock of one that was killed."""

from typing import TYPE_CHECKING

import click

from ...confirmation import confirm
from ...options import DocumentForm, connected, in_namespace, yes_accepted, yes_option
from ...principal import principal_option
from .options import form_option

if TYPE_CHECKING:
    from ...connection import Connection


@click.command(short_help="Stop the apply under way at its next checkpoint.")
@connected
@in_namespace
@form_option("text", "json")
@principal_option
@yes_accepted
def stop(*, connection: "Connection", namespace: str, form: DocumentForm, principal: str) -> None:
    """Ask the apply under way to stop at its next checkpoint, within a second or two.

    What it has changed stays, and is managed. The rest is left as it is, and pending: another apply makes it.
    """
    from zae_limiter_manifest import Request

    from ...limits.asking import as_command_errors
    from ...limits.provisioner import Provisioner
    from ...limits.showing import refuse, show_state

    with as_command_errors():
        request = Request("stop", namespace, principal=principal)
    answer = Provisioner(connection).ask(request)
    refuse(namespace, answer)
    if form == "json":
        show_state(namespace, answer, form)
        return
    holder = answer.state.lock.owner if answer.state and answer.state.lock else "the apply"
    follow = f"`zae-limiter limits status --follow {connection.option} --namespace {namespace}`"
    click.echo(f"{namespace}: asked {holder} to stop at the next checkpoint; {follow} shows when it has")


@click.command(short_help="Release the lock of an apply that was killed.")
@connected
@in_namespace
@click.argument("lock_id")
@form_option("text", "json")
@yes_option
def unlock(*, connection: "Connection", namespace: str, lock_id: str, form: DocumentForm, yes: bool) -> None:
    """Release the lock LOCK_ID, which `limits status` shows. The lock of a killed apply expires after some minutes.

    An apply that still runs without its lock reports that at its end, and does not write the state.
    """
    from ...limits.provisioner import ask
    from ...limits.showing import show_state

    if not yes:
        confirm(f"Release the lock {lock_id} of {namespace}? No apply may be running.")
    answer = ask(connection, "unlock", namespace, lock_id=lock_id)
    if form == "text":
        click.echo(f"{namespace}: the lock {lock_id} is released: an apply may begin now")
    show_state(namespace, answer, form)
