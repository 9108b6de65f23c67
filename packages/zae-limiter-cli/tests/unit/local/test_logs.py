from pathlib import Path

import pytest

from zae_limiter_cli.local.logs import Line, Logs

FIRST, SECOND, THIRD = (f"2026-11-20T12:00:0{second}.000Z" for second in (1, 2, 3))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "a.log").write_text(f"{FIRST} one\n{THIRD} three\n")
    (tmp_path / "b.log").write_text(f"{SECOND} two words\n")
    return tmp_path


def test_lines_of_all_functions_come_in_order_of_time(directory: Path) -> None:
    assert Logs(directory).new() == [
        Line(FIRST, "a", "one"),
        Line(SECOND, "b", "two words"),
        Line(THIRD, "a", "three"),
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("REPORT RequestId: 1", ["REPORT RequestId: 1"]),
        (
            '{"level": "INFO", "logger": "x", "message": "counted 3", "duration_ms": 7, "why": "a b", "of": "gpt-4"}',
            ['INFO counted 3 duration_ms=7 why="a b" of=gpt-4'],
        ),
        (
            '{"level": "ERROR", "message": "failed", "exception": "Traceback:\\n  line 1\\nKeyError"}',
            ["ERROR failed", "Traceback:", "  line 1", "KeyError"],
        ),
        ('{"message": 3}', ['{"message": 3}']),
        ('{"no": "message"}', ['{"no": "message"}']),
        ("{torn", ["{torn"]),
        ("[" * 9, ["[" * 9]),
    ],
)
def test_json_of_a_lambda_is_shown_as_text(text: str, shown: list[str]) -> None:
    assert Line(FIRST, "a", text).shown() == shown


def test_lines_of_one_moment_keep_their_order(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(f"{FIRST} START\n{FIRST} END\n{FIRST} REPORT\n")
    assert [line.text for line in Logs(tmp_path).new()] == ["START", "END", "REPORT"]


def test_one_function_alone_may_be_asked_for(directory: Path) -> None:
    assert Logs(directory, "b").new() == [Line(SECOND, "b", "two words")]
    assert Logs(directory).sources() == ["a", "b"]


def test_the_end_of_a_function_s_name_is_enough(directory: Path) -> None:
    (directory / "my-app-aggregator.log").write_text(f"{FIRST} one\n")
    assert Logs(directory, "aggregator").sources() == ["my-app-aggregator"]
    assert Logs(directory, "gregator").sources() == []


def test_what_was_read_does_not_come_again_and_half_a_line_not_yet(directory: Path) -> None:
    logs = Logs(directory)
    logs.new()
    with (directory / "b.log").open("a") as file:
        file.write(f"{THIRD} whole\n{THIRD} ha")
        file.flush()
        assert logs.new() == [Line(THIRD, "b", "whole")]
        file.write("lf\n")
    assert logs.new() == [Line(THIRD, "b", "half")]


def test_following_ends_with_what_writes_and_misses_none_of_its_last_lines(directory: Path) -> None:
    logs, alive = Logs(directory, "a"), iter([True, False])

    def still() -> bool:
        if not (running := next(alive)):
            with (directory / "a.log").open("a") as file:
                file.write(f"{THIRD} last\n")
        return running

    assert [line.text for line in logs.follow(still)] == ["one", "three", "last"]
