"""The suite on real web applications: every template of the taskset "web", on sites leased with a browser."""

from eval.suites.suite import Suite
from rewards.tasksets.web import TEMPLATES

WEB = Suite(
    name="web",
    taskset="web",
    train_tasks=(),
    unseen_tasks=tuple(TEMPLATES),
    episodes=3,
    device="browser",
    grants=("exec", "sites"),  # set-ups log in by a script, and checks read the sites' databases
    oracle=False,
    baselines=("null", "random", "random-element", "done", "fail"),  # some tasks cannot be done
    sites_of={name: one.sites for name, one in TEMPLATES.items()},
    applications={store.site: store.application for one in TEMPLATES.values() for store in one.stores},
    groups={"site": {name: "+".join(one.sites) for name, one in TEMPLATES.items()}},
)
