"""No line of the aggregator's log has the key or a value of an item, whoever writes the line."""

import ast
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import zae_limiter
from support.aggregator.damage import WITH_QUEUE, image
from support.aggregator.lives import Life
from support.aggregator.streams import record
from zae_limiter.maintenance import BucketId, split_shard
from zae_limiter.operations.errors import ConditionFailed, OutcomeUnknown, Unreadable
from zae_limiter_aggregator import handler
from zae_limiter_aggregator.problems import problem_of

ID = "jane.doe@example.com"
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
SOURCE = Path(zae_limiter.__file__).parent
SPEC = re.compile(r"%[-#0 +]*[0-9]*(?:\.[0-9]+)?([a-z])")


def calls() -> Iterator[tuple[str, ast.expr]]:
    """Each place of core that writes a log line, with the message."""
    for path in sorted(set(SOURCE.rglob("*.py")) - {SOURCE / "runtime" / "log_throttle.py"}):  # it logs for its callers
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            place = f"{path.relative_to(SOURCE)}:{node.lineno}"
            if isinstance(node.func, ast.Name) and node.func.id in {"Log", "DroppedRows"}:
                yield place, node.args[2]
            elif isinstance(node.func, ast.Name) and node.func.id == "warn_once":
                yield place, node.args[1]
            elif (
                isinstance(node.func, ast.Attribute)
                and node.func.attr in LEVELS
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id in {"log", "logger"}
            ):
                yield place, node.args[node.func.attr == "log"]


MESSAGES = dict(calls())


def is_constant(message: ast.expr) -> bool:
    return isinstance(message, ast.Constant) or (isinstance(message, ast.Name) and message.id.isupper())


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Any:
    handler._set_up_logs()
    return lambda: capsys.readouterr().out


def test_the_message_of_every_line_of_core_is_constant_so_that_what_fills_it_can_be_left_out() -> None:
    assert len(MESSAGES) > 40
    made = {
        place: ast.unparse(message)
        for place, message in MESSAGES.items()
        if not all(map(is_constant, [message.body, message.orelse] if isinstance(message, ast.IfExp) else [message]))
    }
    assert made == {}


def test_every_line_of_core_is_written_without_what_fills_it(lines: Any) -> None:
    """Whether or not the aggregator comes to it today."""
    texts = {str(each.value) for each in MESSAGES.values() if isinstance(each, ast.Constant)}
    for text in texts:
        values = [ID if kind in "sr" else 7 for kind in SPEC.findall(text)]
        errors = [OSError(ID) if kind in "sr" else 7 for kind in SPEC.findall(text)]
        for filling in (values, errors):
            try:
                raise ValueError(ID)
            except ValueError:
                logging.getLogger("zae_limiter.flows").exception(text, *filling)
    told = lines()
    assert len(told.splitlines()) == 2 * len(texts)
    assert all(json.loads(each)["message"] for each in told.splitlines())
    assert ID not in told


def test_a_split_is_told_without_its_bucket(lines: Any) -> None:
    life = Life(WITH_QUEUE)
    with life.limiter.acquire(ID, "gpt-4", {"rpm": 1}):
        pass
    bucket = BucketId(life.repository.namespace_id, ID, "gpt-4")
    assert life.repository.driver.run(split_shard(bucket, stack="demo", now=life.clock.now_ms)) == 1
    (line,) = map(json.loads, lines().splitlines())
    assert line["message"] == "shard 0 of bucket ... was split: it is one of 2 now"


@pytest.mark.parametrize("name", [f"rj_{ID}/rpm", f"b_{ID} x_tc", ID])
def test_the_name_of_an_attribute_is_not_told(name: str, lines: Any) -> None:
    life = Life(WITH_QUEUE)
    broken = image(life, "e", 1, **{name: 1})
    change = record(7, None, broken)
    change["dynamodb"]["NewImage"][name] = {"N": "1.5"}
    result = life.take([change])
    handler._log(result, "demo")
    told = lines()
    assert json.loads(told.splitlines()[0])["sequence"] == "7"
    assert ID not in told


@pytest.mark.parametrize(
    "error",
    [
        Unreadable("ns/A", "s", f"{ID!r} is not a number"),
        Unreadable("ns/A", "s", f"it has no rj_{ID}/rpm"),
        OutcomeUnknown(f"the answer has another item than 'ns/ENTITY#{ID}', '#META'"),
        ConditionFailed({"PK": ID}),
        OSError(f"not authorized to perform: s3:PutObject on arn:aws:s3:::b/audit/ns/{ID}/1.jsonl.gz because"),
        OSError(f'no route to "it\'s {ID}"'),
    ],
    ids=str,
)
def test_an_error_is_told_without_what_it_quotes(error: Exception) -> None:
    assert ID not in problem_of(error)
    assert problem_of(error).startswith(type(error).__name__)
