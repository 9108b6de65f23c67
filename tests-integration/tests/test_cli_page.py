"""What lives here: the commands that docs/cli.md shows, run in their order on every store, and its lists of commands.
What never does: the commands of `limits` on a stack (test_operators_page); what a command does (the CLI).
"""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from support.integration.targets import Target
from zae_limiter import SyncRateLimiter, SyncRepository
from zae_limiter_cli.main import main

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
FILE = re.compile(r"^```yaml (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```sh\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
LIST = re.compile(r"<!-- commands: (\w+) -->\n(.*?)<!-- end -->", re.DOTALL)
EXAMPLE_ID = "dTq0yW5cX8A"
TOLD_ONCE = {
    "name",
    "region",
    "profile",
    "endpoint_url",
    "store",
    "namespace",
    "output",
    "principal",
    "yes",
    "debug",
    "help",
}
BY_HAND = ("system", "resource", "entity", "bucket", "usage", "namespace")


def run(line: str, namespace_id: str = "") -> str:
    """What a command writes; a comment behind it that ends with a full stop says how that ends."""
    command, _, comment = line.partition("#")
    program, *words = shlex.split(command.replace(EXAMPLE_ID, f"-- {namespace_id}"))
    assert program == "zae-limiter"
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, done.stderr) == (0, ""), (line, done.output, done.exception)
    if comment.endswith("."):
        assert done.stdout.endswith(f"{comment.strip()}\n")
    return done.stdout


@pytest.mark.needs("endpoint")
@pytest.mark.usefixtures("folder")
def test_the_commands_do_what_the_page_says(target: Target, table_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZAEL_STACK", table_name)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", str(target.endpoint_url))
    with SyncRepository.builder().stack(table_name).create_table().build() as repository:
        follow_the_page(repository)


@pytest.mark.usefixtures("folder")
def test_the_commands_do_the_same_on_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZAEL_STORE", "sqlite:///page.db")
    with SyncRepository.open() as repository:
        follow_the_page(repository)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory, with the files of the page."""
    for name, content in FILE.findall(PAGE):
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)


def follow_the_page(repository: SyncRepository) -> None:
    told = ""
    for commands, output in BLOCK.findall(PAGE):
        if "bucket show" in commands:
            use_up(repository)
        for line in commands.splitlines():
            found = re.search(r"recover (?:-- )?(\S+)`", told)
            last = run(line, found[1] if found else "")
            told += last
        assert output in {"", last}
    bucket = repository.get_bucket("customer-7", "gpt-4")
    assert bucket is not None
    assert bucket.available == {"rpm": 60, "tpm": 5000}
    assert [each.name for each in repository.list_namespaces()] == ["default"]
    assert repository.list_orphan_namespaces() == []


def use_up(repository: SyncRepository) -> None:
    repository.invalidate_config_cache()
    with SyncRateLimiter(repository).acquire("customer-7", "gpt-4", {"rpm": 60, "tpm": 5000}):
        pass


@pytest.mark.parametrize("name", [*BY_HAND, "delegation"])
def test_every_command_is_listed_with_its_options(name: str) -> None:
    assert dict(LIST.findall(PAGE))[name] == commands_of(name)


@pytest.mark.parametrize(
    ("block", "names"), [("why", ["why"]), ("on_call", ["block", "unblock", "lift"]), ("doctor", ["doctor"])]
)
def test_the_commands_for_incidents_are_listed_with_their_options(block: str, names: list[str]) -> None:
    commands = [main.get_command(click.Context(main), name) for name in names]
    assert dict(LIST.findall(PAGE))[block] == _rows(commands)


def commands_of(name: str) -> str:
    """A row for each command of a group: its arguments, the options of its own, and what it is for."""
    context = click.Context(main)
    group = main.get_command(context, name)
    assert isinstance(group, click.Group)
    return _rows([group.get_command(context, each) for each in group.list_commands(context)], name)


def _rows(commands: Sequence[click.Command | None], *group: str) -> str:
    rows = [f"| `{' '.join((*group, *_words(each)))}` | {each.get_short_help_str(200)} |" for each in commands if each]
    return "\n".join(["| command | |", "|---|---|", *rows, ""])


def _words(command: click.Command) -> list[str]:
    context = click.Context(command)
    own = [each for each in command.params if isinstance(each, click.Argument) or each.name not in TOLD_ONCE]
    return [str(command.name), *(_word(each, context).replace("|", "\\|") for each in own)]


def _word(parameter: click.Parameter, context: click.Context) -> str:
    if isinstance(parameter, click.Argument):
        return parameter.make_metavar(context)
    name = "/".join([min(parameter.opts, key=len), *parameter.secondary_opts])
    flag = isinstance(parameter, click.Option) and parameter.is_flag
    word = name if flag else f"{name} {parameter.make_metavar(context)}"
    return word if parameter.required else f"[{word}]"
