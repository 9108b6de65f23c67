"""Files that are planted, endless or nested without end: what is read of them, and where results are written."""

import os
import stat
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.cli.limits_stack import Stack
from zae_limiter_cli.limits import saved
from zae_limiter_cli.main import main
from zae_limiter_cli.results import write_file
from zae_limiter_manifest import LimitsManifest, Plan

ALPHA = "namespace: tenant-alpha\nresources: {gpt-4: {limits: {rpm: {capacity: 1}}}}\n"

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other modes and links")


@posix
def test_only_its_owner_reads_a_saved_plan(stack: Stack) -> None:
    out = stack.directory / "alpha.plan"
    out.write_text("an older plan")
    out.chmod(0o644)
    stack.ok("plan", "-f", stack.write(ALPHA), "--out", str(out))
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert sorted(each.name for each in stack.directory.iterdir()) == ["alpha.plan", "alpha.yaml"]


@posix
@pytest.mark.parametrize("name", ["alpha.plan", ".alpha.plan.new"])
def test_no_planted_link_is_followed(stack: Stack, name: str) -> None:
    victim = stack.directory / "victim"
    victim.write_text("precious")
    (stack.directory / name).symlink_to(victim)
    out = stack.directory / "alpha.plan"
    done = stack.run("plan", "-f", stack.write(ALPHA), "--out", str(out))
    assert victim.read_text() == "precious"
    if name == "alpha.plan":
        told = f"Error: {out}: this is a symbolic link, which is not written to: pass the name of a file\n"
        assert (done.exit_code, done.stdout, done.stderr) == (1, "", told)
        assert out.is_symlink()
    else:
        assert (done.exit_code, out.is_symlink()) == (0, False)


@posix
def test_no_link_is_followed_by_other_results(stack: Stack) -> None:
    stack.ok("apply", "--yes", "-f", stack.write(ALPHA))
    victim, link = stack.directory / "victim", stack.directory / "tenant-alpha.template.yaml"
    link.symlink_to(victim)
    for words in (
        ("export", "-N", "tenant-alpha", "--out", str(link)),
        ("cfn-template", "-f", stack.write(ALPHA), "--out", str(stack.directory)),
    ):
        assert "this is a symbolic link" in stack.error(*words)
    assert not victim.exists()


@posix
def test_the_code_of_a_lambda_is_written_to_no_link_and_over_no_device(tmp_path: Path) -> None:
    victim, link, pipe = tmp_path / "victim", tmp_path / "link.zip", tmp_path / "pipe"
    victim.write_text("precious")
    link.symlink_to(victim)
    os.mkfifo(pipe)
    for path, told in ((link, "this is a symbolic link"), (pipe, "this is no ordinary file")):
        done = CliRunner().invoke(main, ["lambda-export", "provisioner", "-f", str(path)])
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.startswith(f"Error: {path}: {told}")
    assert (victim.read_text(), link.is_symlink(), pipe.is_fifo()) == ("precious", True, True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link.zip", "pipe", "victim"]


def test_a_result_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("before")
    with pytest.raises(UnicodeEncodeError):
        write_file(target, "\ud800")
    assert ([*tmp_path.iterdir()], target.read_text()) == ([target], "before")


@pytest.mark.parametrize("opening", ["[", '{"plan":'])
def test_a_plan_file_of_very_many_brackets_is_one_line(stack: Stack, opening: str) -> None:
    out = stack.write(opening * 200_000, "alpha.plan")
    told = stack.error("apply", "--yes", out)
    assert told == (
        f"{out}: not a plan saved by `limits plan --out` (it is nested too deep); pass a manifest with -f\n"
    )


def test_a_manifest_of_very_many_brackets_is_one_line(stack: Stack) -> None:
    out = stack.write("[" * 200_000)
    assert stack.error("apply", "--yes", "-f", out).count("\n") == 1


def test_a_plan_file_that_is_too_large_is_one_line(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "MAX_BYTES", 1_000_000)
    out = stack.write("1" * 1_000_001, "alpha.plan")
    assert "(it is larger than 1 MB)" in stack.error("apply", "--yes", out)


@pytest.mark.parametrize("stack_name", ["a\ud800", "a\x1b[2J", 5])
def test_a_plan_file_of_a_stack_without_a_name_is_one_line(stack: Stack, stack_name: object) -> None:
    out = stack.directory / "alpha.plan"
    manifest = LimitsManifest("tenant-alpha")
    saved.SavedPlan(stack_name, manifest, Plan("tenant-alpha")).write(out)  # type: ignore[arg-type]
    assert "(its stack is not a name)" in stack.error("apply", "--yes", str(out))


def test_what_a_plan_file_holds_is_told_shortly_and_without_control_characters(stack: Stack) -> None:
    out = stack.write('{"kind": "\\u001b[2J\\ud800' + "x" * 10_000 + '", "schema_version": 1}', "alpha.plan")
    told = stack.error("apply", "--yes", out)
    assert "(it is \\x1b[2J\\ud800xxx" in told
    assert len(told) < 500


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no endless file")
def test_an_endless_manifest_is_one_line(stack: Stack) -> None:
    assert stack.error("validate", "-f", "/dev/zero") == (
        "/dev/zero: (document): is larger than 10 MB: move limits that many entities share into a resource\n"
    )


def test_endless_standard_input_is_one_line(stack: Stack) -> None:
    done = stack.run("validate", "-f", "-", input="x" * 10_000_001)
    assert (done.exit_code, done.stderr.startswith("<stdin>: (document): is larger than 10 MB")) == (1, True)
