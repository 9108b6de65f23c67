"""What a shell gets when TAB is pressed, as click's own script asks for it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zae_limiter import Limit, Options, SyncRepository
from zae_limiter.maintenance import open_registered
from zae_limiter.stores import Meter, SyncMemoryStore
from zae_limiter_cli import completion

COMMAND = (
    "from zae_limiter_cli import completion; from zae_limiter_cli.main import main; "
    "completion.SECONDS = {seconds}; main(prog_name='zae-limiter')"
)
SILENT = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A file with entities and resources, by its URL."""
    url = f"sqlite:///{tmp_path / 'limits.db'}"
    with SyncRepository.open(store=url) as repository:
        for entity in ("acme", "acme/a", "beta"):
            repository.create_entity(entity)
        repository.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 1)])
        repository.set_limits("own", [Limit.per_minute("rpm", 1)], "gpt-5")
        repository.set_tier_limits("gold", [Limit.per_minute("rpm", 1)])
        repository.register_namespace("tenant-1")
    return url


def complete(words: str, shell: str = "bash", seconds: float = 30, **environment: str) -> list[str]:
    """The lines that the command answers to a shell's question about the last of these words."""
    asked = subprocess.run(
        [sys.executable, "-c", COMMAND.format(seconds=seconds)],
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "ZAEL_"))},
            **environment,
            "_ZAE_LIMITER_COMPLETE": f"{shell}_complete",
            "COMP_WORDS": words.rsplit(" ", 1)[0] if shell == "fish" else words,
            "COMP_CWORD": words.rsplit(" ", 1)[1] if shell == "fish" else str(words.count(" ")),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.stderr == ""
    return asked.stdout.split()


@pytest.mark.long(keep=3)
@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("zae-limiter entity show a", ["acme", "acme/a"]),
        ("zae-limiter entity tree ", ["acme", "acme/a", "beta", "own"]),
        ("zae-limiter why acme -r ", ["gpt-4", "gpt-5"]),
        ("zae-limiter resource show gpt-4", ["gpt-4"]),
        ("zae-limiter usage list -e b", ["beta"]),
        ("zae-limiter entity create x --parent ac", ["acme", "acme/a"]),
        ("zae-limiter entity show -N t", ["tenant-1"]),
        ("zae-limiter namespace delete t", ["tenant-1"]),
        ("zae-limiter delegation list --policy d", ["default"]),
        ("zae-limiter entity create x --tier g", ["gold"]),
        ("zae-limiter tier show ", ["gold"]),
        ("zae-limiter limits plan -f limits.yaml -e b", ["beta"]),
        ("zae-limiter entity list --begins-with a", ["acme", "acme/a"]),
        ("zae-limiter entity show -N tenant-1 a", []),
        ("zae-limiter entity show -N missing a", []),
        ("zae-limiter enti", ["entity"]),
        ("zae-limiter usage top --by", ["--by"]),
    ],
)
def test_names_are_completed_from_the_table(file: str, words: str, names: list[str]) -> None:
    assert complete(words, ZAEL_STORE=file) == [f"plain,{name}" for name in names]


@pytest.mark.parametrize("name", ["entity_id", "resource", "tier", "namespace", "namespace_id"])
def test_a_completion_sends_few_queries_and_writes_nothing(name: str) -> None:
    """However many entities there are: a query for each resource on which entities have limits, and three."""
    meter = Meter()
    with open_registered(SyncMemoryStore(meter=meter), Options(namespace="default")) as repository:
        for number in range(200):
            repository.set_limits(f"e-{number}", [Limit.per_minute("rpm", 1)], f"r-{number % 5}")
        repository.set_tier_limits("gold", [Limit.per_minute("rpm", 1)])
        meter.reset()
        list(completion.COMPLETED[name].read(repository, ""))
    assert sum(meter.requests.values()) <= 5 + 3
    assert meter.requests.keys() <= {"Query", "GetItem", "BatchGetItem"}


def test_a_name_that_a_shell_would_obey_is_not_offered(file: str) -> None:
    with SyncRepository.open(store=file) as repository:
        for entity in ("x;reboot", "x`reboot`", "x|reboot", "x&reboot", "x>limits", "x'y", "x-1"):
            repository.create_entity(entity)
    assert complete("zae-limiter entity show x", ZAEL_STORE=file) == ["plain,x-1"]


def test_zsh_and_fish_get_their_own_form(file: str) -> None:
    assert complete("zae-limiter entity show b", "zsh", ZAEL_STORE=file) == ["plain", "beta", "_"]
    assert complete("zae-limiter entity show b", "fish", ZAEL_STORE=file) == ["plain,beta"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str) -> None:
    asked = subprocess.run(
        [sys.executable, "-c", COMMAND.format(seconds=1)],
        env={**os.environ, "_ZAE_LIMITER_COMPLETE": f"{shell}_source"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "zae-limiter" in asked.stdout


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://10.255.255.1"], ids=["refused", "silent"])
def test_a_table_out_of_reach_completes_nothing_and_says_nothing(url: str) -> None:
    begun = time.monotonic()
    assert complete(f"zae-limiter entity show --endpoint-url {url} a", seconds=1, **SILENT) == []
    assert time.monotonic() - begun < 30  # a busy machine starts an interpreter in some seconds


def test_a_missing_file_is_not_made(tmp_path: Path) -> None:
    assert complete("zae-limiter entity show a", ZAEL_STORE=f"sqlite:///{tmp_path / 'missing.db'}") == []
    assert not (tmp_path / "missing.db").exists()
