"""A table with replicas in other regions: named by `status` and `doctor`, and refused by `deploy` and `upgrade`."""

from typing import Any

import boto3
import pytest
from click.testing import CliRunner, Result

from support.cli.by_hand import opened
from support.cli.calls import answering
from zae_limiter_cli.main import main

pytestmark = pytest.mark.slow


def run(*args: str) -> Result:
    return CliRunner().invoke(main, [*args, "-n", "my-app"])


@pytest.mark.long
def test_a_table_with_replicas_is_named_and_nothing_is_deployed_over_it(aws: str) -> None:
    assert run("deploy", "--yes", "--no-alarms").exit_code == 0
    table: dict[str, Any] = boto3.client("dynamodb").describe_table(TableName="my-app")
    table["Table"]["Replicas"] = [{"RegionName": "us-west-2"}, {"RegionName": "eu-west-1"}]
    with answering("DescribeTable", lambda: table):
        for command in (("deploy", "--alarms", "--yes"), ("deploy", "--alarms", "--dry-run"), ("upgrade", "--yes")):
            done = run(*command)
            assert done.exit_code == 1
            assert done.stderr.startswith("Error: the table my-app has replicas in eu-west-1, us-west-2: each region ")
        done = run("status")
        assert (done.exit_code, "replicas in eu-west-1, us-west-2" in done.stdout) == (1, True)
        done = run("doctor", "-o", "json")
        (check,) = (each for each in opened(done.stdout)["checks"] if each["check"] == "table")
        assert (done.exit_code, check["state"], check["commands"]) == (1, "fail", [])
        assert check["fix"].startswith("each region takes the same tokens")
    assert not boto3.client("cloudwatch").describe_alarms()["MetricAlarms"]
    assert run("deploy", "--dry-run").exit_code == 0
