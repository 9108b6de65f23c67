"""``python -m lifecycle.program KIND PLACE``: the program of one process of a life.

Lives here: the report of where it hangs, and the output that standard error is spared. Never: what it does (kinds).
"""

import asyncio
import faulthandler
import logging
import signal
import sys
import warnings
from importlib import import_module
from types import FrameType

from .place import Place

WATCHDOG_SECONDS = 400.0  # a process whose supervisor is gone ends by itself


def show_tasks(signum: int, frame: FrameType | None) -> None:
    """Print every task of this thread's loop."""
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        return  # no loop runs
    for task in tasks:
        task.print_stack(file=sys.stderr)


def main(kind: str, place: Place) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell makes what it runs behind it deaf to Ctrl-C
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    signal.signal(signal.SIGUSR2, show_tasks)
    faulthandler.dump_traceback_later(WATCHDOG_SECONDS, exit=True)
    warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
    logger = logging.getLogger("zae_limiter")  # what the library logs is not noise; what asyncio logs is
    logger.addHandler(logging.FileHandler(f"{place.ledger}.log"))
    logger.propagate = False
    import_module(f".kinds.{kind}", __package__).program(place)


if __name__ == "__main__":
    main(sys.argv[1], Place.read(sys.argv[2]))
