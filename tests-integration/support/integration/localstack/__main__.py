"""What lives here: `just localstack-host`: LocalStack as a process, until Ctrl-C.
What never does: a test.
"""

import signal
import sys

from ..fetch import Unavailable
from .host import as_process

if __name__ == "__main__":
    port = int(sys.argv[1]) if sys.argv[1:] else 4566
    try:
        with as_process(port) as url:
            print(f"LocalStack is at {url}; Ctrl-C ends it", flush=True)
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
    except Unavailable as reason:
        sys.exit(f"LocalStack cannot run here: {reason}")
