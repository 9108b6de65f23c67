"""`zae-limiter namespace trace`."""

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final

import click

from ...columns import say_json
from ...errors import CommandError
from ...options import OutputForm, connected, output_option, yes_accepted

if TYPE_CHECKING:
    from ...connection import Connection

WHOLE: Final = 1000  # of so many entities a trace has some


@click.command(short_help="Show or set the share of entities whose writes are traced.")
@connected
@click.argument("namespace")
@click.option("--share", metavar="SHARE", help="Part of the entities whose writes are kept: 0.001 to 1, or 0 for none.")
@output_option
@yes_accepted
def trace(*, connection: "Connection", namespace: str, share: str | None, output: OutputForm) -> None:
    """Show of which share of its entities NAMESPACE keeps a trace, or set it with --share.

    The stack's aggregator keeps it in the archive, from its next batch on, for `limits plan --replay`. The entities are
    always the same ones. Without an archive it keeps none.
    """
    from zae_limiter.maintenance import run, set_trace, trace_of

    if connection.file is not None:
        raise CommandError(
            f"{connection.name}: a file has no stream, so no trace can be kept of it: `limits plan --replay` goes by "
            "its hourly usage, or by a file that --trace names"
        )
    wanted = None if share is None else _permille(share)
    with connection.open_table() as table:
        if wanted is not None:
            run(table, set_trace(namespace, wanted))
        permille = run(table, trace_of(namespace))
    if output == "json":
        say_json({"namespace": namespace, "trace": permille / WHOLE})
    elif permille:
        click.echo(f"Namespace {namespace} keeps a trace of {permille / 10:g} % of its entities.")
    else:
        click.echo(f"Namespace {namespace} keeps no trace: --share 0.1 keeps that of a tenth of its entities.")


def _permille(text: str) -> int:
    """Return a share in thousandths. Raises ``CommandError``."""
    try:
        share = Decimal(text) * WHOLE
        if 0 <= share <= WHOLE and share == int(share):
            return int(share)
    except (InvalidOperation, ValueError, OverflowError):
        pass
    raise CommandError(f"--share {text!r}: must be from 0 to 1, in thousandths, such as 0.1 or 0.005; 0 keeps none")
