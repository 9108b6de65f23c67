"""`zae-limiter limits apply`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...confirmation import can_ask
from ...errors import CommandError
from ...now import now_option
from ...options import DocumentForm, connected, quiet_option, yes_option
from ...principal import principal_option
from ...progress import reporter
from .options import (
    allow_deletes_option,
    expect_hash_option,
    files_option,
    form_option,
    full_option,
    lock_timeout_option,
    namespace_option,
    pace_option,
    share_option,
    take_over_option,
    target_option,
)

if TYPE_CHECKING:
    from ...connection import Connection


@click.command(short_help="Plan, then apply.")
@connected
@click.argument("saved", required=False, metavar="[PLAN]", type=click.Path(path_type=Path, dir_okay=False))
@files_option(required=False)
@namespace_option
@form_option("text", "json", "markdown")
@allow_deletes_option
@take_over_option
@target_option
@share_option
@lock_timeout_option
@pace_option
@expect_hash_option
@principal_option
@click.option("--source", envvar="ZAEL_SOURCE", show_envvar=True, help="Revision of the files, for the audit events.")
@now_option
@full_option
@yes_option
@quiet_option
def apply(
    *,
    connection: "Connection",
    saved: Path | None,
    files: tuple[str, ...],
    namespace: str | None,
    form: DocumentForm,
    allow_deletes: bool,
    take_over: bool,
    targets: tuple[str, ...],
    share: str | None,
    lock_timeout: int,
    changes_per_second: int | None,
    expect_hash: str | None,
    principal: str,
    source: str | None,
    now: bool,
    full: bool,
    yes: bool,
    quiet: bool,
) -> None:
    """Make namespaces match their files, or apply a PLAN saved by `limits plan --out`.

    The command shows the plan and asks first. Without a terminal it applies a plan with changes only with --yes. It
    reports each item that fails; failed items stay pending, and the next apply tries them again.

    With --now, this process then invalidates the live buckets of changed resources and of the system: it needs the
    permissions of a program that writes buckets.
    """
    from ...limits.files import STANDARD_INPUT
    from ...limits.provisioner import Provisioner
    from ...limits.rollout import Rollout

    if bool(files) == (saved is not None):
        raise CommandError("pass either manifests with -f, or the file of a saved plan")
    if saved and targets:
        raise CommandError("a saved plan has the targets that it was made with: leave out --target")
    if saved and share is not None:
        raise CommandError("a saved plan has the share that it was made with: leave out --share")
    if STANDARD_INPUT in files and not yes and can_ask():
        raise CommandError("standard input is the manifest and cannot answer the question: pass --yes, or a file")
    claims = {
        "principal": principal,
        "source": source,
        "lock_timeout": lock_timeout,
        "changes_per_second": changes_per_second,
    }
    rollout = Rollout(
        Provisioner(connection, reporter(quiet=quiet)),
        form,
        claims,
        namespace,
        allow_deletes=allow_deletes,
        asks=not yes,
        now=now,
        full=full,
        quiet=quiet,
        expected_hash=expect_hash,
    )
    done = (
        rollout.of_saved(saved) if saved else rollout.of_files(files, take_over=take_over, targets=targets, share=share)
    )
    if not done:
        raise click.exceptions.Exit(1)
