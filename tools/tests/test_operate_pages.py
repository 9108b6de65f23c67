"""What lives here: each alarm has a runbook at the address that it names, and the site lists the pages of docs/operate.
What never does: the commands of a page (test_pages.py).
"""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from website.alarms import EVERY_ALARM, PAGE, filled
from zae_limiter_cli.pages import DOCS as ADDRESS
from zae_limiter_cli.stack.template.alarms import runbook
from zae_limiter_cli.stack.template.build import plain

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
OPERATE = DOCS / "operate"
PAGES = sorted(OPERATE.rglob("*.md"))
RUNBOOKS = sorted((OPERATE / "runbooks").glob("*.md"))
QUESTIONS = ["What it means", "What to look at", "What to do", "When it is over"]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def alarms() -> dict[str, str]:
    """The description of each alarm of a template with all of them."""
    resources = plain("my-app", EVERY_ALARM)["Resources"]
    return {
        name: made["Properties"]["AlarmDescription"]
        for name, made in resources.items()
        if made["Type"] == "AWS::CloudWatch::Alarm"
    }


def test_every_alarm_has_its_runbook_and_every_runbook_its_alarm() -> None:
    in_checkout = {name: DOCS / runbook(name).removeprefix(f"{ADDRESS}/") for name in alarms()}
    assert set(in_checkout.values()) == set(RUNBOOKS)
    for name, description in alarms().items():
        assert in_checkout[name].read_text(encoding="utf-8").startswith(f"# {name}\n")
        assert description.endswith(f"What to do: {runbook(name)}")


def test_the_address_of_a_page_is_that_of_the_distribution() -> None:
    project = tomllib.loads((ROOT / "packages/zae-limiter-cli/pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["urls"]["Documentation"].replace("/tree/", "/blob/") == ADDRESS


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
