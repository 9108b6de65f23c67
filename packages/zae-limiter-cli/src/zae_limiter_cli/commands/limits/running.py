"""`zae-limiter limits watch` and `stop`: an apply under way."""

from typing import TYPE_CHECKING

import click

from ...options import DocumentForm, connected, in_namespace
from ...principal import principal_option
from ...progress import reporter
from .options import form_option

if TYPE_CHECKING:
    from ...connection import Connection


@click.command(short_help="Show how far the apply under way is, until it ends.")
@connected
@in_namespace
def watch(*, connection: "Connection", namespace: str) -> None:
    """Show how far the apply under way is, until it ends: changes made, their rate, and the time that is left.

    Ctrl-C ends the command, and not the apply.
    """
    from ...limits.provisioner import Planner
    from ...limits.watching import follow

    planner = Planner(connection, reporter(quiet=False))
    state = follow(planner.ask, namespace)
    applied = f"last applied {state.last_applied}" if state.last_applied else "never applied"
    click.echo(f"{namespace}: nobody is applying; serial {state.serial}, {applied}")


@click.command(short_help="Stop the apply under way at its next checkpoint.")
@connected
@in_namespace
@form_option("text", "json")
@principal_option
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
    watch_it = f"`zae-limiter limits watch {connection.option} --namespace {namespace}`"
    click.echo(f"{namespace}: asked {holder} to stop at the next checkpoint; {watch_it} shows when it has")
