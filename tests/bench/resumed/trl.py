"""TRL's GRPOTrainer with a ledger: `python -m tests.bench.resumed.trl RUN LEDGER UPDATES EVERY`.

It saves after every update, and resumes as its documentation says. It generates for EVERY updates at once: 1
is its default, more is done for throughput. Prints the steps of its log as JSON. Needs TRL and its kin only.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import TrainerCallback
from transformers.trainer_utils import get_last_checkpoint
from trl import GRPOConfig, GRPOTrainer

from tests.bench import small_vlm
from tests.bench.peers.trl import Processor
from tests.bench.resumed import tiny_task
from tests.bench.resumed.ledger import Ledger, name

_NUMBERS = "rollout_numbers"


class _Saved(Processor):
    """Its checkpoints have the parts that there are."""

    def save_pretrained(self, save_directory: str, *_: Any, **__: Any) -> None:
        self.tokenizer.save_pretrained(save_directory)
        self.image_processor.save_pretrained(save_directory)


class _Trainer(GRPOTrainer):
    """Tells the ledger; rollouts are numbered, and go with their numbers through its buffer."""

    ledger: Ledger
    rollouts = 0
    learning: Sequence[int] = ()

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        self.ledger.began(len(inputs))
        scored = super()._generate_and_score_completions(inputs)
        numbers = torch.arange(self.rollouts, self.rollouts + len(inputs))
        self.rollouts += len(inputs)
        self.ledger.finished([name(number) for number in numbers.tolist()])
        return {**scored, _NUMBERS: numbers}

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        inputs = dict(super()._prepare_inputs(generation_batch))
        self.learning = inputs.pop(_NUMBERS).tolist()
        return inputs


class _Witness(TrainerCallback):
    def __init__(self, trainer: _Trainer) -> None:
        self._trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._trainer.ledger.started(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        learned = [name(number) for number in self._trainer.learning]
        self._trainer.ledger.learned(state.global_step, learned)


def main(run: Path, ledger: Path, updates: int, every: int) -> None:
    torch.set_num_threads(1)
    tokenizer = small_vlm.tokenizer()
    processor = _Saved(
        image_processor=small_vlm.image_processor(),
        tokenizer=tokenizer,
        video_processor=None,
        chat_template=tokenizer.chat_template,
    )
    tasks = range(tiny_task.TASKS)
    trainer = _Trainer(
        model=small_vlm.model(),
        processing_class=processor,
        reward_funcs=lambda completion_ids, **_: [tiny_task.reward(one) for one in completion_ids],
        train_dataset=Dataset.from_dict(
            {
                "prompt": [[{"role": "user", "content": tiny_task.words(task)}] for task in tasks],
                "images": [[tiny_task.screenshot(task)] for task in tasks],
            }
        ),
        args=GRPOConfig(
            output_dir=str(run),
            per_device_train_batch_size=tiny_task.PROMPTS * tiny_task.GROUP,
            steps_per_generation=every,
            num_generations=tiny_task.GROUP,
            max_completion_length=tiny_task.TOKENS,
            max_steps=updates,
            learning_rate=tiny_task.LEARNING_RATE,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to=[],
            logging_steps=1,
            save_strategy="steps",
            save_steps=1,
            save_total_limit=tiny_task.KEPT,
            disable_tqdm=True,
        ),
    )
    trainer.ledger = Ledger(ledger)
    trainer.add_callback(_Witness(trainer))
    trainer.train(resume_from_checkpoint=get_last_checkpoint(str(run)) if run.is_dir() else None)
    print(json.dumps({"steps": [one["step"] for one in trainer.state.log_history if "loss" in one]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
