"""A leased phone by two interfaces: `android_env`'s touches solve a task, AndroidWorld's open an app."""

import numpy as np

import guiagent
from eval.doors.android_env import LIFT, TOUCH, AndroidEnv
from eval.doors.android_world import AndroidWorldEnv

# dm_env: touches in, pixels out; the reward is the task's check. Where to tap on 720x1280 pixels is known.
with AndroidEnv("phone", "settings-switch", seed=0) as env:
    step = env.reset()
    print(env.task_extras()["instruction"], step.observation["pixels"].shape)
    for x, y in ((615, 1098), (400, 1174), (636, 232)):  # the app Settings, its row Location, the switch
        at = np.array([x / 720, y / 1280], np.float32)
        for kind in (TOUCH, LIFT):
            step = env.step({"action_type": np.int32(kind), "touch_position": at})
    print("last:", step.last(), "reward:", step.reward, "steps:", env.stats()["steps"])

# AndroidWorld: elements in, JSON actions out.
with guiagent.connect(devices=["phone"]) as farm, farm.lease("phone", grants=("shell", "files")) as device:
    world = AndroidWorldEnv(device)
    state = world.reset(go_home=True)
    contacts = [element.content_description for element in state.ui_elements].index("Contacts")
    world.execute_action({"action_type": "click", "index": contacts})
    shown = world.get_state(wait_to_stabilize=True).ui_elements
    print(
        "the app that shows:", next(element.package_name for element in shown if element.text == "Contacts")
    )
    world.execute_action({"action_type": "answer", "text": f"{len(shown)} elements show"})
    print("the answer:", world.interaction_cache)
