"""Tasks in Calculator, which has to be used: its history shows the result."""

import random

from rewards.checks.android import Row
from rewards.checks.android_tables import CALCULATIONS
from rewards.tasksets.phone.facts import Added
from rewards.tasksets.phone.template import Scenario, Template

_APP = ("com.android.calculator2",)
_TYPED: Row = {"formula": "0"}


def _worked_out(told: str, result: int, slip: int, steps: int) -> Scenario:
    row: Row = {"result": str(result)}
    return Scenario(
        f"Work out {told} in the calculator, with its = key.",
        steps,
        start=[(CALCULATIONS, [])],
        goal=[Added(CALCULATIONS, row, _TYPED)],
        answer={"result": result},
        near_misses={"a slip": [Added(CALCULATIONS, {"result": str(slip)}, _TYPED)]},
    )


def product(rng: random.Random) -> Scenario:
    a, b = rng.randint(23, 97), rng.randint(34, 89)
    return _worked_out(f"{a} times {b}", a * b, a + b, 9)


def in_brackets(rng: random.Random) -> Scenario:
    a, b, c = rng.randint(12, 89), rng.randint(12, 89), rng.randint(3, 9)
    return _worked_out(f"the sum of {a} and {b}, multiplied by {c}", (a + b) * c, a + b * c, 13)


TEMPLATES = (
    Template("calculator-product", _APP, product),
    Template("calculator-in-brackets", _APP, in_brackets),
)
