"""Slots: calls that run at the same time."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from museum.exhibits import shows
from museum.stage import Stage, admitted, passes
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.testing import ManualClock

SLOTS = Limit.concurrent("parallel", 5, expires=60)
ONE = {"parallel": 1}
HOLDER = """
import sys, time
from zae_limiter import Limit, SyncRateLimiter, SyncRepository

limits = [Limit.concurrent("parallel", 5, expires=60)]
limiter = SyncRateLimiter(SyncRepository.sqlite(sys.argv[1]), default_limits=limits)
with limiter.acquire("client", "gpt-4", {"parallel": 5}):
    print("held", flush=True)
    time.sleep(600)
"""


@shows(
    "https://github.com/BerriAI/litellm/issues/20256",
    "[Bug]: max_parallel_requests deadlocks API key after provider timeouts "
    "(counter never released, Redis reset required)",
)
def test_calls_that_time_out_free_their_slots(stage: Stage) -> None:
    limiter = stage.process(SLOTS)
    running = 0

    def times_out() -> bool:
        try:
            with limiter.acquire("key", "gpt-4", ONE):
                raise TimeoutError
        except TimeoutError:
            return True
        except RateLimitExceeded:
            return False

    def counter_goes_down_after_a_success_only() -> bool:
        nonlocal running
        if running >= 5:
            return False
        running += 1
        return True  # the provider's error leaves before the counter goes down

    assert admitted(20, times_out) == 20
    assert admitted(20, counter_goes_down_after_a_success_only) == 5


@pytest.mark.slow
@shows(
    "https://github.com/apache/apisix/issues/12823",
    "help request: plugin limit-conn with redis counter leaks in some condition",
)
def test_the_slots_of_a_killed_process_come_back(tmp_path: Path) -> None:
    path = tmp_path / "limits.db"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    clock = ManualClock(round(time.time() * 1000))
    with SyncRateLimiter(SyncRepository.sqlite(path, clock=clock), default_limits=[SLOTS]) as limiter:
        assert not passes(limiter, "client", ONE)
        clock.advance(2 * 60 + 1)
        assert passes(limiter, "client", {"parallel": 5})

    counter = 5  # of the killed process: nothing takes it back, and it has no end
    assert not counter + 1 <= 5
