"""The entry point of a Lambda's process: it can import only the zip and what AWS's runtime has.

It imports nothing from the environment of the command, because the zip has to bring its own.
"""

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Final

from ..parent_watch import watch_parent
from .loop import run

# What the image of AWS's Python runtimes has beside the standard library.
PROVIDED: Final = frozenset(
    {
        "awslambdaric",
        "boto3",
        "botocore",
        "dateutil",
        "jmespath",
        "runtime_client",
        "s3transfer",
        "simplejson",
        "six",
        "snapshot_restore_py",
        "urllib3",
    }
)


class Provided(MetaPathFinder):
    """Finds in ``directories`` the packages that AWS's runtime has, and nothing else."""

    def __init__(self, directories: Sequence[str]) -> None:
        self._directories = list(directories)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module as every finder does; a module within a package is found by its package."""
        if path is None and fullname in PROVIDED:
            return PathFinder.find_spec(fullname, self._directories, target)
        return None


def main() -> None:
    """Run a function until its process is killed: argv is the pipe, the code, the loop, directories of packages."""
    pipe, task, loop, *directories = sys.argv[1:]
    watch_parent(int(pipe))
    sys.path[0] = task  # until here it was where this module is
    sys.meta_path.append(Provided(directories))
    os.chdir(task)
    if loop == "awslambdaric":
        from awslambdaric.__main__ import main as run_with_aws

        run_with_aws(["bootstrap", os.environ["_HANDLER"]])
    else:
        run(os.environ["_HANDLER"], os.environ["AWS_LAMBDA_RUNTIME_API"])
