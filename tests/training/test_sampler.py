"""The group sampler: devices go on with the page that they show, and every task keeps its share."""

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from training.rollout.sampler import Lookahead

TASKS = "abcdefghij"


def drawn(rng: random.Random) -> str:
    return rng.choices(TASKS, range(1, len(TASKS) + 1))[0]


@settings(deadline=None)
@given(st.integers(0, 99), st.integers(1, 24))
def test_every_drawn_task_is_used_and_few_pass_the_oldest(seed: int, ahead: int) -> None:
    rng, order = random.Random(seed), list[str]()

    def draw() -> str:
        order.append(drawn(rng))
        return order[-1]

    tasks = Lookahead(draw, ahead)
    taken = [tasks.take(rng.choice(TASKS)) for _ in range(200)]
    waiting = Counter(order) - Counter(taken)
    assert waiting.total() == len(order) - len(taken) <= ahead + 1
    # However the devices ask: what was drawn first was taken after `ahead` others for each before it.
    used = list(taken)
    for place, task in enumerate(order[:8]):
        late = used.index(task)
        assert late <= (ahead + 1) * (place + 1)
        used[late] = ""


def test_devices_stay_on_their_pages() -> None:
    rng = random.Random(0)
    rates = []
    for ahead in (0, 12):
        tasks, shows, stayed = Lookahead(lambda: drawn(rng), ahead), [""] * 12, 0
        for _ in range(3000):
            device = rng.randrange(12)
            task = tasks.take(shows[device])
            stayed += task == shows[device]
            shows[device] = task
        rates.append(stayed / 3000)
    assert rates[0] < 0.2 and rates[1] > 0.65


def test_without_room_ahead_the_order_is_the_curriculums() -> None:
    expected, rng = random.Random(3), random.Random(3)
    tasks = Lookahead(lambda: drawn(rng), 0)
    assert [tasks.take("c") for _ in range(50)] == [drawn(expected) for _ in range(50)]
