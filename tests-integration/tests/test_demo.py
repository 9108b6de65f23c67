"""What lives here: `zae-limiter demo` as a user runs it, and the provisioner's Lambda on the table that it leaves.
What never does: how the demo looks (the CLI's own tests).
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.integration.targets import Target
from zae_limiter_provisioner.handler import on_event

EXAMPLE = Path(__file__).parents[2] / "examples" / "tenant-alpha.limits.yaml"
COMMAND = Path(sys.executable).with_name("zae-limiter")


def demo(*options: str) -> str:
    done = subprocess.run([str(COMMAND), "demo", *options], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def check(output: str) -> None:
    rows = {caller: row.split() for caller, row in re.findall(r"^  (\S+-\S+) +(\d+ +\d+ .*)$", output, re.MULTILINE)}
    calls, admitted = ({caller: int(row[column]) for caller, row in rows.items()} for column in (0, 1))
    assert calls == {"key-a": 20, "key-b": 20, "user-123": 8, "user-456": 5}
    assert admitted["user-123"] == 5
    # The project of both keys: 35 at once, and one every 2 seconds of 6.5.
    assert 35 <= admitted["key-a"] + admitted["key-b"] <= 38
    # Four of 3,100 tokens are within 15,000; the fifth is after 3 seconds.
    assert admitted["user-456"] == 5
    assert re.search(r"user-456 +1 wait 3\.0 s for tpm", output)


@pytest.mark.long(keep=1)
def test_the_demo_admits_what_the_limits_allow(
    target: Target, table_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if target.endpoint_url is None:
        check(demo())
        return
    check(demo("--endpoint-url", target.endpoint_url, "--name", table_name))

    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", target.endpoint_url)
    monkeypatch.setenv("ZAEL_STACK", table_name)
    manifest = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    again = on_event({"action": "apply", "manifest": manifest}, None)
    assert (again["status"], again["changes"]) == ("applied", [])

    manifest["resources"]["gpt-4"]["limits"]["rpm"]["capacity"] = 21
    raised = on_event({"action": "apply", "manifest": manifest}, None)
    assert [(change["action"], change["target"]) for change in raised["changes"]] == [("update", "gpt-4")]
