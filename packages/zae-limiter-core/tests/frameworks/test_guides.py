"""The examples of docs/guides, each copied into an empty folder and used there as its page says."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.core.web.serving import serving

GUIDES = Path(__file__).resolve().parents[4] / "docs/guides"
PYTHON = re.compile(r"^```python *(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANSWER = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVERS = {"fastapi": "uvicorn", "flask": "gunicorn"}


def examples(page: str) -> list[tuple[str, str]]:
    return PYTHON.findall((GUIDES / f"{page}.md").read_text(encoding="utf-8"))


def needs(*names: str) -> None:
    for name in names:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: `just test-frameworks newest` has it")


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, check=False, cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("page", SERVERS)
def test_the_first_example_limits_as_its_page_shows(page: str, tmp_path: Path) -> None:
    needs(page, SERVERS[page])
    (tmp_path / "main.py").write_text(examples(page)[0][1], encoding="utf-8")
    (shown,) = ANSWER.findall((GUIDES / f"{page}.md").read_text(encoding="utf-8"))
    head, _, body = shown.partition("\n\n")
    status, *fields = head.splitlines()
    with serving(SERVERS[page], "main:app", tmp_path) as served:
        first, *more = [served.get("/answer", X_API_Key="key-of-ann") for _ in range(3)]
        bob, nobody = (served.get("/answer", X_API_Key=key) for key in ("key-of-bob", "guessed"))
    assert status.split()[1] == str(first.status)
    assert {
        name.lower(): text for name, text in (field.split(": ", 1) for field in fields)
    }.items() <= first.headers.items()
    assert first.body.strip() == body.strip().encode()
    assert [answer.status for answer in more] == [200, 429]
    assert more[1].headers["content-type"] == "application/problem+json"
    assert 0 < int(more[1].headers["retry-after"]) <= 30
    assert (bob.status, nobody.status) == (200, 401)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    "page", ["fastapi", "flask", "hierarchy", "outages", "shadow", "streaming", "waiting", "workers"]
)
def test_every_example_has_types_that_mypy_accepts(page: str, tmp_path: Path) -> None:
    needs("mypy", "fastapi", "flask")
    for number, (_, code) in enumerate(examples(page)):
        (tmp_path / f"example_{number}.py").write_text(code, encoding="utf-8")
    done = run([sys.executable, "-m", "mypy", "--strict", "."], tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.long
@pytest.mark.slow
def test_the_chat_settles_what_it_has_streamed(tmp_path: Path) -> None:
    needs("fastapi", "uvicorn")
    code = examples("streaming")[1][1].replace('per_minute("tpm"', 'per_day("tpm"')  # which does not refill meanwhile
    (tmp_path / "main.py").write_text(code, encoding="utf-8")
    with serving("uvicorn", "main:app", tmp_path) as served:
        first, second = (served.post("/chat", {"text": "tell me more"}) for _ in range(2))
    words = [json.loads(line[6:])["choices"][0]["delta"]["content"] for line in first.body.decode().splitlines()[::2]]
    assert "".join(words) == "tell me more "
    assert first.headers["ratelimit-policy"] == '"tpm";q=10000;qu="tokens";w=86400'
    assert first.headers["ratelimit"] == '"tpm";r=9794;t=9'
    assert second.headers["ratelimit"] == '"tpm";r=9784;t=9'  # 6 of the prompt and 4 of the words were used, of 206


@pytest.mark.long
@pytest.mark.slow
def test_the_chat_is_cut_where_its_tokens_end(tmp_path: Path) -> None:
    needs("fastapi", "uvicorn")
    code = examples("streaming")[1][1].replace('per_minute("tpm", 10_000)', 'per_day("tpm", 900)')
    (tmp_path / "main.py").write_text(code, encoding="utf-8")
    with serving("uvicorn", "main:app", tmp_path) as served:
        answer = served.post("/chat", {"text": "a " * 1000}).body.decode()
    assert answer.endswith("data: [DONE]\n\n")
    last = json.loads(answer.split("data: ")[-2])
    assert (last["choices"][0]["finish_reason"], last["rate_limit"]["reason"]) == ("length", "rate")
    assert last["usage"]["total_tokens"] in (900, 901)


@pytest.mark.long
@pytest.mark.slow
def test_the_tests_of_the_guide_pass(tmp_path: Path) -> None:
    for name, code in examples("testing"):
        if name != "test_table.py" and not re.search("zae_limiter_cli|moto", code):  # those are the CLI's
            with (tmp_path / name).open("a", encoding="utf-8") as file:  # conftest.py comes in two parts
                file.write(code)
    done = run([sys.executable, "-m", "pytest", "-q"], tmp_path)
    assert done.returncode == 0, done.stdout
