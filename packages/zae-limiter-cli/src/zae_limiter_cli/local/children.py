"""Start processes that end with this one, even if it is killed."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_ROOT: Final = str(Path(__file__).parents[2])  # the directory that `zae_limiter_cli` is imported from


class Child:
    """A process with its own group and its own pipe to the parent."""

    def __init__(self, process: subprocess.Popen[bytes], pipe: int) -> None:
        self.process = process
        self._pipes = [pipe]

    def end(self) -> None:
        """Kill the process with all that it has started, and wait until it is gone; a second call does nothing."""
        with suppress(IndexError):  # another thread may be at it
            os.close(self._pipes.pop())
        self.process.wait()


def start_python(
    function: str,
    arguments: Sequence[str] = (),
    *,
    output: int,
    environment: Mapping[str, str] | None = None,
    descriptors: Sequence[int] = (),
) -> Child:
    """Run ``module:name`` of this package, which has to hold the pipe of its first argument.

    It also gets ``descriptors``. The interpreter is a bare one: without the site's packages and without what the user's
    environment says of Python.
    """
    module, name = function.split(":")
    code = f"import sys; sys.path.insert(0, {_ROOT!r}); from {__package__}.{module} import {name}; {name}()"
    command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", code]
    return _start(command, arguments, output, environment, descriptors)


def start_command(command: Sequence[str], *, output: int, environment: Mapping[str, str] | None = None) -> Child:
    """Run a foreign program under a guard."""
    return start_python("parent_watch:guard", command, output=output, environment=environment)


def _start(
    command: list[str],
    arguments: Sequence[str],
    output: int,
    environment: Mapping[str, str] | None,
    descriptors: Sequence[int],
) -> Child:
    its_end, our_end = os.pipe()
    try:
        process = subprocess.Popen(
            [*command, str(its_end), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            pass_fds=[its_end, *descriptors],
            start_new_session=True,
        )
    except OSError:
        os.close(our_end)
        raise
    finally:
        os.close(its_end)
    return Child(process, our_end)
