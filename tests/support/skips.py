"""The closed list of reasons for which a test may be skipped, and the count by reason at the end of a run.

With CI=true a skip for any other reason fails the run: what a machine lacks would else look like success.
"""

import os
import re
from collections import Counter

import pytest

REFUSED = 6  # exit code of a run with a skip that is not on the list; pytest's own end at 5
# Each: what the reason looks like, and why a machine that the scripts have set up cannot do without the skip.
ALLOWED = {
    r"OSWorld's public task files are not here": "they lie beside the checkout, if anywhere",
    r"this kind has no '\w+'": "one contract for all kinds; what a kind lacks its own tests refuse",
    r"does everything": "the same: a kind that lacks nothing",
    r"without root a desktop cannot take /": "in a user namespace the mounts below it are locked",
    r"bitsandbytes": "its 8-bit optimiser runs on CUDA alone",
}


def is_allowed(reason: str) -> bool:
    return any(re.search(pattern, reason) for pattern in ALLOWED)


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why it was skipped, as a test or a module said it."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return str(report.longrepr)


class SkipList:
    """Counts skips by reason and, on a CI machine, refuses those not on the list. A pytest plugin."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._count(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._count(report)

    def _count(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.counts[reason_of(report)] += 1

    @property
    def refused(self) -> list[str]:
        return sorted(reason for reason in self.counts if not is_allowed(reason))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.refused and os.environ.get("CI") == "true":
            session.exitstatus = REFUSED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.counts:
            return
        terminalreporter.section("skipped, by reason")
        for reason, count in self.counts.most_common():
            note = "" if is_allowed(reason) else "  [not on the list of tests/support/skips.py]"
            terminalreporter.write_line(f"{count:5}  {reason}{note}")
        if self.refused and os.environ.get("CI") == "true":
            terminalreporter.write_line(
                "on a CI machine a skip that is not on the list fails the run", red=True
            )
