"""What lives here: the pages of docs/operate name alarms, commands and calls of AWS that there are.
What never does: what a command does (tests-integration/tests/test_deploy_page.py, test_operators_page.py).
"""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import botocore.session
import click
import pytest
import yaml
from botocore import xform_name
from botocore.model import ServiceModel

from website.alarms import EVERY_ALARM, PAGE, filled
from zae_limiter_cli.main import main
from zae_limiter_cli.stack.template.alarms import runbook
from zae_limiter_cli.stack.template.build import plain

ROOT = Path(__file__).parents[2]
OPERATE = ROOT / "docs" / "operate"
PAGES = sorted(OPERATE.rglob("*.md"))
RUNBOOKS = sorted((OPERATE / "runbooks").glob("*.md"))
QUESTIONS = ["What it means", "What to look at", "What to do", "How to tell that it is over"]
BLOCK = re.compile(r"^```(?:sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:zae-limiter|aws) [^`]+)`")
OF_THE_COMMAND_LINE = {("cloudformation", "deploy"), ("logs", "tail")}  # of the aws command, of no service
OF_EVERY_CALL = {"query", "output", "region"}


def alarms() -> dict[str, str]:
    """The description of each alarm of a template with all of them."""
    resources = plain("my-app", EVERY_ALARM)["Resources"]
    return {
        name: made["Properties"]["AlarmDescription"]
        for name, made in resources.items()
        if made["Type"] == "AWS::CloudWatch::Alarm"
    }


def test_every_alarm_has_its_runbook_and_every_runbook_its_alarm() -> None:
    assert {runbook(name) for name in alarms()} == {str(page.relative_to(ROOT)) for page in RUNBOOKS}
    for name, description in alarms().items():
        assert (ROOT / runbook(name)).read_text(encoding="utf-8").startswith(f"# {name}\n")
        assert description.endswith(f"What to do: {runbook(name)}")


@pytest.mark.parametrize("page", RUNBOOKS, ids=lambda page: page.stem)
def test_a_runbook_answers_the_four_questions_and_has_commands_to_look_with(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == QUESTIONS
    looking = text.partition("## What to look at")[2].partition("## What to do")[0]
    assert any(line.startswith("zae-limiter ") for block in BLOCK.findall(looking) for line in block.splitlines())


def test_the_table_of_alarms_is_what_the_template_has() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page) == page


def test_the_site_lists_every_page_on_operating() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"operate/\S+\.md", text)
    assert sorted(listed) == [str(page.relative_to(ROOT / "docs")) for page in PAGES]
    assert yaml.safe_load(text)


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each command of a page: those of its blocks, and those in its text."""
    text = page.read_text(encoding="utf-8")
    for block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] in {"zae-limiter", "aws"}:
                yield before_redirection(words)
    for line in INLINE.findall(BLOCK.sub("", text)):
        yield before_redirection(shlex.split(line))


def before_redirection(words: list[str]) -> list[str]:
    return words[: words.index(">")] if ">" in words else words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_is_one_with_its_options(page: Path) -> None:
    for words in commands(page):
        if words[0] == "zae-limiter":
            parse(words[1:])
        elif words[2] == "wait":
            assert xform_name(words[3]) in {xform_name(name, "-") for name in waiters(words[1])}, words
        elif (words[1], words[2]) not in OF_THE_COMMAND_LINE:
            given = {word.removeprefix("--").partition("=")[0] for word in words[3:] if word.startswith("--")}
            assert given - OF_EVERY_CALL <= options_of(words[1], words[2]), words


def parse(words: list[str]) -> None:
    """Raise what the command line would say to these words; nothing is carried out."""
    command: click.Command = main
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, words
        command, words = found, words[1:]
    if not isinstance(command, click.Group):
        command.make_context("command", list(words))


@cache
def service(name: str) -> ServiceModel:
    return botocore.session.get_session().get_service_model(name)


@cache
def waiters(name: str) -> list[str]:
    return list(botocore.session.get_session().get_waiter_model(name).waiter_names)


def options_of(service_name: str, operation: str) -> set[str]:
    """The options of a call, as the aws command spells them. Raises for a call that there is not."""
    names = {xform_name(name, "-"): name for name in service(service_name).operation_names}
    members = service(service_name).operation_model(names[operation]).input_shape.members
    return {xform_name(member, "-") for member in members} | {f"no-{xform_name(member, '-')}" for member in members}


@pytest.mark.parametrize(
    "line", ["deploy --no-such-option", "limits applied", "limits unlock", "deploy --batch-size x"]
)
def test_a_command_that_is_none_would_be_found(line: str) -> None:
    with pytest.raises((click.UsageError, AssertionError)):
        parse(line.split())
