"""Complete the names of entities, resources, tiers and namespaces in a shell, which are read from the table meanwhile.

The user waits for the answer, and reads it between two words that they type. So it has a short time, in which it sends
a few queries and one for each resource, and where it fails nothing is shown. A shell puts a name into the command line
as it is, and a name may be what somebody else chose, such as `a;reboot`: only names that mean themselves to every shell
are offered. Click's own completion does the rest; it gets these types by the names of parameters.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from shlex import quote
from threading import Thread
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from zae_limiter import SyncRepository

    from .connection import Connection

SECONDS: Final = 1.5
MOST: Final = 100

Names = Callable[["SyncRepository", str], Iterable[str]]


class StoredName(click.types.StringParamType):
    """A text that names something in the table. A shell completes it; it is checked by what reads it."""

    def __init__(self, read: Names, *, of_namespace: bool = True) -> None:
        self.read = read
        self.of_namespace = of_namespace

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002  click's signature
        """Return the names that begin so; none if the table does not answer in time."""
        return [CompletionItem(name) for name in _in_time(lambda: self._names(ctx, incomplete)) if quote(name) == name]

    def _names(self, ctx: click.Context, incomplete: str) -> list[str]:
        from .options import chosen_connection

        connection = replace(chosen_connection(ctx), timeout=2 * SECONDS)  # half of it for each of two tries
        connection.check_there()
        with self._open(ctx, connection) as repository:
            return [name for name in self.read(repository, incomplete) if name.startswith(incomplete)][:MOST]

    def _open(self, ctx: click.Context, connection: "Connection") -> "SyncRepository":
        from zae_limiter import SyncRepository

        from .options import chosen_namespace

        if not self.of_namespace:
            return connection.open_table()
        chosen = chosen_namespace(ctx)
        return SyncRepository.open(chosen, register=False, check_version=False, **connection.store_options())


def complete_names(command: click.Command) -> None:
    """Have a shell complete the parameters of a command that name something in the table."""
    for parameter in command.params:
        if parameter.type is click.STRING and parameter.name in COMPLETED:
            parameter.type = COMPLETED[parameter.name]


def _entities(repository: "SyncRepository", begin: str) -> Iterable[str]:
    page = repository.list_entities(begins_with=begin, limit=MOST)
    return [each.entity_id for each in page.entities]


def _resources(repository: "SyncRepository", _: str) -> Iterable[str]:
    """Return the resources with limits of any level."""
    return sorted({*repository.list_resources_with_defaults(), *repository.list_resources_with_entity_configs()})


def _tiers(repository: "SyncRepository", _: str) -> Iterable[str]:
    """Return the tiers with limits."""
    return repository.list_tiers()


def _namespaces(repository: "SyncRepository", _: str) -> Iterable[str]:
    return [each.name for each in repository.list_namespaces()]


def _deleted_namespaces(repository: "SyncRepository", _: str) -> Iterable[str]:
    from zae_limiter.maintenance import SyncMaintenance

    return [each.namespace_id for each in SyncMaintenance(repository).list_orphan_namespaces()]


def _in_time(read: Callable[[], list[str]]) -> list[str]:
    """Return what is read within the time. The thread ends with the process if it takes longer."""
    found: list[str] = []

    def ask() -> None:
        try:
            found.extend(read())
        except Exception:  # noqa: BLE001  an error must not be written between the words of a command line
            found.clear()

    import_module("zae_limiter.sync.repository")  # `zae_limiter` loads it late; the time is the table's
    logging.disable()  # a log line would stand there, too
    thread = Thread(target=ask, daemon=True)
    thread.start()
    thread.join(SECONDS)
    return list(found)


ENTITY: Final = StoredName(_entities)
RESOURCE: Final = StoredName(_resources)
NAMESPACE: Final = StoredName(_namespaces, of_namespace=False)
COMPLETED: Final[Mapping[str, StoredName]] = {  # by the names of parameters
    **dict.fromkeys(("entity_id", "entity", "entities", "begins_with", "parent"), ENTITY),
    **dict.fromkeys(("resource", "on_resource"), RESOURCE),
    **dict.fromkeys(("namespace", "policy"), NAMESPACE),
    "namespace_id": StoredName(_deleted_namespaces, of_namespace=False),
    "tier": StoredName(_tiers),
}
