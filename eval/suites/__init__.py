"""Suites by name: frozen task ids and seeds, run by `guiagent eval`."""

from eval.suites.miniwob_demo import MINIWOB_DEMO
from eval.suites.suite import Suite
from guiagent.errors import UsageError

SUITES: dict[str, Suite] = {MINIWOB_DEMO.name: MINIWOB_DEMO}


def find_suite(name: str) -> Suite:
    if name not in SUITES:
        raise UsageError(f"no suite {name!r}; known: {', '.join(sorted(SUITES))}")
    return SUITES[name]
