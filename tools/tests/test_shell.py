import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shell import code_of, output, packages_of, run, scratch

PYTHON = (sys.executable, "-c")


def test_a_command_that_fails_ends_the_program_with_its_code() -> None:
    run(*PYTHON, "")
    with pytest.raises(SystemExit) as ended:
        run(*PYTHON, "raise SystemExit(7)")
    assert ended.value.code == 7


def test_a_command_that_a_signal_ends_has_the_code_of_a_shell() -> None:
    assert code_of(*PYTHON, "import os, signal; os.kill(os.getpid(), signal.SIGTERM)") == 128 + signal.SIGTERM


def test_a_command_gets_variables_beside_the_others(capfd: pytest.CaptureFixture[str]) -> None:
    run(*PYTHON, "import os; print(os.environ['NEW'], 'PATH' in os.environ)", environ={"NEW": "yes"})
    assert capfd.readouterr().out == "yes True\n"


def test_what_a_command_prints_is_shown_only_if_it_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    assert output(*PYTHON, "print(1); print(2)") == "1\n2\n"
    assert capfd.readouterr().out == ""
    assert output(*PYTHON, "print(3)", shown=True) == "3\n"
    assert capfd.readouterr().out == "3\n"
    with pytest.raises(SystemExit):
        output(*PYTHON, "raise SystemExit(1)")


def test_ctrl_c_waits_for_what_a_command_has_to_say(tmp_path: Path) -> None:
    """A terminal interrupts both; pytest then prints its summary, which takes more than Python's own patience."""
    sleep = "try: print('ready', flush=True); time.sleep(60)"
    heed = "import signal, time; signal.signal(signal.SIGINT, signal.default_int_handler)"  # a job may ignore it
    child = f"{heed}\n{sleep}\nexcept KeyboardInterrupt: time.sleep(0.5); print('summary', flush=True)"
    program = f"{heed}; import shell; shell.run({sys.executable!r}, '-c', {child!r})"
    told = subprocess.Popen(
        [*PYTHON, program],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        process_group=0,
    )
    with told:
        assert told.stdout is not None
        assert told.stdout.readline() == "ready\n"
        os.killpg(told.pid, signal.SIGINT)
        assert told.stdout.read() == "summary\n"


@pytest.mark.parametrize("words", [[""], [" "], ["", " "]])
def test_words_that_name_no_package_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit, match="name a package"):
        packages_of(words)


def test_a_folder_of_a_while_is_gone_afterwards() -> None:
    with scratch() as folder:
        assert folder.is_dir()
    assert not folder.exists()
