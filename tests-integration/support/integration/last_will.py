"""What lives here: a command that runs when a block ends, however it ends.
What never does: what the command is for.
"""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

WAIT_AND_RUN = 'cat > /dev/null; exec "$@"'  # the input ends with the block, or with the process that is killed in it


@contextmanager
def afterwards(
    command: Sequence[str], *, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command on leaving, or once this process is no more; nobody learns how it ends.

    What it yields can be terminated, where the command is not needed any more.
    """
    with subprocess.Popen(
        ["sh", "-c", WAIT_AND_RUN, "sh", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    ) as waiting:
        yield waiting
