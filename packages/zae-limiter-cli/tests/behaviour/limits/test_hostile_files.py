"""Files that are planted, endless or nested without end: what is read of them, and where results are written."""

import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.cli.limits_stack import Stack
from zae_limiter_cli.inputs import read_head
from zae_limiter_cli.limits import files, saved
from zae_limiter_cli.main import main
from zae_limiter_cli.results import _open_beside, write_file, writing
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
        told = f"Error: {out}: this is a symbolic link, and the command writes to none: pass the name of a file\n"
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
    for path, told in ((link, "this is a symbolic link"), (pipe, "not an ordinary file")):
        done = CliRunner().invoke(main, ["lambda-export", "provisioner", "--out", str(path)])
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


def names_in(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


@posix
def test_what_a_killed_command_left_is_removed_and_what_another_writes_is_not(tmp_path: Path) -> None:
    target = tmp_path / "out"
    (tmp_path / ".out.0").write_text("torn")
    (tmp_path / ".out.1").write_text("torn")
    with writing(target) as ours:
        assert names_in(tmp_path) == [".out.0"]
        write_file(target, "theirs")
        assert (names_in(tmp_path), target.read_text()) == ([".out.0", "out"], "theirs")
        ours.write(b"ours")
    assert (names_in(tmp_path), target.read_text()) == (["out"], "ours")


@posix
def test_commands_that_write_one_file_at_once_while_some_are_killed_leave_it_whole(tmp_path: Path) -> None:
    target = tmp_path / "out"

    def write(number: int) -> None:
        for turn in range(100):
            if turn % 10 == number:
                _, descriptor = _open_beside(target, 0o600)
                os.close(descriptor)  # as a process that is killed does
            write_file(target, f"{number}-{turn}\n" * 5_000)

    with ThreadPoolExecutor(4) as pool:
        begun = [pool.submit(write, number) for number in range(4)]
        while not all(each.done() for each in begun):
            lines = target.read_text().splitlines() if target.exists() else []
            assert not lines or (len(lines), len(set(lines))) == (5_000, 1)
        for each in begun:
            each.result()
    write_file(target, "last")
    assert names_in(tmp_path) == ["out"]


@posix
def test_what_a_killed_command_left_goes_also_where_the_names_before_it_are_free(tmp_path: Path) -> None:
    (tmp_path / ".out.2").write_text("half")
    write_file(tmp_path / "out", "new")
    assert names_in(tmp_path) == ["out"]


@posix
def test_nothing_that_is_planted_beside_a_result_is_followed_removed_or_waited_for(tmp_path: Path) -> None:
    target, victim = tmp_path / "out", tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".out.0").symlink_to(victim)
    os.mkfifo(tmp_path / ".out.1")
    write_file(target, "new")
    assert (target.read_text(), victim.read_text()) == ("new", "precious")
    assert names_in(tmp_path) == [".out.0", ".out.1", "out", "victim"]
    for number in range(2, 100):
        (tmp_path / f".out.{number}").symlink_to(victim)
    with pytest.raises(FileExistsError, match=r"100 files beside it are in the way, such as \.out\.0: '.+out'"):
        write_file(target, "newer")
    assert (target.read_text(), victim.read_text()) == ("new", "precious")


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


def test_a_plan_file_of_too_many_values_is_one_line(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "MOST_VALUES", 1_000)
    out = stack.write('{"plan": [' + "{}, " * 1_000 + "0]}", "alpha.plan")
    assert "(cannot be read: it has more than 1000 keys and values)" in stack.error("apply", "--yes", out)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="there is no file that cannot be read")
@pytest.mark.parametrize("words", [("apply", "--yes"), ("validate", "-f"), ("apply", "--yes", "-f")])
def test_a_file_that_cannot_be_read_is_one_line_that_names_it(stack: Stack, words: tuple[str, ...]) -> None:
    assert stack.error(*words, "/proc/self/mem") == "/proc/self/mem: Input/output error\n"


SECRET = "root:hunter2:0:0"


@posix
@pytest.mark.parametrize("command", [("validate",), ("plan",), ("diff",), ("apply", "--yes")], ids=" ".join)
def test_no_link_below_a_directory_is_followed(stack: Stack, command: tuple[str, ...]) -> None:
    secret, below = stack.directory / "secret", stack.directory / "limits" / "team"
    secret.write_text(SECRET)
    below.mkdir(parents=True)
    (below / "alpha.yaml").write_text(ALPHA)
    link = below / "beta.yaml"
    link.symlink_to(secret)
    told = f"{link}: a symbolic link, which is not followed: pass its target with -f\n"
    assert stack.error(*command, "-f", str(below.parent)) == told


@posix
def test_a_linked_directory_below_a_directory_is_left_out(stack: Stack) -> None:
    outside, inside = stack.directory / "outside", stack.directory / "limits"
    for each in (outside, inside):
        each.mkdir()
    (outside / "beta.yaml").write_text(SECRET)
    (inside / "alpha.yaml").write_text(ALPHA)
    (inside / "linked").symlink_to(outside)
    assert stack.ok("validate", "-f", str(inside)).startswith("tenant-alpha: valid")


@posix
def test_a_file_that_becomes_a_link_before_it_is_read_is_not_followed(stack: Stack) -> None:
    place = stack.directory / "alpha.yaml"
    place.symlink_to(stack.write(ALPHA, "target"))
    with pytest.raises(OSError, match=r"alpha\.yaml"):
        read_head(place, 100, follow=False)
    assert read_head(place, 9) == b"namespace"


def test_a_file_that_is_no_manifest_is_named_and_not_shown(stack: Stack) -> None:
    told = stack.error("validate", "-f", stack.write(SECRET, "passwd"))
    assert told.endswith("passwd:1:1: (document): must be a map, not a scalar\n")


def test_a_directory_of_everything_is_refused_before_anything_is_read(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_ENTRIES", 3)
    for name in "abcd":
        stack.write(ALPHA.replace("alpha", name), f"{name}.yaml")
    told = stack.error("diff", "-f", str(stack.directory))
    assert told.startswith(f"{stack.directory}: there are more than 3 files in this directory")


def test_files_that_are_too_large_together_are_read_up_to_the_bound(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 10)
    names = [stack.write("12345678", name) for name in ("a.yaml", "b.yaml", "c.yaml")]
    assert [(name, len(text)) for name, text in files.read_files(names)] == [(names[0], 8), (names[1], 3)]


def test_of_very_many_mistakes_the_first_are_printed(stack: Stack) -> None:
    out = stack.write("namespace: a\n" + "x: 1\n" * 5_000)
    assert stack.error("validate", "-f", out).splitlines()[-1] == f"{out}: (document): and 4,000 more mistakes"
