"""The command line: words and files, with click's runner, and as a process of its own.

The stack's Lambda and its table are behind HTTP in this process; of the rest of AWS there is
somebody who knows no such request.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import pytest
from click.testing import CliRunner
from hypothesis import strategies as st

from support.cli.limits_stack import Stack, serving
from support.integration.emulators import dynoxide, running
from support.manifest.any_input import TOKENS
from support.manifest.manifests import DESIGN, manifests
from zae_limiter import Options, SyncRepository
from zae_limiter.stores import SyncDynamoDBStore
from zae_limiter_cli.main import main
from zae_limiter_manifest import dump
from zae_limiter_provisioner import handler

from ..batches import Surface
from ..command_lines import MANIFEST, CommandLine, command_lines
from ..judging import Tally, Unclean, bounded
from ..junk import damaged_text
from .plan_files import contents as plan_files

STACK = "my-app"
ANSWER_SECONDS = 60  # some wait for seconds; a command that serves does not end
SECRET = "precious"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_MAX_ATTEMPTS": "1",
    "ZAEL_STACK": STACK,
}

contents = plan_files | damaged_text(manifests.map(dump) | st.just(DESIGN), TOKENS).map(
    lambda text: text.encode("utf-8", "surrogatepass")
)


class Shell:
    """Where commands run: a directory with a file and with a link to one that nobody may write, and a stack's AWS."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.directory = directory
        self.environment = environment
        self.victim = directory.with_name("victim")
        self.victim.write_text(SECRET)

    def lay_out(self, line: CommandLine) -> list[str]:
        """The words of a command line, with the file that they name."""
        for each in self.directory.iterdir():
            each.unlink() if each.is_file() or each.is_symlink() else None
        file = self.directory / "file.yaml"
        file.write_bytes(line.content)
        (self.directory / "link").symlink_to(self.victim)
        return [str(file) if word == MANIFEST else word for word in line.words]

    def judge(self, code: int, stdout: str, stderr: str, tally: Tally) -> None:
        """Count how a command ended. Raises `Unclean`."""
        if "Traceback" in stdout + stderr:
            raise Unclean(f"a traceback: {stderr[-1500:]}")
        if code not in {0, 1, 2}:
            raise Unclean(f"code {code}: {stderr[-500:]}")
        if code == 1 and not (stdout + stderr).strip():
            raise Unclean("it failed without a word")
        if any(not line.isprintable() for line in stderr.replace("\t", " ").splitlines()):
            raise Unclean(f"unprintable: {stderr[:500]!r}")
        if self.victim.read_text() != SECRET:
            raise Unclean("a link was followed")
        tally.accepted += code == 0
        tally.refused += code != 0


def _in_click(shell: Shell, line: CommandLine, tally: Tally) -> None:
    with bounded():
        done = CliRunner().invoke(main, shell.lay_out(line), input=line.typed)
    if done.exception is not None and not isinstance(done.exception, SystemExit | click.exceptions.Exit):
        raise Unclean(f"{type(done.exception).__name__}: {done.exception}") from done.exception
    shell.judge(done.exit_code, done.stdout, done.stderr, tally)


def _in_process(shell: Shell, line: CommandLine, tally: Tally) -> None:
    words = [os.fsencode(word) if _is_word(word) else b"?" for word in shell.lay_out(line)]
    command = [os.fsencode(Path(sys.executable).with_name("zae-limiter")), *words]
    environment = {**os.environ, **shell.environment}
    done = subprocess.run(
        command,
        check=False,
        input=line.typed.encode(),
        capture_output=True,
        env=environment,
        cwd=shell.directory,
    )
    shell.judge(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"), tally)


def _is_word(word: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in word) and len(word) < 100_000


@contextmanager
def _shell() -> Iterator[Shell]:
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        here = Path(directory) / "here"
        here.mkdir()
        with serving(here) as stack, running(dynoxide()) as url:
            _table(url)
            _answer(stack, patch)
            addresses = {"AWS_ENDPOINT_URL": url, "AWS_ENDPOINT_URL_LAMBDA": stack.url}
            places = {"XDG_STATE_HOME": directory, "XDG_CACHE_HOME": directory, "HOME": directory}
            environment = {**ENVIRONMENT, **addresses, **places}
            for name, value in environment.items():
                patch.setenv(name, value)
            patch.chdir(here)
            yield Shell(here, environment)


def _answer(stack: Stack, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(handler, "table_of_environment", stack.world.table)
    patch.setattr(handler, "log_as_json", lambda *_, **__: None)


def _table(url: str) -> None:
    store = SyncDynamoDBStore(STACK, region="eu-west-1", endpoint_url=url)
    SyncRepository.over(store, Options(stack=STACK, create_table=True)).close()


@contextmanager
def in_process() -> Iterator[Surface]:
    """With click's runner."""
    with _shell() as shell:
        yield Surface(command_lines(contents), lambda line, tally: _in_click(shell, line, tally), ANSWER_SECONDS)


@contextmanager
def in_a_process() -> Iterator[Surface]:
    """As a program."""
    with _shell() as shell:
        yield Surface(command_lines(contents), lambda line, tally: _in_process(shell, line, tally), ANSWER_SECONDS)
