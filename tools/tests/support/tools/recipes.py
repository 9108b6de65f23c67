"""Recipes of the justfile, played over a uv that installs and runs nothing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[4]
JUSTFILE: Final = (ROOT / "justfile").read_text(encoding="utf-8")
EXAMPLES: Final = sorted(path.parent.name for path in (ROOT / "examples").glob("*/pyproject.toml"))

OF_THE_RUN: Final = {"ZAEL_SKIPS", "GITHUB_STEP_SUMMARY"}  # variables of the run that plays a recipe

UV: Final = """#!/bin/sh
# uv that installs and builds nothing; pytest ends with $PYTEST, checkov says $CHECKOV, and $PYTHONS are there
echo "$*" >> "$ASKED"
case "$*" in
    "run python tools/"*)
        case "$3" in
            tools/sessions.py | tools/environments.py | tools/parts.py | \\
            tools/scans.py | tools/builds.py | tools/branches.py)
                shift
                exec "$@" ;;
        esac ;;
esac
case " $* " in
    *" pytest "*)
        [ -z "$ZAEL_SKIPS" ] || echo '{"ran": 1, "skipped": {}}' >> "$ZAEL_SKIPS"
        exit $PYTEST ;;
    *" checkov "*) echo "$CHECKOV" ;;
    *" tools/pythons.py "*) [ "$PYTHONS" ] && echo "$PYTHONS" ;;
    *" coverage json "*)
        for file; do :; done
        echo "$REPORT" > "$file" ;;
    *" pip list "*) printf 'flask 3\\nopenai 2\\nother 1\\n' ;;
    " build "*) mkdir -p dist && for each; do
            case $each in zae-limiter-*) touch dist/zae_limiter_${each#zae-limiter-}-0-py3-none-any.whl ;; esac
        done ;;
    " venv "*)
        for folder; do :; done
        mkdir -p "$folder/bin"
        printf '#!/bin/sh\\necho "$0 $*" >> "$ASKED"\\nexit %s\\n' "$PYTEST" > "$folder/bin/pytest"
        printf '#!/bin/sh\\n' > "$folder/bin/python"
        printf '#!/bin/sh\\n' > "$folder/bin/mypy"
        chmod +x "$folder"/bin/* ;;
esac
"""


class Played(NamedTuple):
    """How a recipe ended, what it printed, and what it asked of uv and of pytest."""

    code: int
    printed: str
    errors: str
    asked: list[str]

    def sessions(self) -> list[str]:
        """Return what was asked of pytest."""
        return [line for line in self.asked if "pytest -" in line]


class Just:
    """Recipes in a folder that has the justfile and the tools alone, over a uv that only notes what it is asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        for name, text in {"uv": UV, "git": "#!/bin/sh\necho 1\n"}.items():
            (folder / "bin" / name).write_text(text, encoding="utf-8")
            (folder / "bin" / name).chmod(0o755)
        shutil.copy(ROOT / "justfile", folder)
        (folder / "tools" / "website").mkdir(parents=True)
        shutil.copy(ROOT / "tools/website/markers.py", folder / "tools" / "website")
        for tool in (ROOT / "tools").glob("*.py"):
            shutil.copy(tool, folder / "tools")
        for name in EXAMPLES:
            (folder / "examples" / name).mkdir(parents=True)
            (folder / "examples" / name / "pyproject.toml").touch()
        (folder / "docs" / "contribute").mkdir(parents=True)
        (folder / "docs" / "contribute" / "checks.md").write_text("<!-- coverage -->\n<!-- end -->\n", encoding="utf-8")
        (folder / "dist").mkdir()
        (folder / "dist" / "zae_limiter_core-0-py3-none-any.whl").touch()

    def play(
        self,
        *words: str,
        ends_with: int = 0,
        checkov: str = "Passed checks: 3",
        pythons: str = "3.13 /bin/true",
        **variables: str,
    ) -> Played:
        """Run a recipe; pytest ends with this code, checkov says so, and these Pythons are there."""
        asked = self.folder / "asked"
        asked.unlink(missing_ok=True)
        path = os.pathsep.join([str(self.folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        said = {"PYTEST": str(ends_with), "CHECKOV": checkov, "PYTHONS": pythons, "ASKED": str(asked), "PATH": path}
        said["REPORT"] = '{"files": {}}'
        environ = {name: value for name, value in os.environ.items() if name not in OF_THE_RUN} | said | variables
        done = subprocess.run(
            ["just", *words], check=False, cwd=self.folder, env=environ, capture_output=True, text=True
        )
        lines = asked.read_text(encoding="utf-8").splitlines() if asked.exists() else []
        return Played(done.returncode, done.stdout, done.stderr, lines)
