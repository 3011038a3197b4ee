"""Suites by name: frozen task ids and seeds, run by `guiagent eval`."""

from collections.abc import Callable, Sequence

from eval.suites import grounding
from eval.suites.demo import DEMO_APPS, DEMO_PAGES, DEMO_PHONE, DEMO_ROUNDS
from eval.suites.desktop import DESKTOP
from eval.suites.harbor import harbor_suite
from eval.suites.lab import LAB, LAB_LADDER, LAB_PERTURBED
from eval.suites.miniwob import MINIWOB
from eval.suites.miniwob_demo import MINIWOB_DEMO
from eval.suites.miniwob_rounds import MINIWOB_ROUNDS
from eval.suites.osworld import PREFIX, osworld_suite
from eval.suites.phone import PHONE, PHONE_REGIMES, PHONE_UNSEEN_APPS
from eval.suites.safety import SAFETY
from eval.suites.steps import steps_suite
from eval.suites.suite import Suite
from eval.suites.web import WEB
from eval.suites.webarena import webarena_suite
from guiagent import plugins
from guiagent.errors import UsageError, nearest
from rewards.tasksets import harbor, steps, webarena
from rewards.tasksets.grounding import GROUNDING

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        *(DEMO_APPS, DEMO_PAGES, DEMO_PHONE, DEMO_ROUNDS),
        *(DESKTOP, LAB, LAB_LADDER, LAB_PERTURBED, MINIWOB, MINIWOB_DEMO, MINIWOB_ROUNDS),
        *(PHONE, PHONE_REGIMES, PHONE_UNSEEN_APPS, SAFETY, WEB),
    )
}


BY_PATH: dict[str, Callable[[str], Suite]] = {  # by how the name of a suite of files begins
    PREFIX: osworld_suite,
    grounding.PREFIX: grounding.screenspot_suite,
    steps.PREFIX: steps_suite,
    harbor.PREFIX: lambda name: harbor_suite(name, find_suite),
    webarena.PREFIX: webarena_suite,
}


def find_suite(name: str, tasks: Sequence[str] = ("*",)) -> Suite:
    """Find a suite, or the part of it whose tasks match one of the patterns (`Suite.only`), by its name: of
    ours, of an installed package, or one of `BY_PATH` and a path.

    Raises UsageError if there is none, a package's is no suite, or no task matches a pattern.
    """
    return _found(name).only(tasks)


def _found(name: str) -> Suite:
    kind, colon, _ = name.partition(":")
    if (of_files := BY_PATH.get(kind + colon)) is not None:
        return of_files(name)
    if name == GROUNDING:
        return grounding.grounding_suite()
    if name in SUITES:
        return SUITES[name]
    others = plugins.names(plugins.SUITES)
    if name in others:
        suite = plugins.load(plugins.SUITES, name)
        if not isinstance(suite, Suite) or suite.name != name:
            raise UsageError(f"{name!r} of {plugins.SUITES} is not a Suite of that name")
        return suite
    names = sorted([*SUITES, GROUNDING, *others])
    by_path = ", ".join(f"{one}FOLDER" for one in BY_PATH)
    known = f"; known: {', '.join(names)}, {by_path}"
    raise UsageError(f"no suite {name!r}{nearest(name, names) or known}")
