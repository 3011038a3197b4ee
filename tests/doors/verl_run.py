"""verl's own manager and workers of agent loops, unmodified, on a stand-in for its vLLM servers.

Reads as JSON: `options`, for verl's config; `play`, the task and seed of each row to play; `faulty`, those of
rows with a device that fails. Prints as JSON the rollouts that the manager returned, what the server sampled,
and what the manager raised of the faulty ones.
"""

import json
import sys
from pathlib import Path
from typing import Any

import ray
import verl_stand_ins  # noqa: F401 (registers them)
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from verl import trainer
from verl.experimental.agent_loop import AgentLoopManager
from verl.protocol import DataProto
from verl.utils import hf_processor, hf_tokenizer
from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn
from verl.workers.rollout.llm_server import LLMServerManager


def configured(options: list[str]) -> DictConfig:
    with initialize_config_dir(str(Path(trainer.__path__[0]) / "config"), version_base=None):
        return compose("ppo_trainer", options)


def rollouts(made: DataProto) -> list[dict[str, Any]]:
    """Each rollout as lists without padding. `paid` are the places of the response that have a reward."""
    told = []
    for one in made:
        tensors, more = one.batch, one.non_tensor_batch
        shown = tensors["attention_mask"].bool()
        prompts, responses = shown.split([len(tensors["prompts"]), len(tensors["responses"])])
        rewards = tensors["rm_scores"]
        told.append(
            {
                "row": more["extra_info"],
                "prompt": tensors["prompts"][prompts].tolist(),
                "response": tensors["responses"][responses].tolist(),
                "mask": tensors["response_mask"][responses].tolist(),
                "masked_padding": int(tensors["response_mask"][~responses].sum()),
                "logprobs": tensors["rollout_log_probs"][responses].tolist(),
                "paid": rewards.nonzero().flatten().tolist(),
                "reward": float(rewards.sum()),
                "pictures": len(more["multi_modal_inputs"]["image_grid_thw"]),
                "turns": int(more["__num_turns__"]),
                "came_to": more["guiagent"],
            }
        )
    return told


def main() -> None:
    asked = json.load(sys.stdin)
    config = configured(asked["options"])
    model = config.actor_rollout_ref.model.path
    data = RLHFDataset(config.data.train_files, hf_tokenizer(model), config.data, hf_processor(model))

    def batch(wanted: list[list[Any]]) -> DataProto:
        rows = {(row["extra_info"]["task"], row["extra_info"]["seed"]): row for row in data}
        return DataProto.from_single_dict(collate_fn([rows[task, seed] for task, seed in wanted]))

    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        servers = LLMServerManager.create(config=config)
        manager = AgentLoopManager.create(config=config, llm_client=servers.get_client())
        made = manager.generate_sequences(batch(asked["play"]).repeat(config.actor_rollout_ref.rollout.n))
        sampled = ray.get(servers.server_handles[0].sampled.remote())
        try:
            manager.generate_sequences(batch(asked["faulty"]))
            raised = ""
        except Exception as error:
            raised = str(error)
        print(json.dumps({"rollouts": rollouts(made), "sampled": sampled, "raised": raised}))
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
