"""`zae-limiter audit list`."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ...columns import say_columns, say_json
from ...errors import CommandError
from ...options import OutputForm, connected, in_namespace, output_option
from ...paging import first_rows, open_namespace, rows_option, say_more

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zae_limiter import AuditEvent

    from ...connection import Connection


@click.command("list")
@connected
@in_namespace
@click.option("--entity", metavar="ID", help="Changes of this entity, its limits and its buckets.")
@click.option("--resource", "-r", metavar="NAME", help="Changes of this resource's defaults.")
@click.option("--system", is_flag=True, help="Changes of the system's defaults.")
@rows_option
@output_option
def list_events(
    *,
    connection: "Connection",
    namespace: str,
    entity: str | None,
    resource: str | None,
    system: bool,
    rows: int,
    output: OutputForm,
) -> None:
    """List changes, newest first: time, principal, action, and the values that changed.

    JSON output has all values before and after each change.
    """
    subject = _subject(entity, resource, system=system)
    with open_namespace(connection, namespace) as repository:
        found, more = first_rows(
            lambda size, start: repository.get_audit_events(subject, limit=size, start=start), rows
        )
    if output == "json":
        say_json([asdict(each) for each in found])
    elif found:
        _show(found)
    else:
        click.echo(f"No changes of {entity or resource or 'the system defaults'} in namespace {namespace}.")
    if more:
        say_more("changes")


def _subject(entity: str | None, resource: str | None, *, system: bool) -> str:
    """Return the subject of the change as core names it."""
    from zae_limiter.maintenance import audit_resource, audit_system
    from zae_limiter.values.naming import check_identifier, check_resource

    if (entity is not None) + (resource is not None) + system != 1:
        raise CommandError("`audit list` needs one subject: pass --entity, --resource or --system")
    if entity is not None:
        return check_identifier("--entity", entity)
    return audit_system() if resource is None else audit_resource(check_resource("--resource", resource))


def _show(events: "Sequence[AuditEvent]") -> None:
    from ...audit.changes import changes

    say_columns(
        [
            ("TIME (UTC)", "PRINCIPAL", "ACTION", "RESOURCE", "CHANGED"),
            *(
                (each.at, each.principal or "-", each.action, each.resource or "-", ", ".join(changes(each)) or "-")
                for each in events
            ),
        ]
    )
