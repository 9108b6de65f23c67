"""`zae-limiter delegation add`, `list` and `remove`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...columns import say_columns, say_json
from ...errors import CommandError
from ...options import OutputForm, connected_to_stack, output_option, yes_accepted

if TYPE_CHECKING:
    from ...connection import Connection

_namespace = click.argument("namespace")
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(short_help="Let a namespace be planned and applied by itself.")
@connected_to_stack
@_namespace
@click.option("--bounds", "file", type=_FILE, help="File with the most that the namespace's files may give.")
@click.option("--unbounded", is_flag=True, help="Let the namespace's files give anything.")
@output_option
@yes_accepted
def add(*, connection: "Connection", namespace: str, file: Path | None, unbounded: bool, output: OutputForm) -> None:
    """Make the aliases that serve NAMESPACE alone, and check that they refuse any other one. No one may use them until
    they have the policy that `delegation list --policy` prints.

    --bounds binds who plans and applies by the aliases, in place of the bounds that there are: the most of each limit,
    the parents, the tiers. Without it, and without --unbounded, those that there are stay.
    """
    from ...limits.bounds import read_bounds, remove_bounds, set_bounds
    from ...limits.showing import say_beyond
    from ...stack.code import function_name
    from ...stack.delegations import add, find

    if unbounded and file is not None:
        raise CommandError("--bounds and --unbounded exclude each other: pass one of them")
    if file is not None:
        bounds = read_bounds(file)
        find(connection, namespace)  # a name that cannot be delegated gets no bounds
        say_beyond(namespace, "the limits that it has now are", set_bounds(connection, namespace, bounds).beyond)
    elif unbounded:
        remove_bounds(connection, namespace)
    made = add(connection, namespace)
    if output == "json":
        return say_json(made.as_json())
    functions = " and ".join(function_name(connection.name, kind) for kind in made.arns)
    click.echo(f"{namespace}: the alias {made.alias} of {functions} serves it alone.")
    if file is not None or unbounded:
        click.echo(f"{namespace}: {'its bounds are removed' if file is None else f'its bounds are those of {file}'}.")
    click.echo(
        f"`zae-limiter delegation list --policy {namespace} --name {connection.name}` prints the policy to attach."
    )
    return None


@click.command("list", short_help="List delegations, or print the IAM policy or bounds of one.")
@connected_to_stack
@click.option(
    "--policy", metavar="NAMESPACE", help="Print the IAM policy to plan and apply this one, and nothing else."
)
@click.option("--bounds-of", metavar="NAMESPACE", help="Print the bounds of this one, as YAML, and nothing else.")
@click.option("--plan-only", is_flag=True, help="Have the policy allow to plan and to read, not to apply.")
@output_option
def list_delegations(
    *, connection: "Connection", policy: str | None, bounds_of: str | None, plan_only: bool, output: OutputForm
) -> None:
    """List the namespaces that have aliases, with the functions that have them."""
    from ...stack.delegations import find_all

    if policy is not None and bounds_of is not None:
        raise CommandError("--policy and --bounds-of exclude each other: pass one of them")
    if bounds_of is not None:
        _print_bounds(connection, bounds_of, output)
        return
    if policy is not None:
        _print_policy(connection, policy, plan_only=plan_only)
        return
    if plan_only:
        raise CommandError("--plan-only is for the policy of a namespace: pass --policy NAMESPACE, too")
    found = find_all(connection)
    if output == "json":
        say_json([each.as_json() for each in found])
    elif not found:
        click.echo("No namespace is delegated.")
    else:
        say_columns(
            [("NAMESPACE", "ALIAS", "OF"), *((each.namespace, each.alias, ", ".join(each.arns)) for each in found)]
        )


def _print_bounds(connection: "Connection", namespace: str, output: OutputForm) -> None:
    from ...limits.bounds import find_bounds

    found = find_bounds(connection, namespace)
    if output == "json":
        return say_json({"namespace": namespace, "bounds": None if found is None else found.to_dict()})
    click.echo(f"# {namespace} has no bounds" if found is None else found.to_yaml(), nl=found is None)
    return None


def _print_policy(connection: "Connection", namespace: str, *, plan_only: bool) -> None:
    from ...stack.code import function_name
    from ...stack.delegations import KINDS, find

    found = find(connection, namespace)
    wanted = KINDS[:1] if plan_only else KINDS
    if missing := [kind for kind in wanted if kind not in found.arns]:
        way_out = f"`zae-limiter delegation add {namespace} --name {connection.name}` makes it"
        raise CommandError(f"{function_name(connection.name, missing[0])} has no alias {found.alias}: {way_out}")
    click.echo(json.dumps(found.policy(wanted), indent=2))  # a policy of IAM, no document of ours


@click.command(short_help="Take a delegation back.")
@connected_to_stack
@_namespace
@output_option
@yes_accepted
def remove(*, connection: "Connection", namespace: str, output: OutputForm) -> None:
    """Delete the aliases and the bounds of NAMESPACE: a principal with its policy may do nothing with it any more. Its
    limits stay.
    """
    from ...limits.bounds import remove_bounds
    from ...stack.code import function_name
    from ...stack.delegations import remove

    gone = remove(connection, namespace)
    remove_bounds(connection, namespace)
    if output == "json":
        return say_json(gone.as_json())
    if gone.arns:
        functions = " and ".join(function_name(connection.name, kind) for kind in gone.arns)
        click.echo(
            f"{namespace}: not delegated any more: the alias {gone.alias} of {functions} and its bounds are deleted."
        )
    else:
        click.echo(f"{namespace}: was not delegated.")
    return None
