import json
import os
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from io import BytesIO
from pathlib import Path

import pytest
from click.testing import CliRunner

from zae_limiter_cli.artifacts.builder import LAMBDAS, STAMP, LambdaName, build_artifact, distribution_name
from zae_limiter_cli.main import main

NEVER = ("boto3", "botocore", "aioboto3", "aiobotocore", "aiohttp")
BOTO3 = ("boto3", "botocore", "s3transfer", "jmespath", "urllib3", "dateutil", "six.py")
PACKAGES = {
    "aggregator": "zae_limiter_aggregator",
    "provisioner": "zae_limiter_provisioner",
    "planner": "zae_limiter_provisioner",
}
HANDLERS = {
    "aggregator": "zae_limiter_aggregator.handler.on_event",
    "provisioner": "zae_limiter_provisioner.handler.on_event",
    "planner": "zae_limiter_provisioner.handler.on_plan_event",
}
SITE = Path(str(distribution("boto3").locate_file("")))


@pytest.fixture(params=LAMBDAS)
def name(request: pytest.FixtureRequest) -> LambdaName:
    named: LambdaName = request.param
    return named


def names_in(content: bytes) -> list[str]:
    with zipfile.ZipFile(BytesIO(content)) as archive:
        assert archive.testzip() is None
        return archive.namelist()


def test_two_builds_are_the_same_bytes(name: LambdaName) -> None:
    assert build_artifact(name).content == build_artifact(name).content


def test_another_process_with_another_hash_seed_builds_the_same_bytes(name: LambdaName) -> None:
    ask = f"from zae_limiter_cli.artifacts.builder import build_artifact as b; print(b({name!r}).code_sha256)"
    other = subprocess.run(
        [sys.executable, "-c", ask],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo"},
    )
    assert other.stdout.strip() == build_artifact(name).code_sha256


def test_it_holds_no_client_nothing_compiled_and_little_else(name: LambdaName) -> None:
    artifact = build_artifact(name)
    names = names_in(artifact.content)
    assert not {entry.split("/")[0] for entry in names} & set(NEVER)
    assert not [entry for entry in names if entry.endswith((".so", ".pyd", ".pyc", ".pth"))]
    assert not [entry for entry in names if entry.startswith("zae_limiter/integrations/") or "/aio/" in entry]
    assert len(artifact.content) < 3_980_000  # stored, not compressed; core is 1_700_000 of it, warnings are 46_000


def test_it_holds_what_its_own_imports_need(name: LambdaName) -> None:
    packages = {entry.split("/")[0] for entry in names_in(build_artifact(name).content)}
    assert {"zae_limiter", PACKAGES[name]} <= packages
    assert ({"zae_limiter_manifest", "attr", "cattrs", "yaml"} <= packages) == (name != "aggregator")
    assert "zae_limiter_cli" not in packages


def test_it_is_stamped_with_its_versions(name: LambdaName) -> None:
    artifact = build_artifact(name)
    with zipfile.ZipFile(BytesIO(artifact.content)) as archive:
        stamp = json.loads(archive.read(STAMP))
    assert stamp["handlers"][name] == artifact.handler == HANDLERS[name]
    assert stamp["distributions"] == artifact.versions
    assert artifact.version == distribution(distribution_name(name)).version


def test_the_planner_has_the_provisioners_code_and_its_own_handler() -> None:
    provisioner, planner = build_artifact("provisioner"), build_artifact("planner")
    assert planner.content == provisioner.content
    assert planner.handler != provisioner.handler


def test_its_metadata_tells_version_and_requirements_and_no_description(name: LambdaName) -> None:
    artifact = build_artifact(name)
    with zipfile.ZipFile(BytesIO(artifact.content)) as archive:
        (found,) = [each for each in archive.namelist() if each.startswith(f"{PACKAGES[name]}-") and "METADATA" in each]
        headers = archive.read(found).decode()
    assert f"\nVersion: {artifact.version}\n" in headers
    assert "\nRequires-Dist: zae-limiter-core" in headers
    assert "\n\n" not in headers


@pytest.mark.long(keep=1)
def test_its_handler_runs_where_there_is_boto3_and_nothing_else(name: LambdaName, tmp_path: Path) -> None:
    artifact = build_artifact(name)
    code, runtime = tmp_path / "code", tmp_path / "runtime"
    with zipfile.ZipFile(BytesIO(artifact.content)) as archive:
        archive.extractall(code)
    runtime.mkdir()
    for part in BOTO3:
        (runtime / part).symlink_to(SITE / part)
    module, function = artifact.handler.rsplit(".", 1)
    program = (
        f"import sys; sys.path += [{str(code)!r}, {str(runtime)!r}]\n"
        f"import boto3, os; from {module} import {function} as handler\n"
        "os.environ['ZAEL_STACK'] = 'my-app'\n"
        "from zae_limiter.values.versions import core_version\n"
        "print(core_version(), handler({'Records': [], 'action': 'no such'}, None))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    version, answer = done.stdout.splitlines()[-1].split(" ", 1)  # behind its log
    assert version == distribution("zae-limiter-core").version
    assert answer.startswith("{")


def test_lambda_export_writes_what_the_builder_builds(name: LambdaName, tmp_path: Path) -> None:
    target = tmp_path / "code.zip"
    done = CliRunner().invoke(main, ["lambda-export", name, "--out", str(target)])
    assert done.exit_code == 0, done.output
    assert target.read_bytes() == build_artifact(name).content
    assert f"handler {HANDLERS[name]}, " in done.stdout


def test_lambda_export_to_where_it_may_not_write_is_one_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["lambda-export", "aggregator", "--out", str(tmp_path / "missing" / "code.zip")])
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [f"Error: {tmp_path / 'missing' / 'code.zip'}: No such file or directory"]
