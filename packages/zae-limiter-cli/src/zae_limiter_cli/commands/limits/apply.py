"""What lives here: `zae-limiter limits apply`.
What never does: the order in which namespaces are planned, asked about and applied (rollout).
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ... import confirmation
from ...errors import CommandError
from ...options import DocumentForm, connected, quiet_option, yes_option
from ...principal import claimed
from ...progress import reporter
from .options import files_option, form_option, take_over_option

if TYPE_CHECKING:
    from ...connection import Connection


@click.command()
@connected
@click.argument("saved", required=False, metavar="[PLAN]", type=click.Path(path_type=Path, dir_okay=False))
@files_option(required=False)
@form_option("text", "json", "markdown")
@click.option("--allow-deletes", is_flag=True, help="Allow a plan that deletes over 30 % of what is managed, or all.")
@take_over_option
@click.option("--lock-timeout", type=click.IntRange(0, 900), default=0, help="Seconds to wait for another apply.  [0]")
@click.option(
    "--principal", envvar="ZAEL_PRINCIPAL", show_envvar=True, help="Who applies, for the audit events.  [you]"
)
@click.option("--source", envvar="ZAEL_SOURCE", show_envvar=True, help="Of which revision, for the audit events.")
@yes_option
@quiet_option
def apply(
    *,
    connection: "Connection",
    saved: Path | None,
    files: tuple[str, ...],
    form: DocumentForm,
    allow_deletes: bool,
    take_over: bool,
    lock_timeout: int,
    principal: str | None,
    source: str | None,
    yes: bool,
    quiet: bool,
) -> None:
    """Bring namespaces to their files, or apply a PLAN that `limits plan --out` has saved.

    On a terminal it shows the plan and asks first, unless --yes says so. What fails is told item by item, and stays
    pending: applying again goes on from there.
    """
    from ...limits.files import STANDARD_INPUT
    from ...limits.provisioner import Provisioner
    from ...limits.rollout import Rollout

    if bool(files) == (saved is not None):
        raise CommandError("give either manifests with -f, or the file of a saved plan")
    if STANDARD_INPUT in files and not yes and confirmation.is_watched():
        raise CommandError("standard input is the manifest, so that nobody can answer there: pass --yes, or a file")
    claims = {"principal": claimed(principal), "source": source, "lock_timeout": lock_timeout}
    rollout = Rollout(
        Provisioner(connection, reporter(quiet=quiet)), form, claims, allow_deletes=allow_deletes, asks=not yes
    )
    done = rollout.of_saved(saved, connection.name) if saved else rollout.of_files(files, take_over=take_over)
    if not done:
        raise click.exceptions.Exit(1)
