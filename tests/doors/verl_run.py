"""verl's own manager and workers of agent loops, unmodified, on a stand-in for its vLLM servers.

Reads as JSON: `model`, a checkpoint's folder; `options`, for verl's config; `play`, the task and seed of each
row to play; `faulty`, those of rows with a device that fails. Prints as JSON the rollouts that the manager
returned, what the server sampled, and what the manager raised of the faulty ones.
"""

import json
import sys
from pathlib import Path
from typing import Any

import ray
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from transformers import AutoModelForImageTextToText, AutoProcessor
from verl import trainer
from verl.experimental.agent_loop import AgentLoopManager
from verl.protocol import DataProto
from verl.utils import hf_processor, hf_tokenizer
from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn
from verl.workers.rollout.llm_server import LLMServerManager
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

Sampled = tuple[list[int], list[int], list[float]]  # the prompt's tokens, the reply's and their log-probs


@ray.remote
class Server:
    """A stand-in for vLLM's: samples with transformers, one request at a time."""

    def __init__(self, model: str) -> None:
        torch.manual_seed(0)
        self.model = AutoModelForImageTextToText.from_pretrained(model).eval()
        self.processor = AutoProcessor.from_pretrained(model)
        self.log: list[Sampled] = []

    def generate(
        self,
        request_id: str,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        image_data: list[Any],
        video_data: None,
    ) -> TokenOutput:
        config, ids = self.model.config, torch.tensor([prompt_ids])
        end = config.text_config.eos_token_id
        seen = dict(self.processor.image_processor(images=image_data, return_tensors="pt"))
        seen["mm_token_type_ids"] = (ids == config.image_token_id).int()
        past, tokens, logprobs = None, list[int](), list[float]()
        with torch.no_grad():
            while len(tokens) < sampling_params["max_tokens"] and end not in tokens:
                made = self.model(input_ids=ids, past_key_values=past, use_cache=True, **seen)
                scores = made.logits[0, -1] / sampling_params["temperature"]
                scores[[config.image_token_id, config.video_token_id]] = float("-inf")
                ids = torch.multinomial(scores.softmax(-1), 1)[None]
                tokens.append(int(ids))
                logprobs.append(float(scores.log_softmax(-1)[tokens[-1]]))
                past, seen = made.past_key_values, {}
        self.log.append((prompt_ids, tokens, logprobs))
        return TokenOutput(token_ids=tokens, log_probs=logprobs, stop_reason="completed")

    def sampled(self) -> list[Sampled]:
        return self.log


class Replica(RolloutReplica):  # type: ignore[misc]
    """Such a server in the place of vLLM's, without a GPU."""

    async def init_standalone(self) -> None:
        await self.launch_servers()

    async def launch_servers(self) -> None:
        self._server_handle, self._server_address = Server.remote(self.model_config.path), "stand-in"
        self.servers = [self._server_handle]


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
    RolloutReplicaRegistry.register("stand-in", lambda: Replica)
    config = configured([f"actor_rollout_ref.model.path={asked['model']}", *asked["options"]])
    data = RLHFDataset(
        config.data.train_files, hf_tokenizer(asked["model"]), config.data, hf_processor(asked["model"])
    )

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
