"""A loop on Hugging Face's accelerate with a ledger: `python -m tests.bench.resumed.loop RUN LEDGER UPDATES`.

Sample, score, take one policy gradient step, `save_state`: a trainer without a framework. It resumes by
`load_state`, as accelerate's documentation says. Prints the steps of its log as JSON. Needs accelerate and
transformers only.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration

from tests.bench import small_vlm
from tests.bench.resumed import tiny_task
from tests.bench.resumed.ledger import Ledger, name


class _Progress:
    """What beside model and optimiser a checkpoint keeps."""

    def __init__(self) -> None:
        self.step = 0
        self.logged: list[int] = []

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.step, "logged": self.logged}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.step, self.logged = state["step"], state["logged"]


def main(run: Path, ledger_path: Path, updates: int) -> None:
    torch.set_num_threads(1)
    saves = ProjectConfiguration(str(run), automatic_checkpoint_naming=True, total_limit=tiny_task.KEPT)
    accelerator = Accelerator(cpu=True, project_config=saves)
    model = small_vlm.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=tiny_task.LEARNING_RATE)
    model, optimizer = accelerator.prepare(model, optimizer)
    progress, ledger = _Progress(), Ledger(ledger_path)
    accelerator.register_for_checkpointing(progress)
    folder = run / "checkpoints"
    if folder.is_dir() and any(folder.iterdir()):
        accelerator.load_state()
        saves.iteration = progress.step + 1
    ledger.started(progress.step)
    tokenizer, images = small_vlm.tokenizer(), small_vlm.image_processor()
    rollouts = 0
    while progress.step < updates:
        inputs = _inputs(progress.step, tokenizer, images)
        count = len(inputs["input_ids"])
        names = [name(number) for number in range(rollouts, rollouts + count)]
        rollouts += count
        ledger.began(count)
        with torch.no_grad():
            whole = model.generate(
                **inputs, do_sample=True, min_new_tokens=tiny_task.TOKENS, max_new_tokens=tiny_task.TOKENS
            )
        sampled = whole[:, inputs["input_ids"].shape[1] :]
        rewards = torch.tensor([tiny_task.reward(one) for one in sampled.tolist()])
        ledger.finished(names)
        grouped = rewards.view(-1, tiny_task.GROUP)
        advantages = (grouped - grouped.mean(dim=1, keepdim=True)).flatten()
        again = inputs | {"input_ids": whole, "attention_mask": torch.ones_like(whole)}
        types = inputs["mm_token_type_ids"]
        again["mm_token_type_ids"] = torch.cat([types, types.new_zeros(sampled.shape)], dim=1)
        logits = model(**again, logits_to_keep=tiny_task.TOKENS + 1).logits[:, :-1]
        logprobs = logits.float().log_softmax(-1).gather(-1, sampled[:, :, None])[:, :, 0]
        accelerator.backward(-(advantages[:, None] * logprobs).mean())
        optimizer.step()
        optimizer.zero_grad()
        progress.step += 1
        progress.logged.append(progress.step)
        ledger.learned(progress.step, names)
        accelerator.save_state()
    print(json.dumps({"steps": progress.logged}))


def _inputs(step: int, tokenizer: Any, images: Any) -> dict[str, Any]:
    """Two prompts, each four times: words, then a screenshot."""
    numbers = [(step * tiny_task.PROMPTS + one) % tiny_task.TASKS for one in range(tiny_task.PROMPTS)]
    rows, shown = [], []
    for number in numbers:
        picture = images(images=[tiny_task.screenshot(number)], return_tensors="pt")
        tokens = int(picture["image_grid_thw"].prod()) // images.merge_size**2
        placeholders = "<|image_pad|> " * tokens
        text = f"{tiny_task.words(number)}<|vision_start|> {placeholders}<|vision_end|>"
        rows += [tokenizer.encode(text)] * tiny_task.GROUP
        shown += [picture] * tiny_task.GROUP
    ids = torch.tensor(rows)
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "mm_token_type_ids": (ids == tokenizer.convert_tokens_to_ids("<|image_pad|>")).long(),
        "pixel_values": torch.cat([one["pixel_values"] for one in shown]),
        "image_grid_thw": torch.cat([one["image_grid_thw"] for one in shown]),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
