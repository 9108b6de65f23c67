"""What lives here: the commands of docs/operators.md, run in their order; its costs; the options in docs/cli.md.
What never does: what a command does in detail (the CLI's own tests).
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from support.cli.limits_stack import Stack, serving
from support.integration.provisioner_costs import table
from zae_limiter_cli import confirmation
from zae_limiter_cli.commands.limits.group import limits
from zae_limiter_cli.main import main
from zae_limiter_manifest import load
from zae_limiter_provisioner import handler

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "operators.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^```yaml (limits/\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WORKFLOW = re.compile(r"^```yaml\n(# .github.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    with serving(tmp_path) as stack:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(confirmation, "can_ask", lambda: True)
        monkeypatch.setattr(handler, "table_of_environment", stack.world.table)
        monkeypatch.setattr(handler, "log_as_json", lambda *_: None)
        yield stack


def test_the_commands_do_what_they_say(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("limits").mkdir()
    for name, text in FILE.findall(PAGE):
        Path(name).write_text(text, encoding="utf-8")
    told = []
    for line in "".join(BLOCK.findall(PAGE)).splitlines():
        command, _, comment = line.partition("#")
        words = shlex.split(command)
        if words[0] == "export":
            monkeypatch.setenv(*words[1].split("=", 1))
            continue
        done = CliRunner().invoke(main, [words[1], "--endpoint-url", stack.url, *words[2:]], input="y\n")
        assert done.exit_code == 0, (line, done.output)
        if comment.strip().endswith("."):
            assert done.stdout.endswith(f"{comment.strip()}\n")
        told.append(words[2])
    assert {*told} == {"schema", "validate", "plan", "apply", "diff", "export", "state", "cfn-template"}
    assert Path("templates/tenant-alpha.template.yaml").exists()
    assert stack.world.live() == load(Path("limits/tenant-alpha.yaml").read_text())


def test_the_workflow_is_yaml_and_its_commands_are_those_of_the_page() -> None:
    (text,) = WORKFLOW.findall(PAGE)
    steps = yaml.safe_load(text)["jobs"]["limits"]["steps"]
    ran = " ".join(step.get("run", "") for step in steps)
    for command in (
        "plan -f limits/ --output markdown",
        "apply -f limits/ --lock-timeout 300 --yes",
        "diff -f limits/ --exit-code",
    ):
        assert f"zae-limiter limits {command}" in ran
        assert f"zae-limiter limits {command}" in "".join(BLOCK.findall(PAGE))


def between(page: str, name: str) -> str:
    (found,) = re.findall(rf"<!-- {name} -->\n(.*?)<!-- end -->", page, re.DOTALL)
    return str(found).strip()


def test_the_costs_are_what_is_counted() -> None:
    assert between(PAGE, "costs: provisioner") == table()


def options_of(name: str) -> str:
    """A row for each option of a command that it does not share with all."""
    context = click.Context(limits)
    command = limits.get_command(context, name)
    assert command
    shared = {option for parameter in limits.params for option in parameter.opts}
    rows = [_row(each, context) for each in command.params if not shared & {*each.opts}]
    return "\n".join(["| option | |", "|---|---|", *rows]) if rows else "No options but those."


def _row(parameter: click.Parameter, context: click.Context) -> str:
    if isinstance(parameter, click.Option):
        names, told = parameter.get_help_record(context) or ("", "")
        return f"| `{names}` | {told} |".replace("text|json", "text\\|json").replace("json|markdown", "json\\|markdown")
    return f"| `{parameter.make_metavar(context)}` | see above |"


@pytest.mark.parametrize("name", limits.list_commands(click.Context(limits)))
def test_every_option_of_a_command_is_told(name: str) -> None:
    assert between((DOCS / "cli.md").read_text(encoding="utf-8"), f"options: {name}") == options_of(name)
