"""`zae-limiter limits history`, `show` and `rollback`: what was applied, and back to it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...now import now_option
from ...options import DocumentForm, connected, in_namespace, quiet_option, yes_option
from ...principal import principal_option
from ...progress import reporter
from .options import (
    allow_deletes_option,
    expect_hash_option,
    form_option,
    full_option,
    lock_timeout_option,
    pace_option,
)

if TYPE_CHECKING:
    from zae_limiter_manifest import ApplyEntry

    from ...connection import Connection

serial_argument = click.argument("serial", type=click.IntRange(min=1))


@click.command(short_help="List the last applies: who, when, what.")
@connected
@in_namespace
@form_option("text", "json")
def history(*, connection: "Connection", namespace: str, form: DocumentForm) -> None:
    """List the last applies of a namespace, at most 50: who, from where, when, and what they did.

    An apply that changes nothing is not listed if the same manifest was applied before it. One that was killed, or is
    still under way, has `not ended`.
    """
    from zae_limiter_manifest.render import as_json

    from ...columns import say_columns
    from ...limits.provisioner import ask
    from ...skipped import document

    entries = ask(connection, "history", namespace).history or ()
    if form == "json":
        click.echo(as_json.render_history(namespace, entries, **document()), nl=False)
    elif entries:
        say_columns([("SERIAL", "AT", "BY", "FROM", "CREATED", "UPDATED", "DELETED", "OUTCOME"), *map(_row, entries)])
    else:
        click.echo(f"{namespace}: no applies")


@click.command(short_help="Print the manifest of an earlier apply.")
@connected
@in_namespace
@serial_argument
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="File to write.  [default: standard output]"
)
def show(*, connection: "Connection", namespace: str, serial: int, out: Path | None) -> None:
    """Print the manifest that the apply SERIAL of `limits history` was for."""
    from zae_limiter_manifest import dump
    from zae_limiter_manifest.problems import printable

    from ...limits.kept import kept_of
    from ...limits.provisioner import ask
    from ...results import write_file

    entry, manifest = kept_of(namespace, ask(connection, "show", namespace, serial=serial))
    text = f"# {printable(' · '.join(_row(entry)[:4]))}\n{dump(manifest)}"
    if out is None:
        click.echo(text, nl=False)
    else:
        write_file(out, text)


@click.command(short_help="Apply the manifest of an earlier apply again.")
@connected
@in_namespace
@serial_argument
@form_option("text", "json", "markdown")
@allow_deletes_option
@lock_timeout_option
@pace_option
@expect_hash_option
@principal_option
@now_option
@full_option
@yes_option
@quiet_option
def rollback(
    *,
    connection: "Connection",
    namespace: str,
    serial: int,
    form: DocumentForm,
    allow_deletes: bool,
    lock_timeout: int,
    changes_per_second: int | None,
    expect_hash: str | None,
    principal: str,
    now: bool,
    full: bool,
    yes: bool,
    quiet: bool,
) -> None:
    """Apply the manifest of the apply SERIAL again: plan, show, ask, apply.

    If somebody applies between the plan and the apply, nothing is changed: look again, then repeat the command.
    """
    from ...limits.kept import whole_of
    from ...limits.provisioner import Provisioner, ask
    from ...limits.rollout import Rollout

    _, manifest = whole_of(namespace, ask(connection, "show", namespace, serial=serial))
    rollout = Rollout(
        Provisioner(connection, reporter(quiet=quiet)),
        form,
        {
            "principal": principal,
            "source": f"rollback to {serial}",
            "lock_timeout": lock_timeout,
            "changes_per_second": changes_per_second,
        },
        namespace,
        allow_deletes=allow_deletes,
        asks=not yes,
        now=now,
        full=full,
        quiet=quiet,
        expected_hash=expect_hash,
        plans_again=False,
    )
    if not rollout.of_manifests([manifest]):
        raise click.exceptions.Exit(1)


def _row(entry: "ApplyEntry") -> tuple[str, ...]:
    counts = (f"{number:,}" for number in (entry.created, entry.updated, entry.deleted))
    outcome = f"{entry.outcome}, {len(entry.targets)} targets" if entry.targets else entry.outcome
    return str(entry.serial), entry.at, entry.principal or entry.owner, entry.source or "-", *counts, outcome
