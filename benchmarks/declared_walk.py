"""An operator's walk over a tree of 5,000 entities: the commands on a local stack, and what a terminal shows of them.

Lives here: the files, the steps, the terminals of 80 and 60 columns, and the page that shows them. Never: what the
requests of a step are; ``declared_tree`` counts those.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

from .emulator import dynoxide_binary
from .report import DOCS, Row

PAGE = DOCS / "operate" / "at-size.md"
PARENTS, CHILDREN = 200, 25
TIERS = {"free": 10, "pro": 100, "gold": 1_000}
FILES = 20  # one of them for the tiers
WIDTHS = (80, 60)
LINES = 24
NAMESPACE = "tenant-tree"
STACK = "tenant-limits"
MOST_SECONDS = 20  # of the first apply
COMMAND = str(Path(sys.executable).with_name("zae-limiter"))
OUT_OF_BAND = """
from zae_limiter import Limit, SyncRepository
with SyncRepository.open(namespace="tenant-tree") as repository:
    for team in range(0, 200, 5):
        repository.set_limits(f"team-{team:03d}", [Limit.per_minute("rpm", 6_000)])
    for team in range(1, 50, 5):
        repository.delete_limits(f"team-{team:03d}")
    repository.set_limits("key-0042", [Limit.per_minute("rpm", 1)])
"""


@dataclass(frozen=True, slots=True)
class Step:
    """One command of the walk: what it is for, what it took, and what the terminal showed."""

    title: str
    words: str
    seconds: float
    shown: str


def walk() -> list[Row]:
    """Walk once in each terminal, write the page, and return the times of the first walk. Raises ``NotHere``."""
    os.environ["ZAEL_DYNOXIDE"] = dynoxide_binary()
    walks = {width: _walked(width) for width in WIDTHS}
    PAGE.write_text(page_with(PAGE.read_text(), walks))
    targets = {"apply": MOST_SECONDS}
    rows = {f"{step.title}: command on the local stack": step for step in walks[WIDTHS[0]]}
    return [Row(what, step.seconds, "s", at_most=targets.get(step.title)) for what, step in rows.items()]


def page_with(page: str, walks: dict[int, list[Step]]) -> str:
    """The page with what was shown between its markers: a section for each step, a tab for each width."""
    sections = []
    for steps in zip(*walks.values(), strict=True):
        tabs = [
            f'=== "{width} columns"\n\n' + indent(f"```text\n$ zae-limiter {step.words}\n{step.shown}```\n", "    ")
            for width, step in zip(walks, steps, strict=True)
        ]
        sections.append(f"### {steps[0].title[0].upper()}{steps[0].title[1:]}\n\n" + "\n".join(tabs))
    block = re.compile(r"(<!-- walk -->\n).*?(<!-- end -->)", re.DOTALL)
    return block.sub(lambda found: found[1] + "\n" + "\n".join(sections) + "\n" + found[2], page, count=1)


def write_files(directory: Path, *, gold: int = TIERS["gold"], moved: bool = False) -> None:
    """Write the namespace; ``moved``: the first team is below the second one."""
    tiers = {**TIERS, "gold": gold}
    limits = "    resources: {{_default_: {{limits: {{rpm: {0}/min}}}}}}"
    text = [f"  {name}:\n{limits.format(rpm)}\n" for name, rpm in tiers.items()]
    (directory / "tiers.yaml").write_text(f"namespace: {NAMESPACE}\ntiers:\n{''.join(text)}")
    for file in range(FILES - 1):
        teams = range(file * PARENTS // (FILES - 1), (file + 1) * PARENTS // (FILES - 1))
        text = [line for team in teams for line in _team(team, limits.format("5k"), below=moved and team == 0)]
        (directory / f"teams-{file:02d}.yaml").write_text(f"namespace: {NAMESPACE}\nentities:\n{''.join(text)}")


def _team(team: int, limits: str, *, below: bool) -> Iterator[str]:
    yield f"  team-{team:03d}:\n{limits}\n" + ("    parent: team-001\n" if below else "")
    for key in range(team * CHILDREN, (team + 1) * CHILDREN):
        tier = [*TIERS][key % len(TIERS)]
        yield f"  key-{key:04d}: {{parent: team-{team:03d}, cascade: true, tier: {tier}}}\n"


def _walked(width: int) -> list[Step]:
    with tempfile.TemporaryDirectory() as place, _local_stack(Path(place)) as environment:
        directory = Path(place) / "limits"
        directory.mkdir()
        return list(_steps(directory, environment, width))


def _steps(directory: Path, environment: dict[str, str], width: int) -> Iterator[Step]:
    def step(title: str, words: str) -> Step:
        begun = time.monotonic()
        shown = _shown([COMMAND, *words.split()], directory.parent, environment, width)
        return Step(title, words, time.monotonic() - begun, shown)

    apply = "limits apply -f limits/ --yes"
    write_files(directory)
    yield step("validate", "limits validate -f limits/")
    yield step("plan", "limits plan -f limits/")
    yield step("apply", apply)
    write_files(directory, gold=2_000)
    yield step("change of a tier", "limits plan -f limits/")
    yield step("apply of the change", apply)
    write_files(directory, gold=2_000, moved=True)
    yield step("move of a parent with 25 children", "limits plan -f limits/")
    yield step("apply of the move", apply)
    subprocess.run([sys.executable, "-c", OUT_OF_BAND], env=environment, check=True, cwd=directory.parent)
    yield step("drift", "limits diff -f limits/")
    yield step("history", f"limits status -N {NAMESPACE}")
    yield step("rollback", f"limits rollback 2 -N {NAMESPACE} --yes")


@contextmanager
def _local_stack(place: Path) -> Iterator[dict[str, str]]:
    """The environment of a shell that talks to a local stack of its own."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "ZAEL_STACK"))}
    environment = {**plain, "XDG_STATE_HOME": str(place / "state"), "ZAEL_PRINCIPAL": "ann"}
    (place / "state").mkdir(mode=0o700)
    words = [COMMAND, "local", "up", "--name", STACK, "--port", "0", "--data-plane", "dynoxide", "--detach"]
    subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL)
    try:
        shell = f'eval "$({COMMAND} local env --name {STACK})" && env -0'
        told = subprocess.run(["bash", "-c", shell], env=environment, check=True, capture_output=True, text=True).stdout
        yield dict(each.split("=", 1) for each in told.split("\0") if each)
    finally:
        subprocess.run([COMMAND, "local", "down", "--name", STACK], env=environment, check=True, capture_output=True)


def _shown(words: list[str], directory: Path, environment: dict[str, str], width: int) -> str:
    """What a terminal of this width shows of a command; of a line that is drawn again, the one in the middle."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, width, 0, 0))
    process = subprocess.Popen(
        words,
        cwd=directory,
        env={**environment, "TERM": "xterm", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    told = b""
    with os.fdopen(ours, "rb", buffering=0) as terminal, suppress(OSError):  # which is how its end is told
        while part := terminal.read(65_536):
            told += part
    if process.wait():
        raise RuntimeError(f"{words} ended with {process.returncode}: {told.decode()}")
    return _settled(told.decode().replace("\r\n", "\n"))


def _settled(told: str) -> str:
    above, *drawn = re.split(r"(?:\x1b\[1A)?\r\x1b\[2K", told)
    if not drawn:
        return above
    *lines, last = drawn
    _, _, below = last.partition("\n")
    frames = [*lines, last[: len(last) - len(below)]]
    return above + frames[len(frames) // 2] + below
