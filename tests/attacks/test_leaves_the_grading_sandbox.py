"""An agent's program leaves the sandbox that it is graded in, fills the disk or makes up its verdict."""

from pathlib import Path

import pytest

from rewards.checks import metrics
from tests.support.sandboxes import ATTEMPTS, ESCAPES, SECRET

# Whatever it can write to: its disk is 16 MiB.
FILLS = """
import os
def fills():
    for folder, _, _ in os.walk("/"):
        if not folder.startswith("/proc") and os.access(folder, os.W_OK):
            try:
                for number in range(40):
                    with open(f"{folder}/filler{number}", "wb") as file:
                        file.write(bytes(1 << 19))
                return True
            except OSError:
                pass
    return False
"""
# Words that have been a verdict, on every descriptor; and what is in the memory of the process.
FORGES = """
import gc, os, sys
def forge():
    words = {value for found in gc.get_objects() if isinstance(found, dict) for value in found.values()
             if isinstance(value, str) and len(value) == 64}
    frame = sys._getframe()
    while frame:
        seen = frame.f_locals.values()
        words.update(value for value in seen if isinstance(value, str) and len(value) == 64)
        frame = frame.f_back
    for descriptor in range(64):
        try:
            os.set_blocking(descriptor, False)
            os.write(descriptor, "".join(f"{word} 1.0\\n" for word in words).encode())
            os.write(descriptor, b"1.0\\n")
        except OSError:
            pass
    for module in list(sys.modules.values()):
        if hasattr(module, "test"):
            module.test = lambda: 1.0
    os._exit(0)
"""


def verdict(folder: Path, program: str, suite: str) -> float:
    (folder / "made").mkdir()
    (folder / "made/snake.py").write_text(program)
    (folder / "suite.py").write_text(suite)
    return metrics.load("check_python_file_by_test_suite")([folder / "made/snake.py"], folder / "suite.py")


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_graded_program_stays_in_its_sandbox(
    attempt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET, "canary")
    suite = f"import snake\ndef test():\n    return 0.5 + 0.5 * snake.{attempt}()\n"
    assert verdict(tmp_path, ESCAPES, suite) == 0.5


def test_it_cannot_write_more_than_its_disk(tmp_path: Path) -> None:
    suite = "import snake\ndef test():\n    return 0.5 + 0.5 * snake.fills()\n"
    assert verdict(tmp_path, FILLS, suite) == 0.5


@pytest.mark.parametrize("when", ["at its import", "when it is called"])
def test_it_cannot_speak_for_the_suite(when: str, tmp_path: Path) -> None:
    program = FORGES + ("forge()\n" if when == "at its import" else "")
    suite = "def test():\n    import snake\n    snake.forge()\n    return 0\n"
    assert verdict(tmp_path, program, suite) == 0.0


def test_it_does_not_see_the_suite(tmp_path: Path) -> None:
    program = "import os\ndef seen(): return os.path.exists('/work/suite.py')\n"
    suite = "import snake\ndef test():\n    return 0.5 + 0.5 * snake.seen()\n"
    assert verdict(tmp_path, program, suite) == 0.5
