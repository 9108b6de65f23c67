import shutil
import subprocess

import pytest

from zae_limiter_cli.local.home import Running
from zae_limiter_cli.local.variables import FORMS, Form, script, variables

RUNNING = Running("my-app", 1, "http://127.0.0.1:4588", "us-east-1", "moto", 1.0)


@pytest.mark.parametrize("form", ["sh", "direnv"])
def test_a_shell_that_evaluates_the_lines_has_the_variables(form: Form) -> None:
    lines = f"export AWS_PROFILE=production\n{script(RUNNING, form)}\nenv -0"
    printed = subprocess.run(["sh", "-c", lines], capture_output=True, text=True, check=True).stdout
    found = dict(entry.split("=", 1) for entry in printed.split("\0") if entry)
    assert variables(RUNNING).items() <= found.items()
    assert "AWS_PROFILE" not in found


def test_powershell_s_lines_set_the_same() -> None:
    lines = script(RUNNING, "powershell").splitlines()
    assert "Remove-Item Env:AWS_PROFILE -ErrorAction SilentlyContinue" in lines
    assert {f'$Env:{name} = "{value}"' for name, value in variables(RUNNING).items()} <= set(lines)


@pytest.mark.skipif(shutil.which("pwsh") is None, reason="pwsh is not there")
def test_powershell_takes_them() -> None:
    lines = f"{script(RUNNING, 'powershell')}\n$Env:ZAEL_STACK"
    printed = subprocess.run(["pwsh", "-NoProfile", "-Command", lines], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "my-app"


def test_where_there_is_a_proxy_the_stack_is_not_behind_it() -> None:
    assert variables(RUNNING, {"HTTP_PROXY": "http://proxy:3128"})["NO_PROXY"] == "127.0.0.1"
    assert "NO_PROXY" not in variables(RUNNING, {})


def test_every_form_names_the_stack_and_its_address() -> None:
    for form in FORMS:
        words = script(RUNNING, form).replace('"', " ").replace("=", " ").split()
        assert {"my-app", "http://127.0.0.1:4588"} <= set(words)
