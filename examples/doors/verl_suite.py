"""The files from which verl's trainer learns on leased devices:

    python examples/doors/verl_suite.py FOLDER suite=miniwob-demo dialect=qwen3-computer devices=8

It writes rows for verl's data set and a list of one agent loop, and prints the options of
`python -m verl.trainer.main_ppo` that name them. The words after FOLDER are settings of
`eval.doors.verl.GuiAgentLoop`.
"""

import sys
from pathlib import Path

from datasets import Dataset
from omegaconf import OmegaConf

from eval.doors.verl import rows
from eval.stepping import SuiteTasks

folder, settings = Path(sys.argv[1]).resolve(), OmegaConf.from_dotlist(sys.argv[2:])
folder.mkdir(parents=True, exist_ok=True)
tasks = SuiteTasks(settings.suite, settings.get("split", "train"))
Dataset.from_list(rows(tasks, episodes=4)).to_parquet(folder / "train.parquet")
loop = {"name": "guiagent", "_target_": "eval.doors.verl.GuiAgentLoop", **settings}
OmegaConf.save(OmegaConf.create([loop]), folder / "loops.yaml")

print(f"data.train_files={folder}/train.parquet")
print(f"actor_rollout_ref.rollout.agent.agent_loop_config_path={folder}/loops.yaml")
