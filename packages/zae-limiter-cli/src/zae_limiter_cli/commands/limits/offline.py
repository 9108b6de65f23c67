"""`zae-limiter limits validate`, `schema` and `cfn-template`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...columns import counted
from ...errors import CommandError
from ...options import DocumentForm, connected, connected_to_stack
from ...terminal import Terminal
from .options import files_option, form_option, share_option, take_over_option

if TYPE_CHECKING:
    from ...connection import Connection


@click.command(short_help="Check files, without a request.")
@connected
@files_option(required=True)
@form_option("text", "json")
@click.option(
    "--bounds",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the bounds of a delegation, which the files have to keep, too.",
)
def validate(
    *,
    connection: "Connection",  # noqa: ARG001  as of all others
    files: tuple[str, ...],
    form: DocumentForm,
    bounds: Path | None,
) -> None:
    """Check manifests, and report every mistake with its file, line and column.

    It warns of what may not be meant, such as a limit above its parent's, each by a name; `ignore: [NAME, ...]` in the
    file silences it.
    """
    from zae_limiter_manifest import ManifestError
    from zae_limiter_manifest.render import as_json

    from ...limits.files import load_with_their_warnings, refuse_beyond_bounds
    from ...limits.showing import say_warnings

    try:
        manifests, warnings = load_with_their_warnings(files)
        if bounds is not None:
            refuse_beyond_bounds(files, bounds)
    except ManifestError as error:
        if form == "text":
            raise
        click.echo(as_json.render_problems(error.problems), nl=False)
        raise click.exceptions.Exit(1) from error
    if form == "json":
        click.echo(as_json.render_problems((), warnings), nl=False)
        return
    for manifest in manifests:
        items = counted(len(manifest.managed_set()), "item")
        valid = f"{manifest.namespace}: valid, {items}, manifest hash {manifest.canonical_hash()}"
        click.echo(Terminal.of_stdout().fitted(valid))
    say_warnings(warnings)


@click.command(short_help="Print the JSON Schema of a manifest, for editors.")
@connected
def schema(*, connection: "Connection") -> None:  # noqa: ARG001  as of all others
    """Print the JSON Schema of a manifest, with which editors complete and check manifests.

    Kept as zae-limiter.schema.json beside the manifests, or above them, it is what `limits fmt` names in their first
    line; `limits export --out FILE` writes both.
    """
    from ...limits.editor import schema_text

    click.echo(schema_text(), nl=False)


@click.command("cfn-template", short_help="Print a CloudFormation template with the limits.")
@connected_to_stack
@files_option(required=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory for the templates, one for each namespace.",
)
@click.option("--delegated", is_flag=True, help="Invoke the alias of the namespace, of `zae-limiter delegation add`.")
@take_over_option
@share_option
def cfn_template(
    *,
    connection: "Connection",
    files: tuple[str, ...],
    out: Path | None,
    delegated: bool,
    take_over: bool,
    share: str | None,
) -> None:
    """Print the template of a stack that holds a namespace's limits; --name is the stack of the limiter.

    With --share it has a parameter, Share, whose default this is: so one template serves all regions.
    """
    from zae_limiter_manifest import StackProperties, render_template

    from ...limits.asking import as_command_errors
    from ...limits.files import load_with_their_warnings
    from ...limits.showing import say_warnings
    from ...results import write_file

    manifests, warnings = load_with_their_warnings(files)
    say_warnings(warnings)
    if out is None and len(manifests) != 1:
        raise CommandError(f"there is one template for each of the {len(manifests)} namespaces: pass --out DIR")
    for manifest in manifests:
        with as_command_errors():
            properties = StackProperties(manifest, take_over=take_over, share=share)
        try:
            template = render_template(properties, connection.name, delegated=delegated)
        except ValueError as error:
            option = "--delegated" if "delegated" in str(error) else "--name"
            raise CommandError(f"{option}: {error}") from error
        if out is None:
            click.echo(template, nl=False)
        else:
            out.mkdir(parents=True, exist_ok=True)
            write_file(out / f"{manifest.namespace}.template.yaml", template)
            click.echo(str(out / f"{manifest.namespace}.template.yaml"))
