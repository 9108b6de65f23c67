"""Name the JSON Schema of manifests in their first line, where editors look for it."""

import json
import os
from pathlib import Path
from typing import Final

FILE: Final = "zae-limiter.schema.json"
_MARK: Final = "# yaml-language-server:"


def schema_text() -> str:
    """Return the JSON Schema of a manifest as the text of a file."""
    from zae_limiter_manifest import json_schema

    return json.dumps(json_schema(), indent=2) + "\n"


def schema_near(file: Path) -> Path | None:
    """Return the schema's file in the folder of a manifest, or the nearest one above it; None if there is none."""
    return next((each / FILE for each in file.absolute().parents if (each / FILE).is_file()), None)


def with_schema(text: str, file: Path, schema: Path) -> str:
    """Return a manifest's text with the line that names its schema; unchanged if its head has such a line."""
    for line in text.removeprefix("\ufeff").splitlines():
        if line.startswith(_MARK):
            return text
        if line.strip() and not line.startswith("#"):
            break
    place = os.path.relpath(schema, file.absolute().parent).replace(os.sep, "/")
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    return f"{mark}{_MARK} $schema={place}\n{text.removeprefix(mark)}"
