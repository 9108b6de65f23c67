"""`zae-limiter limits status`: what is managed, the apply under way, and earlier applies."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ...columns import counted, say_columns, say_sentence
from ...errors import CommandError
from ...options import DocumentForm, connected, in_namespace
from ...progress import reporter
from .options import form_option, out_option

if TYPE_CHECKING:
    from zae_limiter_manifest import Answer, ApplyEntry

    from ...connection import Connection

KEPT: Final = 50  # applies that a namespace keeps
HEAD = ("SERIAL", "AT", "BY", "FROM", "CREATED", "UPDATED", "DELETED", "OUTCOME")


@click.command(short_help="Show managed items, the apply under way, and earlier applies.")
@connected
@in_namespace
@click.argument("serial", required=False, type=click.IntRange(min=1))
@click.option("--follow", is_flag=True, help="Show the progress of the apply under way until it ends.")
@click.option("--manifest", is_flag=True, help="Print the manifest of the apply SERIAL.")
@out_option
@form_option("text", "json")
def status(
    *,
    connection: "Connection",
    namespace: str,
    serial: int | None,
    follow: bool,
    manifest: bool,
    out: Path | None,
    form: DocumentForm,
) -> None:
    """Show the items that the last apply manages, their owner, the lock, and the last applies, at most 50: who, from
    where, when, and what they did. With SERIAL, show that apply alone.

    An apply that changes nothing is not listed if the same manifest was applied before it. One that was killed, or is
    still under way, has `not ended`. Ctrl-C ends --follow, and not the apply.
    """
    from ...limits.provisioner import ask
    from ...limits.showing import show_state

    if manifest or serial is not None:
        if follow or serial is None:
            raise CommandError("--manifest and SERIAL are about one earlier apply: pass SERIAL, and no --follow")
        _show_apply(namespace, ask(connection, "show", namespace, serial=serial), form, out, manifest=manifest)
        return
    if out is not None:
        raise CommandError("--out is for the manifest of an apply: pass SERIAL --manifest, too")
    if follow:
        _follow(connection, namespace)
    answer = ask(connection, "state", namespace)
    applies = ask(connection, "history", namespace).history or ()
    show_state(namespace, answer, form, applies)
    if form == "text" and applies:
        click.echo()
        say_columns([HEAD, *map(_row, applies)])
        if len(applies) >= KEPT:
            say_sentence(f"Earlier applies are not kept: these are the last {KEPT}.", err=True)


def _follow(connection: "Connection", namespace: str) -> None:
    from ...limits.provisioner import Planner
    from ...limits.watching import follow

    follow(Planner(connection, reporter(quiet=False)).ask, namespace)


def _show_apply(namespace: str, answer: "Answer", form: DocumentForm, out: Path | None, *, manifest: bool) -> None:
    from zae_limiter_manifest import dump
    from zae_limiter_manifest.problems import printable
    from zae_limiter_manifest.render import as_json

    from ...limits.kept import kept_of
    from ...results import write_file

    entry, content = kept_of(namespace, answer)
    if manifest or out is not None:
        text = f"# {printable(' · '.join(_row(entry)[:4]))}\n{dump(content)}"
        if out is None:
            click.echo(text, nl=False)
        else:
            write_file(out, text)
    elif form == "json":
        click.echo(as_json.render_history(namespace, [entry]), nl=False)
    else:
        say_columns([HEAD, _row(entry)])


def _row(entry: "ApplyEntry") -> tuple[str, ...]:
    counts = (f"{number:,}" for number in (entry.created, entry.updated, entry.deleted))
    outcome = f"{entry.outcome}, {counted(len(entry.targets), 'target')}" if entry.targets else entry.outcome
    return str(entry.serial), entry.at, entry.principal or entry.owner, entry.source or "-", *counts, outcome
