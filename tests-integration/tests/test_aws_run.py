"""What lives here: a run with `--aws`, up to its report, where the local stack answers as the account.
What never does: what the tests of such a run show.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import boto3
import pytest

from support.integration import account
from support.integration.embedded import Embedded, local_stack

TESTS = Path(__file__).parents[1]
ONE = "test_the_provisioner_applies_a_manifest_that_a_plain_client_sends"


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    with local_stack(tmp_path_factory.mktemp("state")) as stack:
        yield stack


def run(stack: Embedded, cwd: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """A run of one test on what the environment takes for AWS; nobody answers its question."""
    pytest_of_ours = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(TESTS / "tests" / "test_lambdas.py"),
    ]
    environment = {**os.environ, **stack.environment, "ZAEL_TEST_RUN": "flow0001"}
    command = [*pytest_of_ours, "--aws", "-k", ONE, *options]
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def names(stack: Embedded) -> set[str]:
    """The stacks and tables of the account."""
    with closing(stack.client("cloudformation")) as client:
        stacks = {each["StackName"] for each in client.describe_stacks()["Stacks"]}
    with closing(stack.client("dynamodb")) as client:
        return stacks | set(client.list_tables()["TableNames"])


def test_without_a_yes_nothing_is_made(aws: Embedded, tmp_path: Path) -> None:
    before = names(aws)
    done = run(aws, tmp_path)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert re.search(r"the AWS account \d{12} in us-east-1", done.stdout)
    assert re.search(r"costs about \d\.\d\d USD at most", done.stdout)
    assert "nobody is here to be asked: add --yes" in done.stderr
    assert names(aws) == before
    assert list(tmp_path.iterdir()) == []


def test_a_run_ends_with_a_report_and_leaves_nothing(aws: Embedded, tmp_path: Path) -> None:
    before = names(aws)
    done = run(aws, tmp_path, "--yes")
    assert done.returncode == 0, done.stdout
    report = (tmp_path / account.REPORT).read_text(encoding="utf-8")
    assert report in done.stdout
    assert "aws: 1 passed" in report
    assert "deleted afterwards: nothing" in report
    assert names(aws) == before


def test_what_a_killed_run_has_left_is_deleted(aws: Embedded) -> None:
    before = names(aws)
    with closing(aws.client("dynamodb")) as client:
        client.create_table(
            TableName="zael-flow0002-left",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "PK", "AttributeType": "S"}],
        )
    environment = {**os.environ, **aws.environment, "PYTHONPATH": str(TESTS)}
    subprocess.run([sys.executable, "-m", account.__name__, "zael-flow0002"], env=environment, check=True, timeout=120)
    assert names(aws) == before


def test_credentials_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(ValueError, match=r"--aws needs credentials of an account: .*credentials"):
        account.question(1)
