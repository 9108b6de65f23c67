"""`zae-limiter audit list`."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Final

import click

from ...columns import say_columns, say_json
from ...errors import CommandError
from ...options import OutputForm, connected, in_namespace, output_option
from ...paging import ROWS_OF_A_PAGE, every_row, following_option, open_namespace, rows_option, say_following
from ...times import both, parse_instant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zae_limiter import SyncRepository
    from zae_limiter.values import AuditEvent
    from zae_limiter.values.audit import AuditKind

    from ...connection import Connection

KINDS: Final = ("limits", "override", "switches", "entity", "bucket")
RECENT: Final = "24h"
LENGTH_OF_AN_INSTANT: Final = len("2024-01-31T14:00:00.000Z")  # an `event_id` begins with one


@click.command("list", short_help="List changes, newest first.")
@connected
@in_namespace
@click.option("--entity", "-e", metavar="ID", help="Changes of this entity, its limits and its buckets.")
@click.option("--resource", "-r", metavar="NAME", help="Changes of this resource's defaults, or of a pattern's.")
@click.option("--tier", metavar="NAME", help="Changes of this tier's limits.")
@click.option("--system", is_flag=True, help="Changes of the system's defaults.")
@click.option(
    "--since",
    metavar="TIME",
    help="Begin: 30m, 24h, 7d ago, 06:00, yesterday, or 2026-01-31T14:00Z.  "
    "[default: 24h for the whole namespace, else the oldest]",
)
@click.option(
    "--by", "principal", metavar="PRINCIPAL", help="Changes of this principal, or that an apply claimed for it."
)
@click.option("--kind", type=click.Choice(KINDS), help="Changes of limits, overrides, entities or buckets.")
@rows_option
@following_option
@output_option
def list_events(
    *,
    connection: "Connection",
    namespace: str,
    entity: str | None,
    resource: str | None,
    tier: str | None,
    system: bool,
    since: str | None,
    principal: str | None,
    kind: "AuditKind | None",
    rows: int,
    following: str | None,
    output: OutputForm,
) -> None:
    """List changes, newest first: time, principal, action, and the values that changed.

    Without --entity, --resource, --tier or --system it lists those of the whole namespace. JSON output has all values
    before and after each change. --next takes the `event_id` of the last change that is shown.
    """
    subject = _subject(entity, resource, tier, system=system)
    _check_following(following)
    if since is not None:
        parse_instant("--since", since, datetime.now(UTC))  # a wrong one is refused before anything is asked
    with open_namespace(connection, namespace) as repository:
        begin = _begin(repository, since or (RECENT if subject is None else None))
        if subject is None:
            assert begin is not None  # there is a default
            events = _of_namespace(repository, begin, principal, kind, rows, following)
        else:
            events = _of_subject(repository, subject, begin, principal, kind, rows, following)
        found = list(islice(events, rows + 1))
    shown = found[:rows]
    if output == "json":
        from ...audit.changes import plain_event

        say_json([plain_event(each) for each in shown])
    elif shown:
        _show(shown, whole=subject is None)
    else:
        of = entity or resource or ("the system defaults" if system else "any kind")
        within = f" since {both(begin)}" if begin else ""
        click.echo(f"No changes of {of} in namespace {namespace}{within}.")
    if len(found) > rows:
        say_following(shown[-1].event_id)


def _subject(entity: str | None, resource: str | None, tier: str | None, *, system: bool) -> str | None:
    """Return the subject of the changes as core names it; ``None`` for all of them."""
    from zae_limiter.maintenance import audit_resource, audit_system, audit_tier
    from zae_limiter.values.naming import check_identifier, check_resource, check_tier

    if sum(each is not None for each in (entity, resource, tier)) + system > 1:
        options = "--entity, --resource, --tier or --system"
        raise CommandError(f"`audit list` takes one subject at most: pass {options}, or none")
    if tier is not None:
        return audit_tier(check_tier("--tier", tier))
    if entity is not None:
        return check_identifier("--entity", entity)
    if resource is not None:
        return audit_resource(check_resource("--resource", resource, allow_pattern=True))
    return audit_system() if system else None


def _check_following(event_id: str | None) -> None:
    """Refuse what no list has as `event_id`: it would begin anywhere. Raises ``CommandError``."""
    if event_id is None:
        return
    try:
        datetime.fromisoformat(event_id[:LENGTH_OF_AN_INSTANT])
    except ValueError:
        raise CommandError(f"--next {event_id!r}: must be the `event_id` of a change that was listed") from None


def _begin(repository: "SyncRepository", since: str | None) -> datetime | None:
    if since is None:
        return None
    now = datetime.fromtimestamp(repository.namespace_state.now() / 1000, UTC)  # the store's time
    return parse_instant("--since", since, now)


def _of_namespace(
    repository: "SyncRepository",
    begin: datetime,
    principal: str | None,
    kind: "AuditKind | None",
    rows: int,
    behind: str | None,
) -> "Iterator[AuditEvent]":
    from zae_limiter.values.naming import check_principal

    if principal is not None:
        check_principal("principal", principal)
    events = every_row(
        lambda size, start: repository.get_namespace_audit_events(begin, kind=kind, limit=size, start=start),
        ROWS_OF_A_PAGE if principal else min(rows + 1, ROWS_OF_A_PAGE),
        behind,
    )
    return (each for each in events if _is_by(principal, each.principal))


def _is_by(asked: str | None, principal: str | None) -> bool:
    """Whether a change is of a principal: of an apply, which is recorded as ``role (claimed: principal, source)``, of
    its role or of what it claims.
    """
    if asked is None or principal is None or asked == principal:
        return asked is None or principal is not None
    role, claimed, claims = principal.partition(" (claimed: ")
    return bool(claimed) and asked in (role, *claims.removesuffix(")").split(", "))


def _of_subject(
    repository: "SyncRepository",
    subject: str,
    begin: datetime | None,
    principal: str | None,
    kind: "AuditKind | None",
    rows: int,
    behind: str | None,
) -> "Iterator[AuditEvent]":
    from zae_limiter.values.audit import iso_instant, kind_of

    earliest = "" if begin is None else iso_instant(int(begin.timestamp() * 1000))
    size = ROWS_OF_A_PAGE if principal or kind else min(rows + 1, ROWS_OF_A_PAGE)
    for event in every_row(
        lambda size, start: repository.get_audit_events(subject, limit=size, start=start), size, behind
    ):
        if event.event_id < earliest:  # it begins with the instant, and the list is in its order
            return
        if _is_by(principal, event.principal) and kind in (None, kind_of(event.action)):
            yield event


def _show(events: "Sequence[AuditEvent]", *, whole: bool) -> None:
    from ...audit.changes import changes

    head = ("TIME (UTC)", "PRINCIPAL", "ACTION", *(["SUBJECT"] if whole else []), "RESOURCE", "CHANGED")
    say_columns(
        [
            head,
            *(
                (
                    each.at,
                    each.principal or "-",
                    each.action,
                    *([_who(each)] if whole else []),
                    each.resource or "-",
                    ", ".join(changes(each)) or "-",
                )
                for each in events
            ),
        ]
    )


def _who(event: "AuditEvent") -> str:
    """Return the subject for people: an entity by its id, a resource, a tier or the system by its level."""
    from zae_limiter.maintenance import audit_resource, audit_system, tier_of_subject

    if (tier := tier_of_subject(event.entity_id)) is not None:
        return f"(tier {tier})"
    if event.entity_id == audit_system():
        return "(system)"
    return "(resource)" if event.entity_id.startswith(audit_resource("")) else event.entity_id
