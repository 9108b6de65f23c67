"""What lives here: each command of docs/operate/on-call.md answers, on a file and on a table.
What never does: what the commands show (the CLI's tests).
"""

import re
from pathlib import Path

import pytest

from support.integration.on_call import commands, prepare, prepare_file, questions, run
from support.integration.targets import Target
from zae_limiter import Limit, SyncRepository

COMMANDS = commands()
ANSWERS = {
    "why": "refused by acme-corp/rpm",
    "usage list --never": "LEVEL|Every limit",
    "usage list": "GMT|UTC|WINDOW",
    "audit list": "limits_set",
    "lift": "other limits until",
    "usage near --budgets": "There is no bucket with a budget",
    "usage near": "acme-corp",
    "usage top --by uncounted": "No usage by uncounted",
    "usage top": "key-1",
    "usage export": "entity",
    "doctor": "clock|table|file",
    "limits plan": "Plan: 1 to create",
    "entity tree": "key-1",
    "limits rollback": "No changes|Applied",
    "disable": "is disabled until",
    "entity list --buckets": "SHARDS",
    "entity list --tier": "There is no entity of tier gold",
    "switch": "Nothing is disabled|WHAT",
    "top": "acme-corp",
}
OF_A_STACK = {"usage cost": "cost|price", "limits diff --with": "->"}


def answer_of(command: str) -> str:
    done = run(command)
    assert done.exit_code == 0 or command == "doctor", (command, done.output, done.exception)
    return done.output


def test_the_page_has_a_command_for_each_question() -> None:
    assert len(questions()) == 23
    named = {" ".join(word for word in command.split()[:2] if word.isalpha()) for command in COMMANDS}
    assert len(COMMANDS) == 23
    assert all(any(command.startswith(name) for name in {*ANSWERS, *OF_A_STACK}) for command in COMMANDS), named


def test_each_command_answers_on_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZAEL_STORE", "sqlite:///limits.db")
    prepare_file()
    _answers({command: answer for command, answer in _pairs() if answer})


def _pairs() -> list[tuple[str, str | None]]:
    return [(each, next((ANSWERS[name] for name in ANSWERS if each.startswith(name)), None)) for each in COMMANDS]


def _answers(wanted: dict[str, str]) -> None:
    for command, answer in wanted.items():
        assert re.search(answer, answer_of(command)), command


@pytest.mark.needs("endpoint", "atomic")
def test_each_command_answers_on_a_table(target: Target, table_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZAEL_STACK", table_name)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", str(target.endpoint_url))
    repository = SyncRepository.builder().stack(table_name).create_table().build()
    repository.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 25)])
    prepare(repository)
    without_functions = ("usage list", "usage top", "usage export", "usage cost", "limits", "doctor", "audit")
    _answers({each: answer for each, answer in _pairs() if answer and not each.startswith(without_functions)})
