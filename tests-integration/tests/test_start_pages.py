"""What lives here: steps 2 to 4 of docs/start, in their order: its files served, its commands run on a local stack.
What never does: the Python block of step 1 (test_readme), or what a command does in detail.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.core.web.serving import Served, serving
from support.integration.last_will import afterwards

START = Path(__file__).resolve().parents[2] / "docs/start"
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
YAML = re.compile(r"^```yaml \S+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TEXT = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
UP = "zae-limiter local up --name my-app --detach"
HERE = " --port 0 --data-plane moto"  # a port that nobody has, and no emulator that this machine may have


def found(page: str, kind: re.Pattern[str]) -> list[str]:
    return kind.findall((START / page).read_text(encoding="utf-8"))


def shell(lines: str, folder: Path) -> str:
    """What the lines print; all of them succeed."""
    done = subprocess.run(["sh", "-ec", lines], check=False, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for name in [name for name in os.environ if name.startswith(("AWS_", "ZAEL_"))]:
        monkeypatch.delenv(name)
    with afterwards(["zae-limiter", "local", "down", "--name", "my-app"]):
        yield tmp_path


def exported(variables: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in re.findall(r"^export (\w+)='?(.*?)'?$", variables, re.MULTILINE):
        monkeypatch.setenv(name, value)


def statuses(served: Served, count: int) -> list[int]:
    return [served.get("/answer").status for _ in range(count)]


def test_the_route_of_step_2_answers_429_as_its_page_shows_from_each_worker_and_after_a_restart(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(found("fastapi.md", PYTHON)[0], encoding="utf-8")
    (shown,) = found("fastapi.md", TEXT)
    with serving("uvicorn", "main:app", tmp_path) as one, serving("uvicorn", "main:app", tmp_path) as another:
        assert statuses(one, 1) + statuses(another, 1) == [200, 200]
        refusal = one.get("/answer")
        assert statuses(another, 1) == [429]
    with serving("uvicorn", "main:app", tmp_path) as restarted:
        assert 429 in statuses(restarted, 2)  # one token may have come meanwhile
    status, *fields = shown.splitlines()
    named = dict(field.split(": ", 1) for field in fields)
    assert (refusal.status, int(named.pop("retry-after"))) == (int(status.split()[1]), 30)
    assert named.items() <= refusal.headers.items()
    assert 0 < int(refusal.headers["retry-after"]) <= 30


@pytest.mark.long
def test_steps_3_and_4_share_a_limit_and_change_it_by_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (start,) = [block for block in found("stack.md", SHELL) if UP in block]
    printed = shell(start.replace(UP, UP + HERE) + "zae-limiter local env\n", folder)
    exported(printed, monkeypatch)
    (folder / "main.py").write_text(found("stack.md", PYTHON)[0], encoding="utf-8")
    with serving("uvicorn", "main:app", folder) as one, serving("uvicorn", "main:app", folder) as another:
        assert statuses(one, 1) + statuses(another, 2) == [200, 200, 429]

    manifest, more = found("file.md", YAML)
    first, second, last = [block for block in found("file.md", SHELL) if "zae-limiter" in block]
    (folder / "limits.yaml").write_text(manifest, encoding="utf-8")
    planned, policy = found("file.md", TEXT)
    assert planned in shell(first, folder)
    with serving("uvicorn", "main:app", folder) as served:
        name, value = policy.strip().split(": ", 1)
        assert served.get("/answer").headers[name] == value
    (folder / "limits.yaml").write_text(manifest + more, encoding="utf-8")
    assert "the level entity wins" in shell(second, folder)
    shell(last, folder)
