import base64
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest

HERE = Path(__file__).parents[1]
Call = Callable[[str], tuple[dict[str, Any], str]]


@pytest.fixture(scope="module")
def function(local_stack: str) -> str:
    """The name of the function, deployed by its template."""
    subprocess.run(["./build.sh"], cwd=HERE, check=True)
    s3, cloudformation = boto3.client("s3"), boto3.client("cloudformation")
    s3.create_bucket(Bucket="code")
    s3.upload_file(str(HERE / "function.zip"), "code", "function.zip")
    given = {
        "Stack": local_stack,
        "AcquirePolicyArn": output(cloudformation, local_stack, "AcquirePolicyArn"),
        "CodeBucket": "code",
    }
    cloudformation.create_stack(
        StackName="example",
        TemplateBody=(HERE / "template.yaml").read_text(),
        Capabilities=["CAPABILITY_IAM"],
        Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in given.items()],
    )
    return output(cloudformation, "example", "FunctionName")


def output(cloudformation: Any, stack: str, name: str) -> str:
    outputs = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["Outputs"]
    return next(each["OutputValue"] for each in outputs if each["OutputKey"] == name)


@pytest.fixture
def call(function: str) -> Call:
    """Ask the function as the API does: its answer, and the log of the call."""
    client = boto3.client("lambda")

    def ask(user: str) -> tuple[dict[str, Any], str]:
        event = {"requestContext": {"authorizer": {"jwt": {"claims": {"sub": user}}}}}
        done = client.invoke(FunctionName=function, LogType="Tail", Payload=json.dumps(event))
        return json.load(done["Payload"]), base64.b64decode(done["LogResult"]).decode()

    return ask


def instances(function: str) -> list[int]:
    """The processes that run the function."""
    mark = f"AWS_LAMBDA_FUNCTION_NAME={function}\0".encode()
    environments = ((path, read(path)) for path in Path("/proc").glob("[0-9]*/environ"))
    return [int(path.parent.name) for path, environment in environments if mark in environment]


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # another user's, or gone


def test_warm_calls_use_what_the_cold_start_has_opened_also_after_a_freeze(call: Call, function: str) -> None:
    answer, log = call("ann")
    assert answer["headers"]["RateLimit"] == '"rpm";r=9;t=6'
    assert "Init Duration" in log
    answer, log = call("ann")
    assert (answer["statusCode"], "Init Duration" in log) == (200, False)
    (pid,) = instances(function)
    os.kill(pid, signal.SIGSTOP)  # as Lambda does between calls
    time.sleep(1.1)  # what an instance knows of the table is a second old at most
    os.kill(pid, signal.SIGCONT)
    answer, log = call("ann")
    assert (answer["statusCode"], "Init Duration" in log) == (200, False)
    assert "RateLimit" in answer["headers"]  # it was counted


def test_a_user_who_asks_too_often_gets_a_429(call: Call) -> None:
    user = f"user-{uuid4()}"
    while (asked := call(user))[0]["statusCode"] == 200:
        pass
    answer, log = asked
    assert answer["statusCode"] == 429
    assert 0 < int(answer["headers"]["Retry-After"]) <= 6
    assert json.loads(answer["body"])["violated-policies"] == ["rpm"]
    assert '"refused"' in log  # a metric for CloudWatch


def test_users_do_not_share_their_limit(call: Call) -> None:
    assert {call(f"user-{number}")[0]["statusCode"] for number in range(12)} == {200}
