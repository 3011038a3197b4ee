"""Second run, alone, of the few tests that failed among thousands: `python -m tests.support.again CODE`.

CODE is the first run's exit code. Tests here start browsers, X servers and whole farms; one in some ten
thousand fails for what else the machine is doing. So what failed in a run, if it lies in at most three files,
is run once more with nothing beside it. What fails again fails the run; what passes is named, since it is
still a defect.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

MAX_FILES = 3
_LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main(code: int) -> int:
    failed: list[str] = sorted(json.loads(_LAST_FAILED.read_text())) if _LAST_FAILED.is_file() else []
    files = {test.partition("::")[0] for test in failed}
    if code != pytest.ExitCode.TESTS_FAILED or not 0 < len(files) <= MAX_FILES:
        return code  # interrupted, a skip that is not allowed, or too much to be chance
    print(f"\nonce more, alone: {len(failed)} failed\n", flush=True)
    # Without the cache the next `pytest --lf` still begins with them; `-m ""`: the first run has chosen.
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "", *failed]
    again = subprocess.run(command, check=False)
    if again.returncode == pytest.ExitCode.OK:
        print("failed in the whole run and passed alone, which is a defect of the test or of what it tests:")
        print(*(f"  {test}" for test in failed), sep="\n")
    return again.returncode


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
