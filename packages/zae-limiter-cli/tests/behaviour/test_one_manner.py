"""Every command in one manner: the same options for one idea, JSON where something is shown, ways out of errors."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from zae_limiter_cli.commands.stack.options import NAMES
from zae_limiter_cli.help_page import RareOption
from zae_limiter_cli.main import main
from zae_limiter_cli.meant import GUESSED

SHORT = {
    "-n": "name",
    "-N": "namespace",
    "-r": "resource",
    "-e": "entity",
    "-o": "output",
    "-y": "yes",
    "-q": "quiet",
    "-f": "file",
    "-l": "limit",
    "-m": "metadata",
    "-t": "tokens",
    "-c": "consume",
    "-d": "detach",
}
AS_TAIL_HAS_IT = {("local logs", "-f")}
WITHOUT_JSON = {
    "demo": "draws a show",
    "limits cfn-template": "prints a template, which is a document",
    "limits export": "prints a manifest, which is a document",
    "limits fmt": "writes files, and prints their names",
    "limits schema": "prints JSON anyway",
    "cfn-template": "prints a template, which is a document",
    "lambda-export": "writes a file",
    "console": "runs",
    "local up": "runs",
    "local down": "shows nothing",
    "local rehearse": "shows lines until it is over",
    "local logs": "prints lines as they come",
    "local env": "prints a script, by --format",
}

OTHER_VALUES = {  # where an option takes another kind of value than elsewhere
    ("copy", "--namespace"): "takes several",
    ("copy", "--to"): "is the other end of --from",
    ("demo", "--file"): "makes a database",
    ("lift", "--by"): "is a factor",
    ("limits cfn-template", "--out"): "is a folder",
    ("limits diff", "--entity"): "filters what is shown, by several",
    ("limits plan", "--entity"): "filters what is shown, by several",
    ("top", "--by"): "is one of few columns",
    ("usage cost", "--by"): "is one of few parts",
}


def commands(
    command: click.Command = main, context: click.Context | None = None, *path: str
) -> Iterator[tuple[str, click.Command]]:
    """Every command with its path, groups apart."""
    context = context or click.Context(main)
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        yield from commands(child, click.Context(child, parent=context, info_name=name), *path, name)


ALL = dict(commands())
every_command = pytest.mark.parametrize("path", ALL)


def options_of(path: str) -> list[click.Option]:
    return [each for each in ALL[path].params if isinstance(each, click.Option) and not each.hidden]


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args)


@every_command
def test_a_short_name_has_one_meaning(path: str) -> None:
    for option in options_of(path):
        for name in option.opts:
            if len(name) == 2 and (path, name) not in AS_TAIL_HAS_IT:
                assert f"--{SHORT[name]}" in option.opts, (path, name)


@every_command
def test_an_idea_with_a_short_name_has_it_everywhere(path: str) -> None:
    short = {f"--{word}": name for name, word in SHORT.items()}
    for option in options_of(path):
        if option.opts[0] in short:
            assert short[option.opts[0]] in option.opts, (path, option.opts)


def test_an_option_of_one_name_takes_one_kind_of_value_everywhere() -> None:
    kinds: dict[str, set[tuple[str, bool, bool]]] = {}
    for path in ALL:
        for each in options_of(path):
            kind = ("choice" if isinstance(each.type, click.Choice) else each.type.name, each.multiple, each.is_flag)
            if (path, each.opts[0]) not in OTHER_VALUES:
                kinds.setdefault(each.opts[0], set()).add(kind)
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}


OF_CONNECTION = {"--name", "--region", "--profile", "--endpoint-url", "--store", "--timeout"}


def help_page(path: str, option: str = "--help") -> tuple[set[str], set[str]]:
    """The options in a help page as users get it: those of the command, and those under the connection's heading."""
    options = run(*path.split(), option).stdout.partition("\nOptions:\n")[2]
    parts = options.partition("\nConnection options:\n")
    own, _, of_connection = (set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", part, re.MULTILINE)) for part in parts)
    return own, of_connection


@pytest.mark.parametrize("path", [*ALL, "limits", "entity"])
def test_options_of_the_connection_stand_last_in_help(path: str) -> None:
    own, of_connection = help_page(path)
    assert of_connection <= OF_CONNECTION
    assert not own & OF_CONNECTION
    if path in ALL:
        names = {each.opts[0] for each in options_of(path) if not isinstance(each, RareOption)}
        assert own | of_connection == names | {"--help"}


@pytest.mark.parametrize("path", ["deploy", "cfn-template"])
def test_a_stack_has_a_dozen_options_in_help(path: str) -> None:
    shown = [each for each in options_of(path) if not isinstance(each, RareOption)]
    assert len([each for each in shown if each.name in NAMES or each.opts[0] in {"--production", "--tag"}]) <= 12
    assert {each.opts[0] for each in options_of(path)} <= set.union(*help_page(path, "--help-all"))


ONLY_READS = {  # what they write is an answer, or a file that the command line names
    *("demo", "why", "top", "console", "doctor", "status", "list", "cfn-template"),
    *(f"limits {each}" for each in ("plan", "diff", "validate", "schema", "cfn-template", "status", "shares")),
    *("usage list", "usage export", "usage cost", "usage near", "usage top", "audit list"),
    *("system show", "resource show", "tier show"),
    *("entity show", "entity list", "entity tree", "namespace list", "delegation list"),
    *("local status", "local logs", "local env"),
}


@every_command
def test_each_command_that_writes_takes_yes(path: str) -> None:
    assert any("--yes" in each.opts for each in options_of(path)) == (path not in ONLY_READS)
    assert ALL.keys() >= ONLY_READS


@every_command
def test_what_shows_something_shows_it_as_json_too(path: str) -> None:
    output = next((each for each in options_of(path) if "--output" in each.opts), None)
    if path in WITHOUT_JSON:
        assert output is None, f"{path} has JSON now: take it off the list"
        return
    assert output is not None, path
    assert isinstance(output.type, click.Choice)
    assert "json" in output.type.choices


@every_command
def test_an_entity_or_resource_in_question_has_the_same_name_everywhere(path: str) -> None:
    names = {each.name for each in ALL[path].params if isinstance(each, click.Argument)}
    assert not names & {"entity", "id", "user", "key"}, "an argument that is an entity is ENTITY_ID"
    assert ("entity_id" in names) + any("--entity" in each.opts for each in options_of(path)) <= 1


@every_command
def test_an_unknown_option_and_a_wrong_format_have_a_way_out(path: str) -> None:
    done = run(*path.split(), "--no-such-option")
    (line,) = done.stderr.splitlines()
    assert (done.exit_code, line.endswith(f"See `main {path} --help`.")) == (1, True)
    if path not in WITHOUT_JSON:
        (line,) = run(*path.split(), "-o", "jsn").stderr.splitlines()
        assert "'json'" in line


def _asks_a_namespace_of_a_table(path: str) -> bool:
    takes_one = any("--namespace" in each.opts for each in ALL[path].params)
    return takes_one and not path.startswith(("limits", "copy")) and path != "usage cost"  # which is for stacks


@pytest.mark.parametrize("path", [path for path in ALL if _asks_a_namespace_of_a_table(path)])
def test_a_command_in_a_namespace_that_is_not_there_says_how_to_find_one(path: str, tmp_path: Path) -> None:
    """Every command that takes a namespace, on a file that has another one."""
    command, url = ALL[path], f"sqlite:///{tmp_path / 'limits.db'}"
    assert run("namespace", "register", "there", "--store", url).exit_code == 0
    needed = [word for each in command.params if each.required for word in _given(each)]
    extra = {"usage list": ["-e", "e"], "bucket invalidate": ["--system", "-y"]}
    extra |= {
        "entity update": ["--entity-name", "x"],
        "system set-defaults": ["-l", "rpm:1"],
        "resource set-defaults": ["-l", "rpm:1"],
        "lift": ["-r", "r", "--by", "2"],
        "disable": ["e", "-y"],
        "enable": ["e"],
        "switch": ["e"],
    }
    yes = ["-y"] if any("--yes" in each.opts for each in command.params) and path not in extra else []
    done = run(*path.split(), *needed, *extra.get(path, []), *yes, "-N", "missing", "--store", url)
    assert done.exit_code == 1, done.output
    told = "Error: there is no namespace 'missing': `zae-limiter namespace list` lists the namespaces\n"
    assert done.stderr == told


def _given(parameter: click.Parameter) -> list[str]:
    values = {"limits": "rpm:1", "tokens": "rpm:1", "month": "2026-11", "resource": "r"}
    value = values.get(str(parameter.name), "x")
    return [value] if isinstance(parameter, click.Argument) else [parameter.opts[0], value]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["entty", "list"], "`main entity`"),
        (["entity", "lst"], "`main entity list`"),
        (["apply"], "`main limits apply`"),
        (["limits", "top"], "`main top` or `main usage top`"),
        (["doktor"], "`main doctor`"),
        (["show"], "`main system show` or `main resource show` or `main tier show`"),
        (["entity", "ls"], "`main entity list`"),
        (["rm"], "`main entity delete` or `main namespace delete` or `main delete`"),
        (["entity", "remove"], "`main entity delete`"),
        (["entity", "set-parent", "a", "b"], "`main entity update ID --parent PARENT`"),
        (["bucket", "top-up", "a"], "`main bucket credit ID --resource NAME --tokens LIMIT:AMOUNT`"),
        (["entity", "enable", "a"], "`main enable`"),
        (["help"], "`main --help`"),
        (["entity", "help"], "`main entity --help`"),
    ],
    ids=str,
)
def test_a_mistyped_command_gets_the_one_that_may_be_meant(words: list[str], meant: str) -> None:
    done = run(*words)
    assert (done.exit_code, f" Did you mean {meant}? See `main" in done.stderr) == (1, True)


@pytest.mark.parametrize("line", [line for line in GUESSED.values() if line != "--help"])
def test_a_command_line_for_a_guess_is_one(line: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'limits.db'}"
    assert run("namespace", "register", "default", "--store", url).exit_code == 0
    for entity in ("ID", "PARENT"):
        assert run("entity", "create", entity, "--store", url).exit_code == 0
    done = run(*line.replace("AMOUNT", "1").split(), "--store", url)
    assert "No such" not in done.stderr
    assert done.exit_code == (1 if "credit" in line else 0), done.stderr  # there is no bucket yet


@pytest.mark.parametrize("tried", ["--auto-approve", "-auto-approve"])
def test_the_option_of_other_tools_points_to_yes(tried: str) -> None:
    told = f"Error: No such option '{tried}'. Did you mean `--yes`? See `main limits apply --help`.\n"
    assert run("limits", "apply", "limits.yaml", tried).stderr == told
    assert "--yes" not in run("limits", "plan", "limits.yaml", tried).stderr


def test_nothing_is_guessed_for_a_word_that_is_like_none() -> None:
    assert run("xyzzy").stderr == "Error: No such command 'xyzzy'. See `main --help`.\n"


def test_a_mistyped_option_gets_the_one_that_may_be_meant() -> None:
    assert "--resource" in run("entity", "show", "e", "--resuorce", "r").stderr
