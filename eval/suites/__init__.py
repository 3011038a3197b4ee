"""Suites by name: frozen task ids and seeds, run by `guiagent eval`."""

from eval.suites import grounding
from eval.suites.desktop import DESKTOP
from eval.suites.harbor import harbor_suite
from eval.suites.lab import LAB, LAB_PERTURBED
from eval.suites.miniwob import MINIWOB
from eval.suites.miniwob_demo import MINIWOB_DEMO
from eval.suites.miniwob_rounds import MINIWOB_ROUNDS
from eval.suites.osworld import PREFIX, osworld_suite
from eval.suites.phone import PHONE, PHONE_UNSEEN_APPS
from eval.suites.safety import SAFETY
from eval.suites.steps import steps_suite
from eval.suites.suite import Suite
from eval.suites.web import WEB
from guiagent import plugins
from guiagent.errors import UsageError, nearest
from rewards.tasksets import harbor, steps
from rewards.tasksets.grounding import GROUNDING

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        *(DESKTOP, LAB, LAB_PERTURBED, MINIWOB, MINIWOB_DEMO, MINIWOB_ROUNDS),
        *(PHONE, PHONE_UNSEEN_APPS, SAFETY, WEB),
    )
}


def find_suite(name: str) -> Suite:
    """Find a suite by its name, of ours or of an installed package, `osworld:PATH`, `screenspot:FOLDER`,
    `steps:FOLDER` or `harbor:FOLDER`.

    Raises UsageError if there is none, or a package's is no suite.
    """
    if name.startswith(PREFIX):
        return osworld_suite(name)
    if name == GROUNDING:
        return grounding.grounding_suite()
    if name.startswith(grounding.PREFIX):
        return grounding.screenspot_suite(name)
    if name.startswith(steps.PREFIX):
        return steps_suite(name)
    if name.startswith(harbor.PREFIX):
        return harbor_suite(name, find_suite)
    if name in SUITES:
        return SUITES[name]
    others = plugins.names(plugins.SUITES)
    if name in others:
        suite = plugins.load(plugins.SUITES, name)
        if not isinstance(suite, Suite) or suite.name != name:
            raise UsageError(f"{name!r} of {plugins.SUITES} is not a Suite of that name")
        return suite
    names = sorted([*SUITES, GROUNDING, *others])
    by_path = ", ".join(f"{one}FOLDER" for one in (PREFIX, grounding.PREFIX, steps.PREFIX, harbor.PREFIX))
    known = f"; known: {', '.join(names)}, {by_path}"
    raise UsageError(f"no suite {name!r}{nearest(name, names) or known}")
