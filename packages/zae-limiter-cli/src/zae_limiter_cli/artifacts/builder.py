"""Build a Lambda's zip, the same bytes wherever the same versions are installed."""

import base64
import hashlib
import json
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import Distribution
from io import BytesIO
from pathlib import Path
from typing import Final, Literal, get_args

from packaging.utils import canonicalize_name

from ..errors import CommandError
from .files import files_of
from .requirements import RUNTIME, needed_distributions

LambdaName = Literal["aggregator", "provisioner", "planner"]
LAMBDAS: Final[tuple[LambdaName, ...]] = get_args(LambdaName)
ENTRY_POINTS: Final = "zae_limiter.lambdas"
STAMP: Final = "zae_limiter_lambda.json"

_EARLIEST: Final = (1980, 1, 1, 0, 0, 0)  # a zip knows no earlier date
_READABLE_FILE: Final = 0o100644 << 16


@dataclass(frozen=True)
class Artifact:
    """The code of a Lambda: ``handler`` as Lambda spells it, ``versions`` by distribution, ``content`` a zip."""

    name: LambdaName
    handler: str
    versions: Mapping[str, str]
    content: bytes

    @property
    def version(self) -> str:
        """The version of the distribution that has the Lambda's code."""
        return self.versions[distribution_name(self.name)]

    @cached_property
    def code_sha256(self) -> str:
        """The hash in the form of Lambda's ``CodeSha256``: equal for equal code."""
        return base64.b64encode(hashlib.sha256(self.content).digest()).decode()


def build_artifact(name: LambdaName, path: Sequence[str] | None = None) -> Artifact:
    """Build the code of a Lambda from the distributions on ``path``, which is ``sys.path`` for ``None``.

    Raises ``CommandError`` where something is not installed, or its source cannot be found.
    """
    root = distribution_name(name)
    distributions = needed_distributions(root, sys.path if path is None else path)
    by_name = {canonicalize_name(found.name): found for found in distributions}
    handlers = _handlers(by_name[canonicalize_name(root)], name)
    versions = {str(each): found.version for each, found in by_name.items()}
    return Artifact(name, handlers[name], versions, _zip(_stamp(handlers, versions), distributions))


def distribution_name(name: LambdaName) -> str:
    """Return the distribution that has a Lambda's code; provisioner and planner have the same."""
    return f"zae-limiter-{'provisioner' if name == 'planner' else name}"


def _handlers(distribution: Distribution, name: LambdaName) -> dict[str, str]:
    """Return all handlers of a distribution by name; ``name`` must be one of them."""
    found = {each.name: f"{each.module}.{each.attr}" for each in distribution.entry_points.select(group=ENTRY_POINTS)}
    if name in found:
        return found
    raise CommandError(f"{distribution.name} {distribution.version} has no entry point {name!r}: install a newer one")


def _stamp(handlers: Mapping[str, str], versions: Mapping[str, str]) -> bytes:
    stamp = {"handlers": dict(handlers), "runtime": RUNTIME, "distributions": dict(versions)}
    return json.dumps(stamp, indent=2, sort_keys=True).encode() + b"\n"


def _zip(stamp: bytes, distributions: Sequence[Distribution]) -> bytes:
    places = {name: place for found in distributions for name, place in files_of(found).items()}
    contents = {STAMP: stamp, **{name: _content(name, place) for name, place in places.items()}}
    buffer = BytesIO()
    # Stored, not compressed: compressors differ from one release of zlib to the next.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(contents):
            entry = zipfile.ZipInfo(name, _EARLIEST)
            entry.external_attr = _READABLE_FILE
            entry.create_system = 3  # Unix, whatever this is
            archive.writestr(entry, contents[name])
    return buffer.getvalue()


def _content(name: str, place: Path) -> bytes:
    """Return the content of a file; of ``METADATA`` only the fields, because an editable installation may have an old
    description.
    """
    content = place.read_bytes()
    return content.partition(b"\n\n")[0] + b"\n" if name.endswith(".dist-info/METADATA") else content
