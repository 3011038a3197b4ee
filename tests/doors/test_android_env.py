"""android_env and dm_env, unmodified, on the virtual phone: dm_env's tests, android_env's specs, wrappers."""

import re
from pathlib import Path

import pytest

from tests.support.doors import ROOT, run_in

pytestmark = [pytest.mark.doors, pytest.mark.browser]

CONFORMANCE = """
import os
import sys
import unittest
import numpy as np
from dm_env import test_utils
from eval.doors.android_env import LIFT, TOUCH, AndroidEnv
from guiagent.client.local_pool import private_pool

class Conformance(test_utils.EnvironmentTestMixin):
    def make_action_sequence(self):  # taps, until and beyond an end after every seven steps
        for number in range(20):
            kind = np.array(LIFT if number % 2 else TOUCH, np.int32)
            yield {"action_type": kind, "touch_position": np.full(2, 0.5, np.float32)}

    def test_the_sequence_meets_ends(self):
        self.environment.reset()
        ends = [self.environment.step(action).last() for action in self.make_action_sequence()]
        self.assertEqual([number for number, last in enumerate(ends) if last], [6, 14])

class TestTask(Conformance, unittest.TestCase):
    def make_object_under_test(self):
        return AndroidEnv("phone", "settings-switch", pool=pool.url, max_steps=7)

class TestNoTask(Conformance, unittest.TestCase):
    def make_object_under_test(self):
        return AndroidEnv(pool=pool.url, max_steps=7)

with private_pool("phone=1@720x1280") as pool:
    os.environ["GUIAGENT_TOKEN"] = pool.token
    unittest.main(testRunner=unittest.TextTestRunner(stream=sys.stdout))
"""
WRAPPERS = """
import dm_env
import numpy as np
from android_env.components import action_type, specs
from android_env.wrappers import discrete_action_wrapper, float_pixels_wrapper, image_rescale_wrapper
from android_env.wrappers import last_action_wrapper, swipe_action_wrapper, tap_action_wrapper
from eval.doors import android_env as ours

def same(mine, theirs):
    assert mine.keys() == theirs.keys()
    for name, spec in theirs.items():
        told = mine[name]
        assert type(told) is type(spec) and told.name == spec.name, name
        assert tuple(told.shape) == tuple(spec.shape) and told.dtype == spec.dtype, name
        for side in ("minimum", "maximum"):
            assert np.array_equal(getattr(told, side, None), getattr(spec, side, None)), (name, side)

kinds = action_type.ActionType
assert (ours.TOUCH, ours.LIFT, ours.REPEAT) == (kinds.TOUCH, kinds.LIFT, kinds.REPEAT)
env = ours.AndroidEnv("phone", "settings-switch")
assert isinstance(env, dm_env.Environment)
same(env.action_spec(), specs.base_action_spec())
same(env.observation_spec(), specs.base_observation_spec(1280, 720))
defaults = (dm_env.Environment.reward_spec(env), dm_env.Environment.discount_spec(env))
assert (env.reward_spec().dtype, env.reward_spec().shape) == (defaults[0].dtype, defaults[0].shape)
same({"discount": env.discount_spec()}, {"discount": defaults[1]})
print("specs agree")

tap = tap_action_wrapper.TapActionWrapper(env)  # five steps on the screen and one off it
tap.reset()
for x, y in ((615, 1098), (400, 1174), (636, 232)):
    at = np.array([x / 720, y / 1280], np.float32)
    step = tap.step({"action_type": np.array(0), "touch_position": at})
print("tapped", tap.task_extras()["instruction"], step.last(), step.reward, tap.stats())

swipe = swipe_action_wrapper.SwipeActionWrapper(env)
swipe.reset()
tap.step({"action_type": np.array(0), "touch_position": np.array([615 / 720, 1098 / 1280], np.float32)})
before = env.raw_observation["pixels"]
ends = {"start_position": np.array([0.5, 0.75]), "end_position": np.array([0.5, 0.35])}
after = swipe.step(ends).observation["pixels"]
bars = before[1200:] == after[1200:]
print("swiped: the bar stays", bars.all(), "the list moves", not (before[200:1100] == after[200:1100]).all())

small = image_rescale_wrapper.ImageRescaleWrapper(env, zoom_factors=(0.25, 0.25), grayscale=True)
many = discrete_action_wrapper.DiscreteActionWrapper(small, action_grid=(8, 5), redundant_actions=False)
whole = float_pixels_wrapper.FloatPixelsWrapper(last_action_wrapper.LastActionWrapper(many))
first = whole.reset()
step = whole.step({"action_id": 7})
step = whole.step({"action_id": 41})
print("stacked", first.step_type.name, step.step_type.name, step.observation["pixels"].shape)
whole.close()
"""


def test_dm_envs_own_tests_pass(tmp_path: Path) -> None:
    said = written(tmp_path, CONFORMANCE)
    assert "Ran 10 tests" in said and said.endswith("OK\n")


def test_its_specs_are_android_envs_and_its_wrappers_work(tmp_path: Path) -> None:
    told = written(tmp_path, WRAPPERS).splitlines()
    assert told[0] == "specs agree"
    assert re.match(r"tapped .*turn off location\. True 1\.0 .*'steps': 18, 'gestures': 3", told[1])
    assert told[2] == "swiped: the bar stays True the list moves True"
    assert told[3] == "stacked FIRST MID (320, 180, 2)"


def test_the_example_solves_a_task_and_opens_an_app() -> None:
    said = run_in("android_env", ROOT / "examples" / "doors" / "phone_environments.py")
    assert "turn off location. (1280, 720, 3)\nlast: True reward: 1.0 steps: 6\n" in said
    assert "the app that shows: com.android.contacts\n" in said
    assert re.search(r"the answer: \d+ elements show\n", said)


def written(folder: Path, text: str) -> str:
    script = folder / "script.py"
    script.write_text(text)
    return run_in("android_env", script, GUIAGENT_HOME=str(folder / "home"))
