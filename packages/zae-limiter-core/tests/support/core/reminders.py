"""End what earlier tests have left to be called later.

Lives here: whom a test leaves behind. Never: a claim.
"""

from threading import Lock
from typing import Final

from zae_limiter.runtime import forks
from zae_limiter.runtime.reminders import Reminders

REAL: Final = type(Lock())  # a simulation of threads has locks of its own, and nothing of it goes on


def forget_reminders() -> None:
    """Stop all reminders of limiters that nobody closed.

    They go by real time. Where a test's clock stands still, nothing becomes due, and they would come again for ever.
    """
    for each in list(forks._registered):
        if isinstance(each, Reminders) and isinstance(each._lock, REAL):
            each.stop()
