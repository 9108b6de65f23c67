"""`zae-limiter entity create`, `update` and `delete`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from ...confirmation import confirm
from ...data.parsing import metadata_option
from ...data.showing import show_done, show_entity
from ...errors import CommandError
from ...options import Function, OutputForm, connected, in_namespace, output_option, yes_accepted, yes_option
from ...paging import in_repository, open_namespace
from ...principal import principal_option

if TYPE_CHECKING:
    from zae_limiter import SyncRepository

    from ...connection import Connection

CLEARABLE: Final = {
    "entity_name": "name",
    "parent": "parent_ids",
    "metadata": "metadata",
    "tier": "tier",
}  # as core names them


def _record_options(function: Function) -> Function:
    """Add the options of a record; the command gets ``entity_name``, ``parent``, ``tier`` and ``metadata``."""
    named = click.option("--entity-name", metavar="TEXT", help="Display name.")
    child = click.option("--parent", metavar="ID", multiple=True, help="Parent entity; several in turn, at most 4.")
    tiered = click.option("--tier", metavar="NAME", help="Tier whose limits it has where it has none of its own.")
    return named(child(tiered(metadata_option(function))))


@click.command(short_help="Create an entity.")
@in_repository
@click.argument("entity_id")
@_record_options
@click.option("--cascade", is_flag=True, help="Let its acquires consume from its parents, too.")
@click.option("--exist-ok", is_flag=True, help="Leave an entity that is there already as it is, and show it.")
@principal_option
@output_option
@yes_accepted
def create(
    *,
    repository: "SyncRepository",
    entity_id: str,
    entity_name: str | None,
    parent: tuple[str, ...],
    tier: str | None,
    metadata: Mapping[str, str],
    cascade: bool,
    exist_ok: bool,
    principal: str,
    output: OutputForm,
) -> None:
    """Create the entity ENTITY_ID. Only an entity with a parent must be created; limits and buckets work without."""
    made = repository.create_entity(
        entity_id,
        entity_name,
        cascade=cascade,
        metadata=metadata,
        parent_ids=parent,
        tier=tier,
        exist_ok=exist_ok,
        principal=principal,
    )
    show_entity(made, output)


@click.command(short_help="Change an entity's record.")
@connected
@in_namespace
@click.argument("entity_id")
@_record_options
@click.option("--cascade/--no-cascade", default=None, help="Whether its acquires consume from its parents, too.")
@click.option("--no-entity-name", is_flag=True, help="Remove its name.")
@click.option("--no-parent", is_flag=True, help="Remove its parents.")
@click.option("--no-tier", is_flag=True, help="Take its tier away.")
@click.option("--no-metadata", is_flag=True, help="Remove its metadata.")
@click.option(
    "--expect-version",
    "expected_version",
    type=click.IntRange(min=1),
    metavar="N",
    help="Change it only if it still has this version, which `show` prints.",
)
@principal_option
@output_option
@yes_accepted
def update(
    *,
    connection: "Connection",
    namespace: str,
    entity_id: str,
    expected_version: int | None,
    principal: str,
    output: OutputForm,
    **chosen: Any,
) -> None:
    """Change the record of ENTITY_ID. A field that is not given keeps its value; --metadata replaces all metadata,
    --parent all parents. What is below an entity moves along with it.

    Its acquires go on to consume from its parents if they did before; without parents they cannot, so that an entity
    that cascades needs --no-cascade beside --no-parent. Running processes see the change when their config cache
    expires, by default within a minute; they obey another tier from the next request on.
    """
    from zae_limiter import ValidationError

    fields = _fields(chosen)
    with open_namespace(connection, namespace) as repository:
        try:
            after = repository.update_entity(
                entity_id, **fields, expected_version=expected_version, principal=principal
            )
        except ValidationError as error:
            if error.field != "cascade" or not chosen["no_parent"]:
                raise
            raise CommandError(
                f"{entity_id} would consume from its parents, and would have none: pass --no-cascade, too; "
                f"`entity update {entity_id} --parent ID --cascade` brings it back"
            ) from error
    show_entity(after, output)


@click.command(short_help="Delete an entity, its own limits and its buckets.")
@in_repository
@click.argument("entity_id")
@principal_option
@yes_option
@output_option
def delete(*, repository: "SyncRepository", entity_id: str, principal: str, yes: bool, output: OutputForm) -> None:
    """Delete ENTITY_ID: its record, its own limits and its buckets. Its usage and its audit events stay.

    The command refuses to delete an entity with children. Asks first, unless --yes is given.
    """
    if not yes:
        confirm(f"Delete the entity {entity_id}, its own limits and its buckets, in namespace {repository.name}?")
    repository.delete_entity(entity_id, principal=principal)
    show_done({"entity_id": entity_id}, "deleted", output, message=f"Entity {entity_id} deleted.")


def _fields(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields to change; ``None`` clears one. Raises ``CommandError`` for no field, and for both forms of one
    option.
    """
    fields = {} if chosen["cascade"] is None else {"cascade": chosen["cascade"]}
    for name, field in CLEARABLE.items():
        given, cleared = chosen[name] not in (None, {}, ()), chosen[f"no_{name}"]
        if given and cleared:
            option = name.replace("_", "-")
            raise CommandError(f"--{option} and --no-{option} contradict each other: pass one of them")
        if given or cleared:
            fields[field] = None if cleared else chosen[name]
    if not fields:
        raise CommandError(
            "nothing to change: pass --entity-name, --parent, --tier, --cascade, --metadata, or their --no-… forms"
        )
    return fields
