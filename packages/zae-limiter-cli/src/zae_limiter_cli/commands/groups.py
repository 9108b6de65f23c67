"""The groups of commands: what each is for, and the modules that define its commands."""

import sys

import click

from ..errors import CommandError, debug_option
from ..lazy import CommandsOfModules
from ..options import connection_options, namespace_options


@click.group(
    cls=CommandsOfModules,
    modules=(
        "limits.plan",
        "limits.apply",
        "limits.offline",
        "limits.fmt",
        "limits.export",
        "limits.status",
        "limits.stop",
        "limits.rollback",
        "limits.shares",
    ),
)
@connection_options
@debug_option
def limits() -> None:
    """Keep the limits of namespaces in YAML files.

    apply, rollback, stop and unlock invoke the stack's provisioner. The others invoke its planner, which only reads.
    You need no permission but lambda:InvokeFunction on these two. With --store there is no stack: this process does
    their work on the file.
    """


@click.group(cls=CommandsOfModules, modules=("usage.windows", "usage.export", "usage.cost", "usage.near", "usage.top"))
@connection_options
@namespace_options
@debug_option
def usage() -> None:
    """Show what entities consumed and how often they were refused, by hour and by day, as the aggregator counted."""


@click.group(cls=CommandsOfModules, modules=("audit.events",))
@connection_options
@namespace_options
@debug_option
def audit() -> None:
    """Show who changed limits, entities and buckets."""


@click.group(cls=CommandsOfModules, modules=("system.defaults",))
@connection_options
@namespace_options
@debug_option
def system() -> None:
    """Manage the default limits of a namespace, for entities and resources without limits, and its on_unavailable."""


@click.group(cls=CommandsOfModules, modules=("resource.defaults",))
@connection_options
@namespace_options
@debug_option
def resource() -> None:
    """Manage the limits of a resource, which apply to every entity without limits of its own."""


@click.group(cls=CommandsOfModules, modules=("tier.tiers",))
@connection_options
@namespace_options
@debug_option
def tier() -> None:
    """Manage tiers: limits that many entities have."""


@click.group(cls=CommandsOfModules, modules=("entity.show", "entity.records", "entity.limits", "entity.directory"))
@connection_options
@namespace_options
@debug_option
def entity() -> None:
    """Manage entities, their parents, and their own limits, which override those of resources and of the system."""


@click.group(cls=CommandsOfModules, modules=("bucket.tokens", "bucket.invalidate"))
@connection_options
@namespace_options
@debug_option
def bucket() -> None:
    """Fill or credit the bucket of an entity, to let it in at once. `entity show` shows what is left in each."""


@click.group(cls=CommandsOfModules, modules=("namespace.lifecycle", "namespace.trace"))
@connection_options
@debug_option
def namespace() -> None:
    """Manage the namespaces of a table: register, trace, delete, recover, purge.

    A deleted namespace cannot be opened, but its data stays until it is purged.
    """


@click.group(cls=CommandsOfModules, modules=("delegation.delegations",))
@connection_options
@debug_option
def delegation() -> None:
    """Let teams plan and apply one namespace each, with a policy that names no other.

    A delegation is an alias of the planner and of the provisioner, which serves its namespace alone.
    """


@click.group(cls=CommandsOfModules, modules=("local.up", "local.running", "local.rehearse"))
@debug_option
def local() -> None:
    """Run an AWS with a stack on this machine: table, stream and the Lambdas, which really run.

    It needs no Docker and no account.
    """
    if sys.platform == "win32":
        raise CommandError("`local` runs on Linux and macOS; on Windows use it in WSL")
