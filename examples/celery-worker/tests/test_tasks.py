import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Barrier, Thread

import pytest
from celery import Celery

HERE = Path(__file__).parents[1]
SECONDS = 60  # in which a task must be done


class Customer(ThreadingHTTPServer):
    """A customer's server: the instants of its requests; the first two wait for each other."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.instants: list[float] = []
        self.meeting = Barrier(2, timeout=SECONDS)


class Handler(BaseHTTPRequestHandler):
    server: Customer

    def do_POST(self) -> None:
        self.server.instants.append(time.monotonic())
        if len(self.server.instants) <= 2:
            self.server.meeting.wait()
        self.do_GET()

    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def queue(local_stack: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Celery]:
    """The queue of a worker with two processes."""
    folder = tmp_path_factory.mktemp("queue")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUEUE_FOLDER", str(folder))
        app = Celery()
        app.config_from_object("celeryconfig", force=True)
        command = [
            sys.executable,
            "-m",
            "celery",
            "-A",
            "tasks",
            "worker",
            "--concurrency",
            "2",
            "--loglevel",
            "warning",
        ]
        worker = subprocess.Popen(command, cwd=HERE)
    yield app
    worker.terminate()
    worker.wait()


@pytest.fixture
def customer() -> Iterator[Customer]:
    with Customer() as server:
        Thread(target=server.serve_forever, args=(0.05,)).start()
        yield server
        server.shutdown()


def test_two_processes_deliver_everything_no_faster_than_the_limit(queue: Celery, customer: Customer) -> None:
    begun = time.monotonic()
    sent = [queue.send_task("tasks.deliver", ["ann", customer.url, ["created"]]) for _ in range(12)]
    assert len({task.get(timeout=SECONDS) for task in sent}) == 2
    assert len(customer.instants) == 12
    for number, instant in enumerate(sorted(customer.instants), start=1):
        assert number <= 5 + 5 * (instant - begun)


def test_a_task_that_no_limit_can_ever_admit_fails_and_does_not_come_back(queue: Celery, customer: Customer) -> None:
    task = queue.send_task("tasks.deliver", ["bob", customer.url, ["created"] * 6])
    with pytest.raises(ValueError, match="6 rps requested, which can never pass"):
        task.get(timeout=SECONDS)
    assert customer.instants == []


def test_a_short_wait_is_spent_in_the_worker(queue: Celery, customer: Customer) -> None:
    checks = [queue.send_task("tasks.check", ["cid", customer.url]) for _ in range(4)]
    first, *_, last = sorted(task.get(timeout=SECONDS) for task in checks)
    assert first == 0.0 < last
