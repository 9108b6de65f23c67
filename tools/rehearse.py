"""What lives here: a whole release, in a clone and into an index on this machine, and tests of what it installs.
What never does: a change to this repository, or an upload.

    rehearse.py [NAME]     every distribution has its first release, then NAME (default core) moves on to 0.2.0
"""

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from check_siblings import ROOT, from_project

NAMES: Final = ("core", "manifest", "provisioner", "aggregator", "cli")  # each after those that it requires


class Rehearsal:
    """A clone of what is committed, and an index: a folder for each project, its files listed by name and hash."""

    def __init__(self, scratch: Path) -> None:
        self.clone = scratch / "clone"
        self.index = scratch / "index"
        self.venv = scratch / "venv"
        run("git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(self.clone), cwd=scratch)

    def versions(self) -> dict[str, str]:
        """Return the version of each distribution in the clone."""
        projects = [from_project(path.read_text("utf-8")) for path in self.clone.glob("packages/*/pyproject.toml")]
        return {each.name.removeprefix("zae-limiter-"): each.version for each in projects}

    def announce(self, name: str) -> None:
        """Write a fragment, as a change would."""
        folder = self.clone / "packages" / f"zae-limiter-{name}" / "changelog.d"
        (folder / "+rehearsal.feature.md").write_text("A change that may break.\n", "utf-8")
        run("git", "add", "--all", cwd=self.clone)
        run("git", "commit", "--quiet", "--message", "Rehearse a change", cwd=self.clone)

    def release(self, name: str, version: str) -> None:
        """By the recipes that a maintainer and the workflow call; the files go to the index."""
        self.just("release", name, version)
        self.just("release-files", f"zae-limiter-{name}/v{version}")
        project = self.index / f"zae-limiter-{name}"
        project.mkdir(parents=True, exist_ok=True)
        for file in (self.clone / "dist").iterdir():
            shutil.copy(file, project)
        sums = (self.clone / "evidence" / "SHA256SUMS").read_text("utf-8")
        with (project / "index.html").open("a", encoding="utf-8") as page:
            for digest, file in re.findall(r"^(\w{64}) [ *](\S+)$", sums, re.MULTILINE):
                if (project / file).exists():
                    page.write(f'<a href="{file}#sha256={digest}">{file}</a><br>\n')

    def just(self, *arguments: str) -> None:
        """Run a recipe of the clone."""
        run("uv", "run", "--quiet", "--locked", "just", *arguments, cwd=self.clone)

    def install(self, url: str) -> dict[str, str]:
        """Return all distributions by name, with what their tests need; the versions that were chosen."""
        run("uv", "venv", "--quiet", str(self.venv), cwd=self.clone)
        groups = [f"--group=packages/zae-limiter-{name}/pyproject.toml:test" for name in NAMES]
        wanted = [*(f"zae-limiter-{name}" for name in NAMES), "pytest-xdist>=3.6", *groups]
        # uv takes a name that the first index has from no other
        run("uv", "pip", "install", "--quiet", "--python", str(self.venv), "--index", url, *wanted, cwd=self.clone)
        listing = run("uv", "pip", "freeze", "--quiet", "--python", str(self.venv), cwd=self.clone, output=True)
        return dict(re.findall(r"^zae-limiter-(\w+)==(\S+)$", listing, re.MULTILINE))

    def test(self, name: str) -> None:
        """The fast tests of one package, against what is installed."""
        tests = f"packages/zae-limiter-{name}/tests"
        run(str(self.venv / "bin" / "pytest"), "-q", "-n", "auto", "-m", "not slow", tests, cwd=self.clone)


def run(*command: str, cwd: Path, output: bool = False) -> str:
    """Run a command, raise where it fails."""
    print("+", " ".join(command), file=sys.stderr, flush=True)
    author = {f"GIT_{role}_{key}": "rehearsal" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    environ = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    stdout = subprocess.PIPE if output else None
    return subprocess.run(command, cwd=cwd, env={**environ, **author}, stdout=stdout, text=True, check=True).stdout


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Yield the URL of a folder, on this machine alone."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def rehearse(scratch: Path, moving: str) -> None:
    """Raise where a step fails."""
    rehearsal = Rehearsal(scratch)
    for name in NAMES:
        rehearsal.release(name, rehearsal.versions()[name])
    rehearsal.announce(moving)
    rehearsal.release(moving, "0.2.0")
    for name in NAMES:
        if list((rehearsal.clone / "packages" / f"zae-limiter-{name}" / "changelog.d").glob("*.md")):
            rehearsal.release(name, "0.1.1")  # its bound moved
    with served(rehearsal.index) as url:
        installed = rehearsal.install(url)
    if installed != rehearsal.versions():
        raise SystemExit(f"error: installed {installed}, released {rehearsal.versions()}")
    for name in NAMES:
        print(f"== zae-limiter-{name} {installed[name]}, from the index", flush=True)
        rehearsal.test(name)
    print("released, installed together and tested:", *(f"{name} {installed[name]}" for name in NAMES))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        rehearse(Path(folder), *(sys.argv[1:] or ["core"]))
