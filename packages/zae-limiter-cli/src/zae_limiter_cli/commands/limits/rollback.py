"""`zae-limiter limits rollback`."""

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
    from ...connection import Connection


@click.command(short_help="Apply the manifest of an earlier apply again.")
@connected
@in_namespace
@click.argument("serial", type=click.IntRange(min=1))
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
