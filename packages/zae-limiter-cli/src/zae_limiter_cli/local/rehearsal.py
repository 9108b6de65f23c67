"""Rehearse a failure on a local stack: break one part, call the limiter meanwhile, and put the part back.

What is broken shows where it would on AWS: in `status`, `doctor`, the logs, and in the answers of the calls.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from ..connection import Connection
from ..pages import RUNBOOKS
from .aws import forget_the_users_aws
from .state_dir import Running
from .status_client import TIMEOUT_SECONDS, put_throttle

NAMESPACE: Final = "rehearsal"
LINE_SECONDS: Final = 5.0
_WRONG: Final = {"ZAEL_REFILL_AFTER_SECONDS": "soon"}  # a setting that the aggregator cannot read

Break = Callable[[Running, Connection, float], Any]


@dataclass(frozen=True, slots=True)
class Scene:
    """A failure: what breaks, what to look at, and the runbook that ends it; ``publish`` has figures for CloudWatch."""

    about: str
    look: str
    runbook: str
    broken: Break
    publish: Callable[[Running, Connection, float], None] | None = None


@contextmanager
def _throttled(running: Running, _connection: Connection, seconds: float) -> Iterator[None]:
    """Throttle writes, which the stack ends by itself, too, should this process be killed."""
    put_throttle(running, seconds)
    try:
        yield
    finally:
        put_throttle(running, 0)


def _publish_throttled(running: Running, connection: Connection, seconds: float) -> None:
    """Publish how many writes were throttled since the last time, as DynamoDB does; go on for so many seconds."""
    figure = {
        "MetricName": "WriteThrottleEvents",
        "Dimensions": [{"Name": "TableName", "Value": running.name}],
        "Value": put_throttle(running, seconds),
    }
    connection.client("cloudwatch").put_metric_data(Namespace="AWS/DynamoDB", MetricData=[figure])


@contextmanager
def _stream_stopped(_running: Running, connection: Connection, _seconds: float) -> Iterator[None]:
    functions = connection.client("lambda")
    (mapping,) = functions.list_event_source_mappings(FunctionName=_aggregator(connection))["EventSourceMappings"]
    functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    try:
        yield
    finally:
        functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=True)


@contextmanager
def _aggregator_failing(_running: Running, connection: Connection, _seconds: float) -> Iterator[None]:
    functions, name = connection.client("lambda"), _aggregator(connection)
    kept = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    right = {variable: str(value) for variable, value in kept.items()}  # moto gives numbers
    functions.update_function_configuration(FunctionName=name, Environment={"Variables": {**right, **_WRONG}})
    try:
        yield
    finally:
        functions.update_function_configuration(FunctionName=name, Environment={"Variables": right})


SCENES: Final[Mapping[str, Scene]] = {
    "table-throttles": Scene(
        "The table throttles: it takes 5 writes a second, and refuses the others.",
        "zae-limiter status, `THROTTLED`; the latency and the failures below",
        "table-throttles",
        _throttled,
        _publish_throttled,
    ),
    "stream-stops": Scene(
        "The stream has stopped: its mapping to the aggregator is disabled.",
        "zae-limiter doctor; zae-limiter status, `usage counted up to`",
        "aggregator-iterator-age",
        _stream_stopped,
    ),
    "aggregator-fails": Scene(
        f"The aggregator fails: its variable {next(iter(_WRONG))} cannot be read.",
        "zae-limiter local logs aggregator; zae-limiter status",
        "aggregator-errors",
        _aggregator_failing,
    ),
}


def rehearse(running: Running, scene: Scene, seconds: float, rate: float, say: Callable[[str], None]) -> None:
    """Break a part of the stack for so many seconds, under `rate` calls a second, and put it back however it ends."""
    forget_the_users_aws(running.credentials)
    connection = Connection(running.name, region=running.region, endpoint_url=running.endpoint_url)
    say(scene.about)
    say(f"  look    {scene.look}")
    say(f"  runbook {RUNBOOKS}/{scene.runbook}.md")
    with _load(running, rate) as calls:
        before = time.monotonic()
        with scene.broken(running, connection, seconds + TIMEOUT_SECONDS):
            while (left := before + seconds - time.monotonic()) > 0:
                time.sleep(min(left, LINE_SECONDS))
                if scene.publish is not None:
                    scene.publish(running, connection, max(0.0, before + seconds - time.monotonic()) + TIMEOUT_SECONDS)
                say(calls.line(time.monotonic() - before))
        say("It is over: the part works again.")
        time.sleep(min(2 * LINE_SECONDS, seconds))
        say(calls.line(time.monotonic() - before))


@dataclass(slots=True)
class Calls:
    """What became of the calls since the last line."""

    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, event: Any, /) -> None:
        """Count an event of the limiter; an end of a block is not a call."""
        if hasattr(event, "outcome"):
            with self.lock:
                self.outcomes[event.outcome] += 1
                self.seconds.append(event.seconds)

    def line(self, at: float) -> str:
        """Return a line about the calls since the last one, and forget them."""
        with self.lock:
            outcomes, times = dict(self.outcomes), sorted(self.seconds)
            self.outcomes.clear()
            self.seconds.clear()
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items())) or "no call ended"
        slow = f"; 95 of 100 within {1000 * times[int(0.95 * (len(times) - 1))]:,.0f} ms" if times else ""
        return f"{at:5.0f} s  {counts}{slow}"


@contextmanager
def _load(running: Running, rate: float) -> Iterator[Calls]:
    """Call the limiter `rate` times a second in a namespace of its own, from a few threads, until the block ends."""
    from zae_limiter import SyncRateLimiter, SyncRepository, ZAELimiterError

    calls, end = Calls(), threading.Event()
    repository = SyncRepository.open(
        NAMESPACE, stack=running.name, region=running.region, endpoint_url=running.endpoint_url
    )
    limiter = SyncRateLimiter(repository, default_limits=["rpm: 100000/min"], observers=[calls.add])
    workers = max(1, min(8, round(rate / 5)))

    def call() -> None:
        begun, done = time.monotonic(), 0
        while not end.wait(max(0.0, begun + done * workers / rate - time.monotonic())):
            done += 1
            try:
                with limiter.acquire(f"key-{done % 50}", "api", {"rpm": 1}):
                    pass
            except ZAELimiterError:  # the observer has counted it
                continue

    threads = [threading.Thread(target=call, daemon=True) for _ in range(workers)]
    for each in threads:
        each.start()
    try:
        yield calls
    finally:
        end.set()
        for each in threads:
            each.join(TIMEOUT_SECONDS)
        limiter.close()


def _aggregator(connection: Connection) -> str:
    from ..stack.code import function_name

    return function_name(connection.name, "aggregator")
