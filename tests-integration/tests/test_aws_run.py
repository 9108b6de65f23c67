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

from support.cli.account import eventually
from support.integration import account
from support.integration.embedded import Embedded, local_stack

TESTS = Path(__file__).parents[1]
ONE = "test_the_provisioner_applies_a_manifest_that_a_plain_client_sends"


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    with local_stack(tmp_path_factory.mktemp("state")) as stack:
        yield stack


def start(stack: Embedded, cwd: Path, *options: str) -> subprocess.Popen[str]:
    """A run of one test on what the environment takes for AWS; nobody answers its question."""
    tests = str(TESTS / "tests" / "test_lambdas.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests, "--aws", "-k", ONE, *options]
    environment = {**os.environ, **stack.environment, "ZAEL_TEST_RUN": "flow0001"}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
    )


def run(stack: Embedded, cwd: Path, *options: str) -> tuple[int, str, str]:
    with start(stack, cwd, *options) as running:
        out, err = running.communicate(timeout=300)
    return running.returncode, out, err


def names(stack: Embedded) -> set[str]:
    """The stacks and tables of the account."""
    with closing(stack.client("cloudformation")) as client:
        stacks = {each["StackName"] for each in client.describe_stacks()["Stacks"]}
    with closing(stack.client("dynamodb")) as client:
        return stacks | set(client.list_tables()["TableNames"])


@pytest.mark.long
def test_without_a_yes_nothing_is_made(aws: Embedded, tmp_path: Path) -> None:
    before = names(aws)
    code, out, err = run(aws, tmp_path)
    assert code == pytest.ExitCode.USAGE_ERROR
    assert re.search(r"the AWS account \d{12} in us-east-1", out)
    assert re.search(r"costs about \d\.\d\d USD at most", out)
    assert "nobody is here to be asked: add --yes" in err
    assert names(aws) == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_run_ends_with_a_report_and_leaves_nothing_not_even_what_its_tests_forget(
    aws: Embedded, tmp_path: Path
) -> None:
    before = names(aws)
    with closing(aws.client("dynamodb")) as client:
        client.create_table(
            TableName="zael-flow0001-forgotten",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "PK", "AttributeType": "S"}],
        )
    code, out, _ = run(aws, tmp_path, "--yes")
    assert code == 0, out
    report = (tmp_path / account.REPORT).read_text(encoding="utf-8")
    assert report in out
    assert "aws: 1 passed" in report
    assert "deleted afterwards: table zael-flow0001-forgotten" in report
    assert names(aws) == before


@pytest.mark.long
def test_a_run_that_is_killed_leaves_nothing(aws: Embedded, tmp_path: Path) -> None:
    before = names(aws)
    with start(aws, tmp_path, "--yes") as running:
        assert eventually(lambda: names(aws) != before)
        running.kill()
    assert eventually(lambda: names(aws) == before)


def test_credentials_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(ValueError, match=r"--aws needs credentials of an account: .*credentials"):
        account.question(1)
