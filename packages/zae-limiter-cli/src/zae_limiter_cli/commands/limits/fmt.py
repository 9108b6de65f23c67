"""`zae-limiter limits fmt`."""

from pathlib import Path

import click

from ...connection import Connection
from ...options import connected, yes_accepted
from .options import files_option


@click.command(short_help="Put files in order, comments and all.")
@connected
@files_option(required=True)
@click.option("--check", is_flag=True, help="Write nothing; list the files out of order, and exit with code 2.")
@yes_accepted
def fmt(*, connection: "Connection", files: tuple[str, ...], check: bool) -> None:  # noqa: ARG001  as of all others
    """Put manifests in order: known keys as `export` has them, names by the alphabet, each with its comments.

    Lines are moved and never changed, but for blank ones. A manifest with a zae-limiter.schema.json in its folder, or
    above, gets a first line that names it to editors, unless its head has one. A file is written as a whole, or not at
    all. What comes through standard input is printed.
    """
    from zae_limiter_manifest import order

    from ...limits.editor import schema_near, with_schema
    from ...limits.files import STANDARD_INPUT, read_files
    from ...results import write_file

    def put_in_order(content: bytes, name: str) -> str:
        text = order(content, name)
        schema = None if files == (STANDARD_INPUT,) else schema_near(Path(name))
        return text if schema is None else with_schema(text, Path(name), schema)

    # all of them, before the first is written
    ordered = [(name, content, put_in_order(content, name)) for name, content in read_files(files)]
    if files == (STANDARD_INPUT,) and not check:
        click.echo(ordered[0][2], nl=False)
        return
    changed = [(name, after) for name, before, after in ordered if before != after.encode()]
    for name, after in changed:
        if not check:
            write_file(Path(name), after, mode=Path(name).stat().st_mode & 0o777)
        click.echo(name)
    if check and changed:
        raise click.exceptions.Exit(2)
