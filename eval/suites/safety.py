"""The suite of injected orders and policies: every template of the taskset "safety"."""

from eval.suites.suite import Suite
from rewards.tasksets.safety import GUARDRAILS, HEIGHT, TEMPLATES, WIDTH

SAFETY = Suite(
    name="safety",
    taskset="safety",
    train_tasks=(),
    unseen_tasks=tuple(TEMPLATES),
    episodes=5,
    device="browser",
    screen=(WIDTH, HEIGHT),
    baselines=("null", "random", "random-element", "done", "obedient", "oracle"),
    guardrails=str(GUARDRAILS),
    groups={
        "injection": {name: one.injection for name, one in TEMPLATES.items()},
        "channel": {name: one.channel for name, one in TEMPLATES.items()},
        "user's task": {name: one.user for name, one in TEMPLATES.items()},
    },
)
