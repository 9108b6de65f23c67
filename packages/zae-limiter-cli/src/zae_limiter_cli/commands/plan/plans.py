"""`zae-limiter plan set-limits`, `show`, `delete-limits` and `list`."""

from typing import TYPE_CHECKING

import click

from ...columns import say_columns, say_json
from ...confirmation import confirm
from ...data.changing import Change, before_change
from ...data.parsing import limits_option
from ...data.places import ALL_RESOURCES, place_in_plan
from ...data.refusals import on_refused_option
from ...data.showing import LIMIT_HEAD, limit_cells, plain_limits, show_done
from ...errors import CommandError
from ...options import OutputForm, output_option, yes_option
from ...paging import in_repository
from ...principal import principal_option

if TYPE_CHECKING:
    from zae_limiter import Limit, OnRefused, SyncRepository


resource_option = click.option(
    "--resource", "-r", default=ALL_RESOURCES, metavar="NAME", help="The resource.  [default: all resources]"
)


@click.command(short_help="Replace the limits of a plan; make the plan if it is new.")
@in_repository
@click.argument("plan")
@resource_option
@limits_option(required=True)
@on_refused_option
@principal_option
@yes_option
@output_option
def set_limits(
    *,
    repository: "SyncRepository",
    plan: str,
    resource: str,
    limits: "list[Limit]",
    on_refused: "OnRefused | None",
    principal: str,
    yes: bool,
    output: OutputForm,
) -> None:
    """Replace the limits of PLAN on a resource, or on all resources; make the plan if it is new. Asks first if a limit
    goes, unless --yes is given.

    One write, however many entities have the plan. Running processes see the change when their config cache expires, by
    default within a minute.
    """
    what = f"limits of plan {plan} on {_shown(resource)}"
    change = before_change(repository, place_in_plan(plan, resource), limits, what=what, yes=yes)
    repository.set_plan_limits(plan, limits, resource, on_refused=on_refused, principal=principal)
    _show(repository, plan, output, change)


@click.command(short_help="Show the limits of a plan, and how many entities have it.")
@in_repository
@click.argument("plan")
@output_option
def show(*, repository: "SyncRepository", plan: str, output: OutputForm) -> None:
    """Show the limits of PLAN, resource by resource, and how many entities have it."""
    _show(repository, plan, output)


@click.command(short_help="Delete the limits of a plan on a resource, or on all.")
@in_repository
@click.argument("plan")
@resource_option
@principal_option
@yes_option
@output_option
def delete_limits(
    *, repository: "SyncRepository", plan: str, resource: str, principal: str, yes: bool, output: OutputForm
) -> None:
    """Delete the limits of PLAN on a resource, or on all resources. Asks first, unless --yes is given.

    The last limits of a plan stay while entities have it; the command says how many.
    """
    place = f"plan {plan} on {_shown(resource)}"
    if not repository.get_plan_limits(plan, resource):
        raise CommandError(f"{place} has no limits in namespace {repository.name}: nothing was deleted")
    if not yes:
        confirm(f"Delete the limits of {place}, in namespace {repository.name}?")
    repository.delete_plan_limits(plan, resource, principal=principal)
    show_done({"plan": plan, "resource": resource}, "deleted", output, message=f"Limits of {place} deleted.")


@click.command("list", short_help="List the plans, and how many entities have each.")
@in_repository
@output_option
def list_plans(*, repository: "SyncRepository", output: OutputForm) -> None:
    """List the plans, and how many entities have each. The list may miss a change of the last second."""
    found = repository.list_plans()
    counts = {plan: len(repository.list_entities_of_plan(plan)) for plan in found}
    if output == "json":
        say_json([{"plan": plan, "entities": counts[plan], "resources": found[plan]} for plan in found])
    elif found:
        rows = [(plan, f"{counts[plan]:,}", ", ".join(map(_shown, found[plan]))) for plan in found]
        say_columns([("PLAN", "ENTITIES", "LIMITS ON"), *rows])
    else:
        click.echo(f"There are no plans in namespace {repository.name}.")


def _show(repository: "SyncRepository", plan: str, output: OutputForm, change: Change | None = None) -> None:
    """Print a plan. Raises ``CommandError`` for one without limits."""
    entities = len(repository.list_entities_of_plan(plan))
    limits = _limits_of(repository, plan)
    if not limits:
        raise CommandError(
            f"plan {plan} has no limits in namespace {repository.name}: `plan list` shows those that have"
        )
    if output == "json":
        resources = {resource: plain_limits(own) for resource, own in limits.items()}
        changed = change.plain() if change else {}
        say_json({"plan": plan, "entities": entities, "resources": resources, **changed})
        return
    click.echo(f"plan {plan}: {entities:,} {'entity has' if entities == 1 else 'entities have'} it.")
    rows = [(_shown(resource), *limit_cells(limit)) for resource, own in limits.items() for limit in own]
    say_columns([("ON", *LIMIT_HEAD), *rows])
    if change is not None:
        change.say(output)


def _limits_of(repository: "SyncRepository", plan: str) -> "dict[str, list[Limit]]":
    """Return the limits of a plan by resource, those on all resources first."""
    on_all = {ALL_RESOURCES: repository.get_plan_limits(plan)}
    others = {each: repository.get_plan_limits(plan, each) for each in repository.list_plans().get(plan, ())}
    return {resource: limits for resource, limits in (on_all | others).items() if limits}


def _shown(resource: str) -> str:
    return "all resources" if resource == ALL_RESOURCES else resource
