"""Files that `limits apply` reads as saved plans."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import strategies as st

from support.manifest.manifests import situations
from zae_limiter_cli.errors import CommandError
from zae_limiter_cli.limits.saved import KIND, SCHEMA_VERSION, SavedPlan
from zae_limiter_manifest import LimitsManifest, Plan, compute_diff

from .. import mistakes
from ..batches import Surface
from ..judging import Tally, judging
from ..junk import TEXTS, damaged, damaged_text


def _document(plan: Plan, manifest: LimitsManifest) -> dict[str, Any]:
    saved = {"stack": "my-app", "changes_hash": plan.changes_hash(), "plan": plan.to_dict()}
    return {"kind": KIND, "schema_version": SCHEMA_VERSION, "manifest": manifest.to_dict(), **saved}


documents = situations().map(lambda made: _document(compute_diff(made[0], made[1], managed=made[2]), made[0]))
nested = st.sampled_from([bracket * 200_000 for bracket in ("[", '{"a":', '{"plan": [')])
contents = st.one_of(
    damaged(documents).map(json.dumps).map(str.encode),
    damaged_text(documents.map(json.dumps), [*TEXTS[:14], "[", "]", "{", "}", ",", ":", '"', "NaN", "Infinity"]).map(
        lambda text: text.encode("utf-8", "surrogatepass")
    ),
    nested.map(str.encode),
    mistakes.plan_files.map(str.encode),
    st.binary(max_size=50),
)


@contextmanager
def opened() -> Iterator[Surface]:
    """One file, which has other contents each time."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "alpha.plan"

        def feed(content: bytes, tally: Tally) -> None:
            path.write_bytes(content)
            with judging(tally, CommandError):
                SavedPlan.read(path)

        yield Surface(contents, feed)
