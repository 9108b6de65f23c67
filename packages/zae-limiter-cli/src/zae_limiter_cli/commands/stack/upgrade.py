"""`zae-limiter upgrade`: the stack, and the migrations of its table."""

from typing import TYPE_CHECKING, Any

import click

from ...columns import counted, say_columns, say_json
from ...errors import CommandError
from ...options import OutputForm, connected_to_stack, output_option, yes_option
from ...progress import reporter
from . import changes
from .deploy import as_json, bring_about, downgrade_option, show
from .options import errors_only_option

if TYPE_CHECKING:
    from zae_limiter.maintenance import Forecast
    from zae_limiter.values.versions import MigrationProgress

    from ...connection import Connection
    from ...stack.deploy import Deployed, Plan


@click.command()
@connected_to_stack
@click.option(
    "--code-only", is_flag=True, help="Upload code only; another tool deploys the template of `cfn-template`."
)
@click.option("--dry-run", is_flag=True, help="Show the changes, and the migrations with their cost, and end.")
@click.option(
    "--oldest-client",
    metavar="VERSION",
    help="Only shut out clients older than this release of zae-limiter-core, as a migration requires.",
)
@downgrade_option
@yes_option
@output_option
@errors_only_option
def upgrade(
    *,
    connection: "Connection",
    code_only: bool,
    dry_run: bool,
    oldest_client: str | None,
    allow_downgrade: bool,
    yes: bool,
    output: OutputForm,
    quiet: bool,
) -> None:
    """Upgrade an existing stack to this release: template, code of the Lambdas, version record. Options stay.

    Then migrate the items of its table to the schema of this release, if it has another one. A migration needs that no
    older client is admitted (--oldest-client); run again, it goes on where it was stopped. The command shows the
    changes and asks before it makes them, unless --yes is given.
    """
    from ...stack.deploy import DeployRequest, begin, check_unchanged, upgrade_code

    if not (yes or dry_run or oldest_client):
        changes.check_terminal("upgrade", connection.name)
    client, plan = begin(connection, DeployRequest(allow_downgrade=allow_downgrade))
    if plan.stack is None:
        raise CommandError(f"{connection.no_stack()}: `zae-limiter deploy --name {connection.name}` creates it")
    if oldest_client is not None:
        return _shut_out(connection, oldest_client, output, quiet=quiet)
    if dry_run:
        return _show_forecast(connection, plan, output, code_only=code_only)
    if not yes:
        _ask(connection, plan, code_only=code_only)
        check_unchanged(client, connection.name, plan)
    if code_only:
        deployed = upgrade_code(connection, plan.stack, plan.options, reporter(quiet=quiet))
    else:
        deployed = bring_about(connection, client, plan, quiet=quiet)
    return _migrate(connection, deployed, output, quiet=quiet)


def _ask(connection: "Connection", plan: "Plan", *, code_only: bool) -> None:
    """Show the changes, and ask before any is made. Do not ask about a migration that is refused anyway."""
    from ...stack.migration import pending

    found = changes.of_plan(connection, plan, code_only=code_only)
    wanted, refused = pending(connection)
    if wanted and refused is None:
        before, after = wanted[0].schema_version, wanted[-1].schema_version + 1
        question = (
            f"Upgrade stack {connection.name}, and migrate its table from schema {before} to {after}? "
            f"No process that uses it may run a release of zae-limiter-core before {wanted[-1].oldest_client}."
        )
        changes.ask(found, question)
    elif found:
        changes.ask(found, f"Upgrade stack {connection.name}?")


def _migrate(connection: "Connection", deployed: "Deployed", output: OutputForm, *, quiet: bool) -> None:
    """Carry out the pending migrations, and show them with the result for the stack. Then raise what refused one, if
    any.
    """
    from zae_limiter.exceptions import VersionError

    from ...stack.migration import migrate

    done: list[MigrationProgress] = []
    refused: VersionError | None = None
    try:
        done = migrate(connection, reporter(quiet=quiet))
    except VersionError as error:
        refused = error
    if output == "json":
        say_json({**as_json(connection, deployed), "migrations": [_progress(each) for each in done]})
    elif deployed.changed or not (done or refused):
        show(connection, deployed, output, quiet=quiet)
    if done and output != "json" and not quiet:
        click.echo(f"Table {connection.name} migrated to schema {done[-1].schema_version + 1}.")
        say_columns(
            [(each.name, f"{counted(each.items, 'item')} read, {each.changed:,} changed") for each in done], indent="  "
        )
    if refused is not None:
        raise refused


def _progress(progress: "MigrationProgress") -> dict[str, Any]:
    fields = ("name", "schema_version", "items", "changed")
    return {name: getattr(progress, name) for name in fields}


def _shut_out(connection: "Connection", oldest_client: str, output: OutputForm, *, quiet: bool) -> None:
    from ...stack.migration import shut_out

    changed = shut_out(connection, oldest_client)
    if output == "json":
        say_json({"stack": connection.name, "oldest_client": oldest_client, "changed": changed})
    elif quiet:
        return
    elif not changed:
        click.echo(f"No changes: stack {connection.name} admits no client before {oldest_client}.")
    else:
        click.echo(f"Stack {connection.name} admits no client before zae-limiter-core {oldest_client} any more.")
        click.echo(
            "Older clients that have it open go on until they end. When none of them is left, run "
            f"`zae-limiter upgrade --name {connection.name}`"
        )


def _show_forecast(connection: "Connection", plan: "Plan", output: OutputForm, *, code_only: bool) -> None:
    from ...stack.migration import forecast, pending

    found = changes.of_plan(connection, plan, code_only=code_only)
    wanted, refused = pending(connection)
    forecasts = forecast(connection, wanted)
    if output == "json":
        say_json({"changes": found, "migrations": [_as_json(each) for each in forecasts], "refused": refused})
        return
    rows = [*changes.rows_of(found), *(_row(connection.name, each) for each in forecasts)]
    if rows:
        say_columns(rows)
    else:
        click.echo("No changes.")
    if refused is not None:
        click.echo(f"It would be refused now: {refused}")


def _as_json(forecast: "Forecast") -> dict[str, Any]:
    migration = ("name", "description", "schema_version", "oldest_client")
    counted = ("items", "changed", "read_units", "write_units", "index_units")
    return {
        **{name: getattr(forecast.migration, name) for name in migration},
        **{name: getattr(forecast, name) for name in counted},
    }


def _row(stack: str, forecast: "Forecast") -> tuple[str, str, str, str]:
    version = forecast.migration.schema_version
    items = f"{forecast.changed:,} of {counted(forecast.items, 'item')}"
    units = f"{forecast.read_units:,.0f} read units, {forecast.write_units + forecast.index_units:,} write units"
    details = f"schema {version} to {version + 1}, {items}, {units}: {forecast.migration.description}"
    return "~", stack, f"migration {forecast.migration.name}", details
