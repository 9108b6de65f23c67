import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from typing import get_args

import boto3
import pytest

from zae_limiter_cli.local.credentials import Credentials
from zae_limiter_cli.local.state_dir import Running
from zae_limiter_cli.local.variables import Form, script, unwanted, variables

RUNNING = Running("my-app", 1, "http://127.0.0.1:4588", "us-east-1", "moto", 1.0, Credentials("KEY", "secret"))
USERS = {
    "PATH": os.environ["PATH"],
    "ZAEL_STORE": "sqlite:///limits.db",
    "AWS_PROFILE": "production",
    "AWS_DEFAULT_PROFILE": "production",
    "AWS_SESSION_TOKEN": "token",
    "AWS_CREDENTIAL_EXPIRATION": "2020-01-01T00:00:00Z",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true",
    "AWS_USE_FIPS_ENDPOINT": "true",
    "AWS_ENDPOINT_URL_CLOUDFORMATION": "https://cloudformation.example.com",
    "AWS_ENDPOINT_URL_SQS": "https://sqs.example.com",
    "ALL_PROXY": "socks5://proxy:1080",
    "NO_PROXY": "*.corp;$HOME",
    "no_proxy": "it's, here",
}


def shown(form: Form, environment: Mapping[str, str]) -> dict[str, str]:
    """What a shell of a user with this environment has once it evaluated the lines."""
    lines = f"{script(RUNNING, form, environment)}\nenv -0"
    printed = subprocess.run(["sh", "-c", lines], env=environment, capture_output=True, text=True, check=True).stdout
    return dict(entry.split("=", 1) for entry in printed.split("\0") if entry)


@pytest.mark.parametrize("form", ["sh", "direnv"])
def test_a_shell_that_evaluates_the_lines_has_the_variables(form: Form) -> None:
    found = shown(form, USERS)
    assert variables(RUNNING, USERS).items() <= found.items()
    assert {*unwanted(USERS)}.isdisjoint(found)
    assert (found["AWS_ACCESS_KEY_ID"], found["AWS_SECRET_ACCESS_KEY"]) == ("KEY", "secret")
    assert [name for name in found if name.startswith("AWS_ENDPOINT_URL")] == ["AWS_ENDPOINT_URL"]


def test_programs_keep_audit_events_as_long_as_the_stack_does() -> None:
    assert "ZAEL_AUDIT_RETENTION_DAYS" not in variables(RUNNING, {})
    for days in (0, 400):
        found = variables(replace(RUNNING, audit_retention_days=days), {})
        assert found["ZAEL_AUDIT_RETENTION_DAYS"] == str(days)


def test_the_sdk_goes_to_the_local_stack_whatever_the_user_had_set(monkeypatch: pytest.MonkeyPatch) -> None:
    found = shown("sh", USERS)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    for service in ("cloudformation", "dynamodb", "sqs"):
        client = boto3.Session().client(service)
        assert client.meta.endpoint_url == RUNNING.endpoint_url
        client.close()


def test_powershell_s_lines_set_and_remove_the_same() -> None:
    lines = script(RUNNING, "powershell", USERS).splitlines()
    removed = {f"Remove-Item Env:{name} -ErrorAction SilentlyContinue" for name in unwanted(USERS)}
    wanted = {**variables(RUNNING, USERS), "NO_PROXY": "*.corp;$HOME,it''s,here,127.0.0.1"}
    wanted["no_proxy"] = wanted["NO_PROXY"]
    assert {*lines} == {*removed, *(f"$Env:{name} = '{value}'" for name, value in wanted.items())}


@pytest.mark.skipif(shutil.which("pwsh") is None, reason="pwsh is not there")
def test_powershell_takes_them() -> None:
    lines = f"{script(RUNNING, 'powershell')}\n$Env:ZAEL_STACK"
    printed = subprocess.run(["pwsh", "-NoProfile", "-Command", lines], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "my-app"


@pytest.mark.parametrize("proxy", ["HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"])
def test_where_there_is_a_proxy_the_stack_is_not_behind_it(proxy: str) -> None:
    found = variables(RUNNING, {proxy: "http://proxy:3128"})
    assert found["NO_PROXY"] == found["no_proxy"] == "127.0.0.1"
    assert {"NO_PROXY", "no_proxy"}.isdisjoint(variables(RUNNING, {}))


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        ({"NO_PROXY": "corp,127.0.0.1"}, "corp,127.0.0.1"),
        ({"no_proxy": "corp"}, "corp,127.0.0.1"),
        ({"NO_PROXY": "corp", "no_proxy": "other, corp"}, "corp,other,127.0.0.1"),
        ({"no_proxy": "*"}, "*"),
    ],
)
def test_what_goes_past_the_proxy_already_still_does(there: Mapping[str, str], wanted: str) -> None:
    found = variables(RUNNING, {"HTTP_PROXY": "http://proxy:3128", **there})
    assert found["NO_PROXY"] == found["no_proxy"] == wanted


def test_every_form_names_the_stack_and_its_address() -> None:
    for form in get_args(Form):
        words = script(RUNNING, form).replace("'", " ").replace("=", " ").split()
        assert {"my-app", "http://127.0.0.1:4588"} <= set(words)
