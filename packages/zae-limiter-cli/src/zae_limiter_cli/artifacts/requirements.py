"""Find the installed distributions that a Lambda needs, by their metadata, for the Lambda's Python."""

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import Distribution, MetadataPathFinder
from types import MappingProxyType
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from ..errors import CommandError

LAMBDA_PYTHON: Final = "3.13"
RUNTIME: Final = f"python{LAMBDA_PYTHON}"

# The runtime has boto3 and what it needs; nothing in a Lambda imports the async client.
NEVER: Final = frozenset({"boto3", "botocore", "aioboto3", "aiobotocore", "aiohttp"})

_ENVIRONMENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "implementation_name": "cpython",
        "implementation_version": f"{LAMBDA_PYTHON}.0",
        "os_name": "posix",
        "platform_machine": "x86_64",  # what is compiled is left out, so that arm64 is served as well
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{LAMBDA_PYTHON}.0",
        "python_version": LAMBDA_PYTHON,
        "sys_platform": "linux",
    }
)


def needed_distributions(root: str, path: Sequence[str]) -> list[Distribution]:
    """Return the distribution ``root`` and all that it needs, found on ``path``, by name.

    Raises ``CommandError`` where one of them is not installed.
    """
    found: dict[NormalizedName, Distribution] = {}
    asked: set[tuple[NormalizedName, frozenset[str]]] = set()
    waiting = [Requirement(root)]
    while waiting:
        requirement = waiting.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if name in NEVER or (name, extras) in asked:
            continue
        asked.add((name, extras))
        found[name] = found.get(name) or _installed(name, root, path)
        waiting.extend(_requirements(found[name], extras))
    return [found[name] for name in sorted(found)]


def _installed(name: str, root: str, path: Sequence[str]) -> Distribution:
    context = MetadataPathFinder.Context(name=name, path=list(path))
    for distribution in MetadataPathFinder.find_distributions(context):
        return distribution
    raise CommandError(
        f"the code of {root} cannot be built: it needs {name}, which is not installed: `pip install {name}`"
    )


def _requirements(distribution: Distribution, extras: Iterable[str]) -> list[Requirement]:
    """Return the requirements that hold in the Lambda, with these extras."""
    environments = [{**_ENVIRONMENT, "extra": extra} for extra in ("", *extras)]
    return [
        requirement
        for requirement in map(Requirement, distribution.requires or ())
        if requirement.marker is None or any(map(requirement.marker.evaluate, environments))
    ]
