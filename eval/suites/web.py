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
    sites=tuple(sorted({one.store.site for one in TEMPLATES.values()})),
    groups={"site": {name: one.store.site for name, one in TEMPLATES.items()}},
)
