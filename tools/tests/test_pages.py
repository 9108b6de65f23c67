"""What lives here: what the pages of the docs name is there: commands, calls of AWS, files of YAML, names of the code.
Each block of shell is run by a test, or says why not.
What never does: what a command does (tests-integration/tests), what a manifest says (manifest/tests).
"""

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import botocore.session
import click
import pytest
import yaml
from botocore import xform_name
from botocore.model import ServiceModel

from zae_limiter_cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "packages/*/README.md", "examples/*/README.md")
    for page in ROOT.glob(pattern)
)
BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
SHELL = {"sh", "bash"}
# of the aws command, of no service, or with other names of options there
OF_THE_COMMAND_LINE = {("cloudformation", "deploy"), ("logs", "tail"), ("s3", "cp"), ("sns", "subscribe")}
OF_EVERY_CALL = {"query", "output", "region"}

CLI, CORE, WHOLE = "packages/zae-limiter-cli/tests", "packages/zae-limiter-core/tests", "tests-integration/tests"
RUN_BY = {  # pages whose blocks of shell a test runs
    "README.md": f"{WHOLE}/test_readme.py",
    "docs/aggregator.md": f"{CLI}/behaviour/commands/test_usage_pages.py",
    "docs/cli.md": f"{WHOLE}/test_cli_page.py",
    "docs/guides/billing.md": f"{CLI}/behaviour/commands/test_usage_pages.py",
    "docs/guides/fastapi.md": f"{CORE}/frameworks/test_guides.py",
    "docs/local.md": f"{WHOLE}/test_local_page.py",
    "docs/operate/accounts.md": f"{CLI}/behaviour/test_other_accounts.py",
    "docs/operate/cost.md": f"{CLI}/behaviour/commands/test_usage_pages.py",
    "docs/operate/deploy.md": f"{WHOLE}/test_deploy_page.py",
    "docs/operate/disaster-recovery.md": f"{WHOLE}/test_recovery_page.py",
    "docs/operate/pull-requests.md": f"{WHOLE}/test_operators_page.py",
    "docs/operate/refused.md": f"{WHOLE}/test_refused_page.py",
    "docs/operate/regions.md": f"{CLI}/behaviour/limits/test_shares.py",
    "docs/operate/upgrade.md": f"{WHOLE}/test_deploy_page.py",
    "docs/start/fastapi.md": f"{WHOLE}/test_start_pages.py",
    "docs/start/file.md": f"{WHOLE}/test_start_pages.py",
    "docs/start/stack.md": f"{WHOLE}/test_start_pages.py",
}
NOT_RUN = {  # pages whose blocks of shell no test runs, and why
    "CONTRIBUTING.md": "it is how the tests themselves are run",
    "docs/benchmarks.md": "the benchmarks take twenty minutes",
    "docs/contribute/releasing.md": "it pushes a release; `just rehearse-release` plays it",
    "docs/guides/gateway.md": "it serves; `just examples` runs the example's own tests",
    "docs/guides/flask.md": "it installs and serves; the application is tested in frameworks/test_guides.py",
    "docs/guides/frameworks.md": "it installs Django",
    "docs/guides/llm.md": "it installs clients, and one block needs a provider's key",
    "docs/guides/mcp.md": "it installs the library",
    "docs/guides/tiers.md": "its files are only in the text",
    "docs/guides/quotas.md": "it changes a stack; the texts of its limits are parsed here",
    "docs/guides/sqlite.md": "its file of limits is the reader's",
    "docs/install.md": "it installs; `just install-beside` and tools/tests/test_dist.py do so",
    "docs/metrics.md": "it installs exporters; the programs below it are run",
    "docs/operate/alarms.md": "it deploys with names of somebody's topic and bus",
    "docs/operate/least-privilege.md": "it needs IAM, which the emulators do not enforce",
    "docs/reliability.md": "its runs take minutes to hours",
    "docs/start/memory.md": "it runs a program of the page, which test_readme.py runs",
    "packages/zae-limiter-cli/README.md": "it needs a terminal and a table",
    **{
        f"docs/operate/runbooks/{page.name}": "it asks CloudWatch and Lambda of AWS"
        for page in (ROOT / "docs/operate/runbooks").glob("*.md")
    },
    **{
        str(page.relative_to(ROOT)): "`just examples` runs the example's own tests"
        for page in ROOT.glob("examples/*/README.md")
    },
}

OF_OTHERS = {
    "APIKeyHeader",
    "AuthenticationMiddleware",
    "ConcurrentExecutions",
    "CreateServiceLinkedRole",
    "KeyRangeThroughput",
    "GetRole",
    "CreateGrant",
    "DescribeKey",
    "credential_source",
    "GlobalSecondaryIndexName",
    "UpdateTable",
    "AWS_CSM_ENABLED",
    "AWS_DEFAULTS_MODE",
    "AWS_ENABLE_ENDPOINT_DISCOVERY",
    "auth_scheme_preference",
    "client_cert",
    "proxy_ca_bundle",
    "key_func",
    "shared_limit",
    "exempt_when",
    "headers_enabled",
    "storage_uri",
    "in_memory_fallback",
    "tpm_limit",
    "BackendTrafficPolicy",
    "burst_limit",
    "share_threshold",
    "shadow_mode",
    "window_size",
    "guided_json",
    "forward_client_headers_to_llm_api",
    "forward_llm_provider_auth_headers",
    "background_health_checks",
    "assistants_config",
    "pass_through_endpoints",
    "bash_source",
    "zsh_source",
    "fish_source",
    "limiter_in_memory",
    "GSInPK",
    "GSInSK",
    "FAIL_OPEN",
    "temp_budget_increase",
    "SyncX",
    "StackOperationError",
    "RefillAmount",
    "m_1",
    "m_p",
    "c_i",
    "c_0",
    "minted_k",
    "C_k",
    "x_i",
    "part_i",
}
OF_A_NAME = {
    "_counted_1",
    "rj_acme",
    "_refused_by_acme",
    "_000_000",
    "_lost_its_shard",
    "before_on_refused",
    "admitted_below",
}
"""Names that the code puts together, and parts of values."""
OF_METRICS = re.compile(r"zae_limiter_\w+_(seconds|total)$")  # as Prometheus spells the names of instruments


def texts() -> Iterator[str]:
    """The text of each file that the project's own names are in."""
    endings = {".py", ".toml", ".yml", ".yaml", ".json", ".html", ".js", ".ts", ".tf", ""}
    for folder in ("packages", "tools", "tests-integration", "benchmarks", "examples", ".github", "."):
        for path in (ROOT / folder).glob("**/*" if folder != "." else "*"):
            in_project = path.is_file() and not {".venv", "node_modules", "__pycache__"} & set(path.parts)
            if in_project and path.suffix in endings:
                yield f"{path.stem} {path.read_text(encoding='utf-8', errors='replace')}"


@pytest.fixture(scope="module")
def names() -> set[str]:
    return {name for text in texts() for name in re.findall(r"\w+", text)} | OF_OTHERS | OF_A_NAME


def unknown(text: str, names: set[str]) -> set[str]:
    """The identifiers in code spans of a page that no file of the project has."""
    spans = SPAN.findall(BLOCK.sub("", text))
    found = {name for span in spans for name in re.findall(r"[A-Za-z_]\w*", span)}
    looks_like_code = {name for name in found if "_" in name.strip("_") or re.search(r"[a-z][A-Z]", name)}
    return {name for name in looks_like_code - names if not OF_METRICS.match(name)}


def in_project(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=in_project)
def test_an_identifier_of_a_page_is_in_the_code(page: Path, names: set[str]) -> None:
    assert unknown(page.read_text(encoding="utf-8"), names) == set()


def test_an_identifier_that_nobody_has_is_found(names: set[str]) -> None:
    text = "Call `limiter.acquire_" + "nothing()`.\n\n```python\nsome_" + "thing_else\n```\n"
    assert unknown(text, names) == {"acquire_" + "nothing"}


def blocks(page: Path, *languages: str) -> Iterator[str]:
    for _, language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language in languages:
            yield text


@pytest.mark.parametrize("page", PAGES, ids=in_project)
def test_a_block_of_yaml_or_json_is_that(page: Path) -> None:
    for text in blocks(page, "yaml", "json"):
        assert list(yaml.load_all(text, Loader=yaml.BaseLoader))


def test_a_block_of_shell_is_run_or_says_why_not() -> None:
    with_blocks = {in_project(page) for page in PAGES if any(blocks(page, *SHELL))}
    assert RUN_BY.keys() | NOT_RUN.keys() >= with_blocks
    assert with_blocks >= RUN_BY.keys() | NOT_RUN.keys()
    assert not RUN_BY.keys() & NOT_RUN.keys()


@pytest.mark.parametrize("page", RUN_BY)
def test_the_test_that_runs_a_page_reads_it(page: str) -> None:
    text = (ROOT / RUN_BY[page]).read_text(encoding="utf-8")
    assert Path(page).stem in text


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each command of a page's blocks."""
    for block in blocks(page, "sh", "bash", "text", "console"):
        for line in block.replace("\\\n", " ").splitlines():
            command = line.strip().removeprefix("$ ").removeprefix("uv run ")
            if command.startswith(("zae-limiter ", "aws ")):
                yield first_command(shlex.split(command, comments=True))


def mentions(page: Path) -> Iterator[list[str]]:
    """The words of each command that a page's text names, with all that it needs or without."""
    for span in SPAN.findall(BLOCK.sub("", page.read_text(encoding="utf-8"))):
        if span.startswith(("zae-limiter ", "aws ")) and not re.search(r"[…[$(]|\\\|", span):
            yield first_command(shlex.split(span))


def first_command(words: list[str]) -> list[str]:
    """The words up to the next command, or the file that the output goes to."""
    ends = [words.index(each) for each in ("&&", "||", "|", ";", ">") if each in words]
    return words[: min(ends, default=len(words))]


@pytest.mark.parametrize("page", PAGES, ids=in_project)
def test_every_command_of_a_page_is_one_with_its_options(page: Path) -> None:
    for words in commands(page):
        check(words)
    for words in mentions(page):
        with suppress(click.MissingParameter):
            check(words)


def check(words: list[str]) -> None:
    """Raise what the program would say to these words; nothing is carried out."""
    if words[0] == "zae-limiter":
        parse(words[1:])
    elif words[2] == "wait":
        assert xform_name(words[3]) in {xform_name(name, "-") for name in waiters(words[1])}, words
    elif (words[1], words[2]) not in OF_THE_COMMAND_LINE:
        given = {word.removeprefix("--").partition("=")[0] for word in words[3:] if word.startswith("--")}
        assert given - OF_EVERY_CALL <= options_of(words[1], words[2]), words


def parse(words: list[str]) -> None:
    """Raise what the command line would say to these words; nothing is carried out."""
    command: click.Command = main
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, words
        command, words = found, words[1:]
    if not isinstance(command, click.Group):
        command.make_context("command", list(words))


@cache
def service(name: str) -> ServiceModel:
    return botocore.session.get_session().get_service_model(name)


@cache
def waiters(name: str) -> list[str]:
    return list(botocore.session.get_session().get_waiter_model(name).waiter_names)


def options_of(service_name: str, operation: str) -> set[str]:
    """The options of a call, as the aws command spells them. Raises for a call that there is not."""
    names = {xform_name(name, "-"): name for name in service(service_name).operation_names}
    members = service(service_name).operation_model(names[operation]).input_shape.members
    return {xform_name(member, "-") for member in members} | {f"no-{xform_name(member, '-')}" for member in members}


@pytest.mark.parametrize(
    "line", ["deploy --no-such-option", "limits applied", "limits unlock", "deploy --batch-size x"]
)
def test_a_command_that_is_none_would_be_found(line: str) -> None:
    with pytest.raises((click.UsageError, AssertionError)):
        parse(line.split())
