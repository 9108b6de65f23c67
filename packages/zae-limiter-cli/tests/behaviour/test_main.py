import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from zae_limiter_cli.main import main

NOWHERE = "http://127.0.0.1:1"


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def test_help_imports_neither_a_client_nor_the_library() -> None:
    ask = (
        "import sys; from zae_limiter_cli.main import main\n"
        "main(sys.argv[1:], standalone_mode=False)\n"
        "slow = {'boto3', 'botocore', 'aioboto3', 'yaml', 'asyncio', 'sqlite3', 'zae_limiter', 'rich', 'pyarrow'}\n"
        "print((slow | {'zae_limiter_provisioner'}) & set(sys.modules))"
    )
    environment = {**os.environ, "ZAEL_STORE": "sqlite:///limits.db"}
    for words in (["--help"], ["limits", "plan", "--help"]):
        answer = subprocess.run(
            [sys.executable, "-c", ask, *words], capture_output=True, text=True, check=True, env=environment
        )
        assert answer.stdout.endswith("\nset()\n")


def test_commands_import_no_module_of_the_local_aws(tmp_path: Path) -> None:
    """Counted in one process, after commands that read, write, plan and print: 0 of its modules, 0 of its extra."""
    ask = (
        "import sys; from zae_limiter_cli.main import main\n"
        "for line in sys.argv[1:]:\n"
        "    main(line.split(), standalone_mode=False)\n"
        "of_local = ('zae_limiter_cli.local', 'moto', 'werkzeug', 'flask', 'awslambdaric')\n"
        "print(len([each for each in sys.modules if each.startswith(of_local)]))"
    )
    lines = ["namespace register default", "system set-defaults -l rpm:1", "entity list", "limits export", "doctor"]
    lines += [f"{words} --help" for words in ("local", "local up", "deploy", "upgrade", "console", "top", "copy")]
    environment = {**os.environ, "ZAEL_STORE": f"sqlite:///{tmp_path / 'limits.db'}"}
    done = subprocess.run(
        [sys.executable, "-c", ask, *lines], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.splitlines()[-1] == "0"


def test_help_lists_the_commands() -> None:
    assert "demo" in run("--help").stdout


class Wordless(BaseHTTPRequestHandler):
    """An address that refuses everything without an error of AWS."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(400)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture
def wordless(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Wordless)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    for name in ("AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "us-east-1")
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("command", ["delete --yes", "deploy --yes", "status", "list"])
def test_an_endpoint_that_refuses_without_a_word_is_one_line(wordless: str, command: str) -> None:
    done = run(*command.split(), "--endpoint-url", wordless)
    told = "Error: the endpoint's answer is not in AWS's format: an emulator may not support this request\n"
    assert (done.exit_code, done.stderr) == (1, told)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["nothing"], "No such command"),
        (["demo", "--nothing"], "--nothing"),
        (["demo", "surplus"], "Got unexpected extra argument (surplus)."),
        (["limits", "plan"], "Missing option"),
        (["limits", "rollback", "x"], "Invalid value for 'SERIAL': 'x' is not a whole number."),
        (["top", "--every", "x"], "Invalid value for '--every': 'x' is not a number."),
        (["top", "--every", "nan"], "Invalid value for '--every': 'nan' is not a number."),
        (["demo", "--name", "table"], "--endpoint-url"),
        (["demo", "--region", "eu-central-1"], "--endpoint-url"),
    ],
    ids=" ".join,
)
def test_a_usage_error_ends_with_code_1_and_one_line(args: list[str], told: str) -> None:
    done = run(*args)
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert told in line
    assert re.search(r" See `main( demo| top| limits plan| limits rollback)? --help`\.$", line)


@pytest.mark.parametrize("word", ["\x06\x9e", "\x1b[2J", "\u202e"], ids=ascii)
def test_what_a_terminal_would_obey_is_spelled_out(word: str) -> None:
    for args in (["demo", word], [word], ["system", "set-defaults", "-l", word, "--endpoint-url", NOWHERE]):
        done = run(*args)
        assert done.exit_code == 1
        (line,) = done.stderr.splitlines()
        assert (line.isprintable(), ascii(word)[2:4] in line) == (True, True)


def test_a_file_that_is_not_there_is_one_line() -> None:
    done = run("demo", "-f", "missing.yaml")
    assert (done.exit_code, done.stderr) == (1, "Error: missing.yaml: No such file or directory\n")


def test_a_bad_manifest_is_a_line_for_each_mistake(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("namespace: 3\nresources: {gpt-4: {limits: {rpm: {capacity: -1}}}}\n")
    done = run("demo", "-f", str(bad))
    assert done.exit_code == 1
    places = [line.split(": ")[:2] for line in done.stderr.splitlines() if line.startswith(str(bad))]
    assert places == [[f"{bad}:1:12", "namespace"], [f"{bad}:2:46", "resources.gpt-4.limits.rpm.capacity"]]


def test_a_file_that_is_not_text_is_one_line(tmp_path: Path) -> None:
    binary = tmp_path / "bad.yaml"
    binary.write_bytes(b"\xff")
    assert run("demo", "-f", str(binary)).stderr == "Error: the file is not UTF-8 text: invalid start byte at byte 0\n"


def test_a_manifest_without_limits_for_the_callers_says_what_is_missing(tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("namespace: tenant-alpha\n")
    done = run("demo", "-f", str(empty))
    assert done.exit_code == 1
    assert "no limits hold for key-a on gpt-4" in done.stderr


def test_an_endpoint_that_is_away_is_one_line() -> None:
    done = run("demo", "--endpoint-url", NOWHERE)
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert NOWHERE in line


@pytest.mark.parametrize(
    "args",
    [["--debug", "demo", "-f", "missing.yaml"], ["demo", "-f", "missing.yaml", "--debug"]],
    ids=["before the command", "behind it"],
)
def test_debug_lets_the_error_through_with_its_traceback(args: list[str]) -> None:
    assert isinstance(run(*args).exception, FileNotFoundError)
