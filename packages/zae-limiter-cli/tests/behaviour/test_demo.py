import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from zae_limiter_cli.demo import burst
from zae_limiter_cli.demo.backends import at_endpoint
from zae_limiter_cli.demo.example import example
from zae_limiter_cli.main import main
from zae_limiter_manifest import LimitsManifest

FAST = """
namespace: tenant-alpha
system:
  limits: {rpm: {capacity: 1000}}
resources:
  gpt-4:
    limits: {rpm: {capacity: 10, refill_amount: 20, refill_period: 1}}
entities:
  project-1: {resources: {gpt-4: {limits: {rpm: {capacity: 1000}}}}}
  user-123: {resources: {gpt-4: {limits: {rpm: {capacity: 5}}}}}
  user-456: {resources: {gpt-4: {limits: {tpm: {capacity: 3000}}}}}
"""


def test_the_example_comes_with_the_command() -> None:
    manifest = LimitsManifest.from_yaml(example().read_text(encoding="utf-8"))
    assert manifest.namespace == "tenant-alpha"


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("demo") / "fast.yaml"
    path.write_text(FAST)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(burst, "LONGEST_WAIT_SECONDS", 3.0)
        done = CliRunner().invoke(main, ["demo", "-f", str(path)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_every_call_is_admitted_or_refused_and_the_waits_are_told(output: str) -> None:
    rows = dict(re.findall(r"^  (\S+) +(\d+ +\d+ .*)$", output, re.MULTILINE))
    for key in ("key-a", "key-b"):
        calls, admitted, late = rows[key].split()[:3]
        assert (calls, admitted) == ("20", "20")
        assert 5 <= int(late) <= 10  # 10 at once, 20 a second
    assert rows["user-123"].split() == ["8", "5", "-", "3"]
    assert rows["user-456"].split() == ["5", "0", "-", "5"]


def test_it_tells_the_limits_that_hold_and_what_was_applied(output: str) -> None:
    assert "fast.yaml applied to namespace tenant-alpha: 5 created" in output
    assert re.search(r"user-123 +its own +rpm: 5/min\n", output)
    assert re.search(r"key-a +gpt-4's +rpm: 20/sec", output)


def test_a_request_that_can_never_pass_is_told_as_such(output: str) -> None:
    assert re.search(r"user-456 +5 refused, more tpm than the limit ever holds", output)


def test_it_counts_requests_and_write_units(output: str) -> None:
    requests, total = re.search(r"Requests +(\d+) +(.*)", output).groups()  # type: ignore[union-attr]
    assert int(requests) == sum(int(number) for number in re.findall(r"(\d+) \w+", total))
    whole, table, index = re.search(r"Write units +(\d+) +(\d+) table \+ (\d+) index", output).groups()  # type: ignore[union-attr]
    assert int(whole) == int(table) + int(index)


def test_off_a_terminal_there_is_no_escape_sequence(output: str) -> None:
    assert "\x1b" not in output


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_credentials_are_made_up_for_a_local_endpoint_only(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(os, "environ", {"HOME": "/nowhere", "AWS_EC2_METADATA_DISABLED": "true"})
    at_endpoint("tenant-alpha", "https://dynamodb.example.com", table="demo", region=None)
    assert name not in os.environ
    at_endpoint("tenant-alpha", "http://127.0.0.1:8000", table="demo", region=None)
    assert os.environ[name] == "local"


def test_credentials_that_are_set_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"AWS_ACCESS_KEY_ID": "own", "AWS_SECRET_ACCESS_KEY": "own", "AWS_DEFAULT_REGION": "eu-central-1"}
    monkeypatch.setattr(os, "environ", {"HOME": "/nowhere", **own})
    at_endpoint("tenant-alpha", "http://localhost:8000", table="demo", region=None)
    assert {name: os.environ[name] for name in own} == own


@pytest.mark.slow
def test_it_runs_on_a_file_which_the_other_commands_show_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, store = tmp_path / "fast.yaml", ["--store", f"sqlite:///{tmp_path}/demo.db"]
    manifest.write_text(FAST)
    monkeypatch.setattr(burst, "LONGEST_WAIT_SECONDS", 0.5)
    told = CliRunner().invoke(main, ["demo", "-f", str(manifest), *store]).stdout
    assert f"zae-limiter demo, file {tmp_path}/demo.db: no network, no account" in told
    assert re.search(r"^  user-123 +8 +5 +- +3$", told, re.MULTILINE)
    shown = CliRunner().invoke(main, ["entity", "show", "user-123", "-N", "tenant-alpha", *store]).stdout
    assert [row.split()[:4] for row in shown.splitlines()[-1:]] == [["gpt-4", "rpm", "0", "5"]]


def test_it_runs_on_a_file_or_at_an_endpoint_not_on_both() -> None:
    done = CliRunner().invoke(main, ["demo", "--store", "sqlite:///demo.db", "--endpoint-url", "http://127.0.0.1:1"])
    assert (done.exit_code, "pass the one or the other" in done.stderr) == (1, True)
