"""`zae-limiter deploy`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ...columns import counted, say_columns, say_json
from ...errors import CommandError
from ...options import OutputForm, connected_to_stack, output_option, yes_option
from ...progress import reporter
from . import changes
from .options import errors_only_option, production_option, stack_options, tag_option

if TYPE_CHECKING:
    from ...connection import Connection
    from ...stack.deploy import Deployed, Plan

downgrade_option = click.option(
    "--allow-downgrade", is_flag=True, help="Deploy even if a newer release deployed the stack."
)


@click.command()
@connected_to_stack
@click.option("--wait/--no-wait", default=True, help="Wait for CloudFormation, then upload the code.  [default: wait]")
@downgrade_option
@changes.dry_run_option
@yes_option
@output_option
@errors_only_option
@tag_option
@production_option
@stack_options
def deploy(
    *,
    connection: "Connection",
    wait: bool,
    allow_downgrade: bool,
    dry_run: bool,
    yes: bool,
    output: OutputForm,
    quiet: bool,
    tags: Mapping[str, str],
    production: bool,
    chosen: Mapping[str, Any],
) -> None:
    """Create or update the stack NAME: table, Lambdas with their code, alarms, policies, archive of audit events.

    Shows the changes and asks before it makes them, unless --yes is given. A second run changes nothing; an option that
    is not given keeps its value. At the end the command registers the namespace `default` and lists the parts of the
    stack.
    """
    from ...stack.deploy import DeployRequest, begin, check_unchanged
    from ...stack.options import emulator_host, in_production

    if production:
        chosen = in_production(chosen)
        reporter(quiet=quiet)(_asked_for(chosen))
    if connection.endpoint_url is not None and chosen["response_host"] is None:
        chosen = {**chosen, "response_host": emulator_host(connection.endpoint_url)}
    if not (yes or dry_run):
        changes.check_terminal("deploy", connection.name)
    client, plan = begin(connection, DeployRequest(chosen, tags, allow_downgrade))
    if dry_run:
        changes.show(changes.of_plan(connection, plan), output)
        return
    if not yes and (found := changes.of_plan(connection, plan)):
        changes.ask(found, f"{'Create' if plan.stack is None else 'Change'} stack {connection.name}?")
        check_unchanged(client, connection.name, plan)
    if wait:
        show(connection, bring_about(connection, client, plan, quiet=quiet), output, quiet=quiet)
    else:
        _start(connection, client, plan, output, quiet=quiet)


def bring_about(connection: "Connection", client: Any, plan: "Plan", *, quiet: bool) -> "Deployed":
    """Deploy, and wait for CloudFormation. Raises ``CommandError``."""
    from ...stack.deploy import carry_out

    try:
        return carry_out(connection, client, plan, reporter(quiet=quiet))
    except KeyboardInterrupt:
        name = connection.name
        raise CommandError(
            f"stopped waiting; CloudFormation continues: `zae-limiter status --name {name}` shows its progress. "
            f"Run `zae-limiter deploy --name {name}` again to upload the code of the Lambdas"
        ) from None


def _start(connection: "Connection", client: Any, plan: "Plan", output: OutputForm, *, quiet: bool) -> None:
    from ...stack.deploy import start
    from ...stack.preview import beside

    left = sorted({change["kind"] for change in beside(connection, plan)})
    action = start(client, connection.name, plan)
    if output == "json":
        say_json({"stack": connection.name, "action": action, "waited": False, "bucket_left": plan.bucket_left})
        return
    if quiet:
        return
    begun = {"created": "is being created", "updated": "is being updated", "unchanged": "does not change"}[action]
    click.echo(f"Stack {connection.name} {begun}. `zae-limiter status --name {connection.name}` shows its status.")
    if left:
        again = f"run `zae-limiter deploy --name {connection.name}` without --no-wait when it is done"
        click.echo(f"Still missing: {' and '.join(left)}: {again}.")
    if plan.bucket_left:
        click.echo(f"Archive: {_left(plan.bucket_left)}.")


def show(connection: "Connection", deployed: "Deployed", output: OutputForm, *, quiet: bool) -> None:
    """Print the result of the deployment."""
    if output == "json":
        say_json(as_json(connection, deployed))
        return
    if quiet:
        return
    if not deployed.changed:
        click.echo(f"No changes: stack {connection.name} is up to date.")
        return
    if deployed.action == "unchanged":
        click.echo(f"Stack {connection.name} updated: {', '.join(deployed.changed_beside)}.")
    else:
        click.echo(f"Stack {connection.name} {deployed.action}.")
    say_columns(_rows(connection, deployed), indent="  ")
    click.echo(f"Next: `zae-limiter status --name {connection.name}`")


def _asked_for(chosen: Mapping[str, Any]) -> str:
    """Return what `--production` asks for, and the options that were set otherwise."""
    from ...stack.options import PRODUCTION, flag, without

    on = ", ".join(flag(name) for name in PRODUCTION if chosen[name])
    off = ", ".join(without(name) for name in PRODUCTION if not chosen[name])
    return f"--production asks for {on or 'nothing'}" + (f"; you have given {off}" if off else "")


def _rows(connection: "Connection", deployed: "Deployed") -> list[tuple[str, str]]:
    from ...stack.code import function_name

    outputs, options = deployed.stack.outputs, deployed.options
    rows = [("table", connection.name)]
    for name, outcome in deployed.code.items():
        rows.append((name, f"{function_name(connection.name, name)} {deployed.versions[name]}, code {outcome}"))
    if options.response_host:
        rows.append(("replies", f"of the provisioner go to CloudFormation, or to {options.response_host}"))
    if archive := deployed.stack.archive_bucket:
        rows.append(("archive", archive))
    if deployed.bucket_left:
        rows.append(("archive", f"none any more; {_left(deployed.bucket_left)}"))
    policies = [key for key in outputs if key.endswith("PolicyArn")]
    if policies:
        rows.append(("policies", f"{len(policies)}, whose ARNs are outputs of the stack"))
    if options.alarms:
        rows.append(("alarms", options.alarm_topic_arn or "without notifications: set --alarm-topic-arn"))
    days = f"to any second of the last {counted(options.recovery_days, 'day')}"
    rows.append(("recovery", days if options.point_in_time_recovery else "none: set --point-in-time-recovery"))
    rows.append(("deletion", "refused" if options.deletion_protection else "possible: set --deletion-protection"))
    rows.append(("namespace", "default" if deployed.default_namespace else "default was deleted, and stays deleted"))
    return rows


def _left(bucket: str) -> str:
    from ...stack.events import way_to_remove

    return f"bucket {bucket} stays with its audit events: {way_to_remove(bucket)}"


def as_json(connection: "Connection", deployed: "Deployed") -> dict[str, Any]:
    """Return the result of the deployment, for programs."""
    return {
        "stack": connection.name,
        "action": "updated" if deployed.changed and deployed.action == "unchanged" else deployed.action,
        "changed": deployed.changed,
        "status": deployed.stack.status,
        "code": dict(deployed.code),
        "versions": dict(deployed.versions),
        "version_record_written": deployed.recorded,
        "default_namespace": deployed.default_namespace,
        "bucket_left": deployed.bucket_left,
        "outputs": dict(deployed.stack.outputs),
    }
