import json
import subprocess
import sys
from typing import Any

import pytest

from zae_limiter_provisioner.handler import on_event

NO_TABLE = "http://127.0.0.1:1"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ENDPOINT_URL_DYNAMODB": NO_TABLE,
}


@pytest.mark.parametrize("event", [{"action": "destroy"}, {}, {"action": ["apply"]}, "apply"], ids=str)
def test_an_unknown_action_is_an_error_that_names_the_actions_there_are(event: Any) -> None:
    done = on_event(event, None)
    assert done["status"] == "failed"
    (error,) = done["errors"]
    assert error["code"] == "unknown_action"
    assert error["message"].endswith("there are: apply")


def test_every_mistake_of_a_manifest_is_an_error_with_its_path() -> None:
    bad = {"namespace": "tenant-alpha", "resources": {"gpt-4": {"limits": {"rpm": {"capacity": 0}}}}, "more": 1}
    done = on_event({"action": "apply", "manifest": bad}, None)
    assert (done["status"], done["created"], done["namespace"]) == ("failed", 0, None)
    assert {error["path"] for error in done["errors"]} == {"more", "resources.gpt-4.limits.rpm.capacity"}


@pytest.mark.parametrize("manifest", [None, "namespace: a", []], ids=str)
def test_what_is_no_manifest_is_an_error(manifest: Any) -> None:
    done = on_event({"action": "apply", "manifest": manifest}, None)
    assert [error["code"] for error in done["errors"]] == ["invalid_manifest"]


def test_a_table_that_is_away_is_an_error_in_an_answer_that_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    done = on_event({"action": "apply", "manifest": {"namespace": "tenant-alpha"}}, None)
    assert (done["status"], done["namespace"]) == ("failed", "tenant-alpha")
    (error,) = json.loads(json.dumps(done))["errors"]
    assert error["code"] == "table_failed"
    assert NO_TABLE in error["message"]


def test_it_runs_with_boto3_alone() -> None:
    ask = (
        "import sys; from zae_limiter_provisioner.handler import on_event\n"
        "done = on_event({'action': 'apply', 'manifest': {'namespace': 'tenant-alpha'}}, None)\n"
        "print(done['status'], 'boto3' in sys.modules, {'aioboto3', 'aiobotocore', 'aiohttp'} & set(sys.modules))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", ask], capture_output=True, text=True, check=True, env=ENVIRONMENT, timeout=60
    )
    assert answer.stdout == "failed True set()\n"
