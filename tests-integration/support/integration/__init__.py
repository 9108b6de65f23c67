"""What the tests of the whole share."""

import multiprocessing
import os
import threading


def _end_with_parent() -> None:
    """A process that a test has spawned ends with the test's, even where that is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


threading.Thread(target=_end_with_parent, daemon=True).start()
