import json
import logging
import threading

import pytest

from zae_limiter.exceptions import InvalidIdentifierError
from zae_limiter.maintenance import log_as_json
from zae_limiter.operations.errors import Unreadable
from zae_limiter_aggregator.parallel import Task, run_all


def fails() -> bool:
    raise OSError("no route")


def test_all_parts_run_and_tell_whether_they_changed_anything() -> None:
    tasks = [Task("snapshots", lambda: True, ("1",)), Task("refills", lambda: False)]
    assert [(done.changed, done.problem) for done in run_all(tasks)] == [(True, None), (False, None)]


def test_one_that_fails_is_told_and_leaves_the_others_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        done = run_all([Task("snapshots", fails, ("1",)), Task("snapshots", lambda: True, ("2",))], writers=1)
    assert [(each.changed, each.problem) for each in done] == [(False, "OSError: no route"), (True, None)]
    assert "snapshots" in caplog.text


ID = "user-4711"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Unreadable(f"ns/BUCKET#{ID}#r#0", "#STATE", "rf is not a number"), "Unreadable: rf is not a number"),
        (InvalidIdentifierError("entity", ID, "is too long"), "InvalidIdentifierError: is too long"),
        (KeyError(ID), "KeyError"),
        (ValueError(f"invalid literal for int() with base 10: '{ID}'"), "ValueError"),
        (OSError("no route"), "OSError: no route"),
    ],
)
def test_what_failed_is_told_and_logged_without_an_id(
    error: Exception, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> int:
        raise error

    log_as_json("zae_limiter_aggregator.parallel")
    (done,) = run_all([Task("snapshots", fail, ("1",))])
    line = json.loads(capsys.readouterr().out)
    assert (done.problem, line["problem"], "in fail" in line["places"]) == (told, told, True)
    assert ID not in json.dumps(line)


def test_they_run_at_the_same_time() -> None:
    meeting = threading.Barrier(8, timeout=30)

    def meets() -> bool:
        meeting.wait()
        return True

    assert all(done.changed for done in run_all([Task("snapshots", meets)] * 8))


def test_nothing_to_do_starts_no_thread() -> None:
    assert run_all([]) == []
