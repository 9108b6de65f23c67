"""The reference has all of the public API; `just docs` compares the built pages with what is expected here."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import zae_limiter
import zae_limiter_manifest
from website.commands import commands_pages
from website.coverage import expected, lacking, members
from website.manifest import manifest_page
from website.reference import file_of, public_names, sections
from zae_limiter import exceptions, maintenance, stores, values
from zae_limiter_cli.main import main
from zae_limiter_manifest import json_schema

ROOT = Path(__file__).parents[2]
EXPECTED = expected()
INTERNAL = {  # modules of the integrations that only the others import
    "zae_limiter.integrations",
    *(
        f"zae_limiter.integrations.{name}"
        for name in (
            "answers",
            "arguments",
            "endings",
            "heard",
            "inbox",
            "leases",
            "litellm_routing",
            "media",
            "litellm_stream",
            "retries",
            "settlement",
            "tool_calls",
        )
    ),
}


def _pages() -> dict[str, str]:
    return {page: "".join(f'<h3 id="{path}">' for path in paths) for page, paths in EXPECTED.items()}


def test_a_complete_reference_lacks_nothing() -> None:
    assert lacking(_pages()) == []


@pytest.mark.parametrize(
    ("page", "path"),
    [
        ("limit", "zae_limiter.Limit"),
        ("limit", "zae_limiter.Limit.burst"),  # a field
        ("limiter", "zae_limiter.RateLimiter.acquire"),
        ("values", "zae_limiter.values.AuditPage.next"),  # of a NamedTuple
        ("exceptions", "zae_limiter.exceptions.InvalidNameError"),
        ("repository-limits", "zae_limiter.Repository.set_limits"),
        ("limiter", "zae_limiter.SyncRateLimiter"),  # said once
        ("maintenance-names", "zae_limiter.maintenance.open_table"),  # in a table
        ("integrations-models", "zae_limiter.integrations.langchain.RequestLimiter"),  # its library is not here
        ("manifest-package", "zae_limiter_manifest.Plan.to_dict"),
    ],
)
def test_a_name_that_is_removed_is_missed(page: str, path: str) -> None:
    pages = _pages()
    pages[page] = pages[page].replace(f'id="{path}"', "")
    assert lacking(pages) == [f"reference/{page} lacks {path}"]


@pytest.mark.parametrize(
    "module",
    [zae_limiter, exceptions, values, stores, maintenance, zae_limiter_manifest],
    ids=lambda module: module.__name__,
)
def test_every_public_name_is_on_a_page(module: Any) -> None:
    shown = {path for paths in EXPECTED.values() for path in paths}
    top = {f"zae_limiter.{name}" for name in zae_limiter.__all__}
    names = {f"{module.__name__}.{name}" for name in module.__all__}
    if module in (exceptions, values, stores):
        names = {path for path in names if f"zae_limiter.{path.rpartition('.')[2]}" not in top}
    assert names - shown == set()


def test_every_member_of_the_repository_is_on_one_page() -> None:
    pages = [path for paths in EXPECTED.values() for path in paths if path.startswith("zae_limiter.Repository.")]
    assert len(pages) == len({*pages})
    found = {path.rpartition(".")[2] for path in pages}
    assert members("zae_limiter", "Repository") == found


def test_every_module_of_integrations_observers_and_testing_has_a_page() -> None:
    shown = {module for section in sections().values() for module in section.modules}
    found = {
        f"zae_limiter.{folder}" + ("" if path.stem == "__init__" else f".{path.stem}")
        for folder in ("integrations", "observers", "testing")
        for path in file_of(f"zae_limiter.{folder}").parent.glob("*.py")
    }
    assert found - shown == INTERNAL


def test_what_the_docs_import_from_a_module_of_the_reference_is_there() -> None:
    shown = {module: public_names(module) for section in sections().values() for module in section.modules}
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    imports = [
        line
        for page in pages
        for line in re.findall(r"^ *from (zae_limiter\S*) import ([\w, ]+)$", page.read_text(), re.MULTILINE)
    ]
    names = {(module, name.strip()) for module, names in imports if module in shown for name in names.split(",")}
    assert {(module, name) for module, name in names if name not in shown[module]} == set()


def test_members_are_methods_properties_and_fields_of_bases_too() -> None:
    assert {"capacity", "per_minute", "blocks"} <= members("zae_limiter", "Limit")
    assert {"events", "next"} <= members("zae_limiter.values", "AuditPage")
    assert "handle" not in members("zae_limiter.integrations.langchain", "RequestLimiter")
    assert members("zae_limiter.http", "headers") == set()


def _commands(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), name)
            if found is not None and not found.hidden:
                yield from _commands(f"{path} {name}", found)


COMMANDS = dict(_commands("zae-limiter", main))
_SECTION = re.compile(r"^#+ (zae-limiter.*)\n((?:(?!^#+ zae-limiter).*\n)*)", re.MULTILINE)
SECTIONS_OF_COMMANDS = dict(_SECTION.findall("\n".join(commands_pages().values())))


@pytest.mark.parametrize("path", COMMANDS)
def test_a_command_is_there_with_each_option_and_argument(path: str) -> None:
    text = SECTIONS_OF_COMMANDS[path]
    shown = [parameter for parameter in COMMANDS[path].params if not getattr(parameter, "hidden", False)]
    options = [name for parameter in shown for name in parameter.opts if isinstance(parameter, click.Option)]
    arguments = [str(parameter.human_readable_name) for parameter in shown if isinstance(parameter, click.Argument)]
    assert [name for name in [*options, *arguments] if name not in text and name not in {"--debug", "--help"}] == []


def _fields(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, part in {"manifest": schema, **schema["$defs"]}.items():
        yield from ((name, field) for field in part.get("properties", ()))


def test_every_field_of_the_manifest_is_there_with_what_it_is() -> None:
    sections = dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n)*)", manifest_page(), re.MULTILINE))
    rows = {
        (name, field): re.findall(rf"^\| `{re.escape(field)}` \|.*\| (.*) \|$", sections[name], re.MULTILINE)
        for name, field in _fields(json_schema())
    }
    assert len(rows) > 10
    assert [each for each, text in rows.items() if not text or not text[0].strip()] == []
