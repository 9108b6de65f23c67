"""`limits shares`: what it reads in each region, and the commands that it prints."""

import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from support.cli.by_hand import opened
from support.core.snapshots import usage_item
from zae_limiter import Options, SyncRepository, UsageSnapshot
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.maintenance import ProvisionerState, SyncMaintenance
from zae_limiter.operations.values import Put
from zae_limiter_cli.main import main

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[5] / "docs/operate/regions.md"
FILE = "namespace: tenant-alpha\nresources: {gpt-4: {limits: {rpm: 100/min}}}\n"


def region(name: str, share: str | None, *, events: int, refused: int, tokens: int) -> None:
    """A table there, whose share is recorded, and what was used an hour ago and two days ago."""
    options = Options(stack="my-app", region=name, namespace="tenant-alpha", create_table=True, read_timeout=30)
    store = SyncDynamoDBStore("my-app", **options.store_options())
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    with SyncRepository.over(store, options) as repository:
        SyncMaintenance(repository).put_provisioner_state(ProvisionerState(share=share), expected_serial=0)
        for start, times in ((hour, 1), (hour - timedelta(days=2), 1000)):
            used = UsageSnapshot("e", "gpt-4", "hourly", start, {"tpm": tokens}, events * times, refused * times)
            store.perform(Put(usage_item(repository.namespace_id, used)))


@pytest.fixture
def files(aws: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("limits.yaml").write_text(FILE, encoding="utf-8")


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["limits", "shares", "-f", "limits.yaml", "-n", "my-app", *args])


@pytest.mark.usefixtures("files")
def test_it_reads_each_region_and_prints_what_to_run_less_first() -> None:
    region("eu-central-1", "60%", events=100, refused=0, tokens=10)
    region("us-east-1", "40%", events=100, refused=200, tokens=10)
    page = PAGE.read_text(encoding="utf-8")
    (command,) = re.findall(r"^zae-limiter (limits shares .*)$", page, re.MULTILINE)
    done = CliRunner().invoke(main, shlex.split(command))
    assert (done.exit_code, done.stderr) == (0, "")
    assert [done.stdout] == re.findall(r"```text\n(REGION.*?)```", page, re.DOTALL)
    document = opened(run("--regions", "us-east-1,eu-central-1", "--by", "tpm", "--since", "3h", "-o", "json").stdout)
    assert document["regions"] == [
        {"region": "us-east-1", "share": "40%", "proposed": "50%", "asked": 10},
        {"region": "eu-central-1", "share": "60%", "proposed": "50%", "asked": 10},
    ]
    assert [shlex.split(each)[:3] for each in document["commands"]] == [["zae-limiter", "limits", "apply"]] * 2
    bounded = run("--regions", "eu-central-1,us-east-1", "--step", "2.5%", "--least", "58%")
    assert bounded.stderr == "Error: --least 58%: 2 regions would have more than the whole\n"
    assert "57.5%" in run("--regions", "eu-central-1,us-east-1", "--step", "2.5%").stdout


@pytest.mark.usefixtures("files")
def test_a_region_that_has_no_table_ends_it_and_nothing_is_proposed() -> None:
    region("eu-central-1", None, events=1, refused=0, tokens=0)
    done = run("--regions", "eu-central-1,us-east-1")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "my-app" in done.stderr


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--regions", "us-east-1"], "name the regions that share the limits, at least two"),
        (["--regions", "us-east-1, us-east-1"], "at least two"),
        (["--regions", "us-east-1,eu-west-1", "--least", "5"], "a share is 0.01% to 100%"),
    ],
)
def test_what_cannot_be_is_one_error(args: list[str], told: str) -> None:
    done = run(*args)
    assert (done.exit_code, done.stdout) == (1, "")
    assert told in done.stderr


@pytest.mark.usefixtures("files")
def test_regions_without_use_keep_their_shares() -> None:
    for name, share in (("eu-central-1", "60%"), ("us-east-1", "33.33%")):
        region(name, share, events=0, refused=0, tokens=0)
    assert run("--regions", "eu-central-1,us-east-1").stdout.splitlines()[-1] == "No share moves."
