"""LeRobot's LeRobotDataset loads episodes that `guiagent export RUN --as lerobot --to FOLDER` wrote."""

import os

from lerobot.datasets.lerobot_dataset import LeRobotDataset
from torch.utils.data import DataLoader

FOLDER = os.environ["LEROBOT_FOLDER"]

dataset = LeRobotDataset("local/episodes", root=FOLDER)
print(f"{dataset.num_episodes} episodes, {len(dataset)} frames")

names = dataset.features["action"]["names"]
first = dataset[0]
screen, action = first["observation.images.screen"], dict(zip(names, first["action"].tolist(), strict=True))
height, width = screen.shape[1:]
[kind] = [name.removeprefix("is_") for name, value in action.items() if name.startswith("is_") and value]
print(f"{first['task']!r}: {kind} at {round(action['x'] * width)},{round(action['y'] * height)}")

batch = next(iter(DataLoader(dataset, batch_size=2)))
print("a batch:", tuple(batch["observation.images.screen"].shape), tuple(batch["action"].shape))
