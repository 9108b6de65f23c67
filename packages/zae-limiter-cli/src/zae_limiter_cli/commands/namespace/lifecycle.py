"""`zae-limiter namespace register`, `list`, `show`, `delete`, `recover`, `orphans` and `purge`."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ...columns import counted, say_columns, say_json
from ...confirmation import confirm
from ...data.showing import show_done, show_namespaces
from ...errors import CommandError
from ...options import OutputForm, connected, output_option, quiet_option, yes_accepted, yes_option
from ...progress import now_and_then, reporter

if TYPE_CHECKING:
    from zae_limiter import SyncRepository
    from zae_limiter.values import Namespace

    from ...connection import Connection


@click.command(short_help="Register a namespace.")
@connected
@click.argument("namespace")
@output_option
@yes_accepted
def register(*, connection: "Connection", namespace: str, output: OutputForm) -> None:
    """Register NAMESPACE; an existing namespace does not change.

    The name of a deleted namespace is free again: the new namespace has another id, and is empty.
    """
    with _table(connection) as registry:
        _show(registry.register_namespace(namespace), output)


@click.command("list", short_help="List the namespaces in use, or the deleted ones; show one.")
@connected
@click.argument("namespace", required=False)
@click.option("--deleted", is_flag=True, help="Those that can be recovered or purged, the oldest first.")
@output_option
def list_namespaces(*, connection: "Connection", namespace: str | None, deleted: bool, output: OutputForm) -> None:
    """List the namespaces in use, by name, or those that were --deleted; with NAMESPACE, show that one.

    A namespace purged within the last two days counts as deleted if something was written to it since.
    """
    from zae_limiter.maintenance import SyncMaintenance

    if deleted and namespace is not None:
        raise CommandError("--deleted lists all deleted namespaces: pass no NAMESPACE with it")
    with _registry(connection) as registry:
        if namespace is not None:
            _show(_in_use(registry, namespace), output)
        elif deleted:
            none = "No namespace can be recovered or purged."
            show_namespaces(SyncMaintenance(registry).list_orphan_namespaces(), output, none=none)
        else:
            none = "No namespace is in use: `zae-limiter namespace register` creates one."
            show_namespaces(registry.list_namespaces(), output, none=none)


@click.command(short_help="Delete a namespace; it can be recovered.")
@connected
@click.argument("namespace")
@yes_option
@output_option
def delete(*, connection: "Connection", namespace: str, yes: bool, output: OutputForm) -> None:
    """Delete NAMESPACE: it cannot be opened any more, but its data stays.

    Processes that have it open continue to use it: stop them first. Asks first, unless --yes is given.
    """
    with _registry(connection) as registry:
        _in_use(registry, namespace)
        if not yes:
            confirm(f"Delete the namespace {namespace}?")
        deleted = registry.delete_namespace(namespace)
    message = f"Namespace {namespace} deleted; {_way_back(deleted)}."
    show_done(asdict(deleted), "deleted", output, message=message)


@click.command(short_help="Recover a deleted namespace.")
@connected
@click.argument("namespace_id")
@output_option
@yes_accepted
def recover(*, connection: "Connection", namespace_id: str, output: OutputForm) -> None:
    """Recover the deleted namespace NAMESPACE_ID under its name, with all its data; `list --deleted` has the ids."""
    from zae_limiter.maintenance import SyncMaintenance

    with _registry(connection) as registry, _by_id(namespace_id):
        _show(SyncMaintenance(registry).recover_namespace(namespace_id), output)


@click.command(short_help="Remove a deleted namespace for good.")
@connected
@click.argument("namespace_id")
@yes_option
@output_option
@quiet_option
def purge(*, connection: "Connection", namespace_id: str, yes: bool, output: OutputForm, quiet: bool) -> None:
    """Remove the deleted namespace NAMESPACE_ID and all its data for good; `list --deleted` has the ids.

    Asks first, unless --yes is given. After an interruption, run the same command again to remove the rest.
    """
    from zae_limiter.maintenance import SyncMaintenance

    with _registry(connection) as registry, _by_id(namespace_id):
        if not yes:
            confirm(f"Purge the namespace {namespace_id} and all its data? This cannot be undone.")
        report = reporter(quiet=quiet)
        on_progress = now_and_then(lambda count: report(f"{counted(count, 'item')} removed"))
        try:
            removed = SyncMaintenance(registry).purge_namespace(namespace_id, on_progress=on_progress)
        except KeyboardInterrupt:
            again = f"zae-limiter namespace purge {connection.option} -- {namespace_id}"
            raise CommandError(f"stopped in the middle: run `{again}` again, which removes the rest") from None
    message = f"Namespace {namespace_id} purged, items removed: {removed:,}."
    show_done({"namespace_id": namespace_id, "items": removed}, "purged", output, message=message)


def _registry(connection: "Connection") -> "AbstractContextManager[SyncRepository]":
    """Open the table as ``_table`` does. Raises ``CommandError`` for a missing file."""
    connection.check_there()
    return _table(connection)


@contextmanager
def _table(connection: "Connection") -> "Iterator[SyncRepository]":
    """Open the table without a namespace: even `default` may be deleted. Make a missing file."""
    from zae_limiter.maintenance import SyncMaintenance
    from zae_limiter.values.versions import check_compatible, core_version

    with connection.open_table() as table:
        if (record := SyncMaintenance(table).get_version_record()) is not None:
            check_compatible(record, stack=connection.name, client_version=core_version())
        yield table


def _in_use(registry: "SyncRepository", name: str) -> "Namespace":
    from zae_limiter.maintenance import SyncMaintenance

    if (found := registry.get_namespace(name)) is not None:
        return found
    for each in reversed(SyncMaintenance(registry).list_orphan_namespaces()):
        if each.name == name:
            raise CommandError(f"the namespace {name!r} was deleted: {_way_back(each)}")
    raise CommandError(f"there is no namespace {name!r}: `zae-limiter namespace list` lists the namespaces")


def _way_back(deleted: "Namespace") -> str:
    return f"`zae-limiter namespace recover {deleted.namespace_id}` recovers it"


@contextmanager
def _by_id(namespace_id: str) -> Iterator[None]:
    """Say in an error of the block that an id was not found: core takes it for a name, and says to register it."""
    from zae_limiter.exceptions import NamespaceNotFoundError

    try:
        yield
    except NamespaceNotFoundError as error:
        told = (
            f"there is no namespace with the id {namespace_id!r}: `zae-limiter namespace list --deleted` lists the ids"
        )
        raise CommandError(told) from error


def _show(found: "Namespace", output: OutputForm) -> None:
    if output == "json":
        say_json(asdict(found))
    else:
        say_columns([("namespace", found.name), ("id", found.namespace_id), ("created", found.created_at)])
