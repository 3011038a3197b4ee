"""TRL's GRPOTrainer at its best, on the contexts that the learner has: a sample an action.

`python -m tests.bench.peers.trl FOLDER BATCH`: an optimiser step on each update of FOLDER, which holds a
checkpoint and `tests.bench.peers.actions`, in passes of BATCH samples. Samples are sorted by length, and
padding that a whole pass has in common is cut off, neither of which it does by itself. Completions are those
of the file: neither the seconds nor the peak memory hold any generation. Prints JSON. Needs TRL and its kin
only.
"""

import json
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from datasets import Dataset
from PIL import Image
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessorPil,
    TrainerCallback,
)
from trl import GRPOConfig, GRPOTrainer
from trl.trainer import grpo_trainer
from trl.trainer.utils import RepeatSampler

from tests.bench import small_vlm
from tests.bench.peers.actions import Action, read, screen

_IMAGE, _BEGIN, _END = "<|image_pad|>", "<|vision_start|>", "<|vision_end|>"
_ROWS = ("prompt_ids", "prompt_mask", "mm_token_type_ids")  # padded on the left


class Processor(Qwen2_5_VLProcessor):
    """Without the video processor, which needs torchvision."""

    def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> Any:
        return type(argument)


def _now() -> tuple[float, ...]:
    return time.perf_counter(), time.process_time()


class _Clock(TrainerCallback):
    """Seconds of each optimiser step, and the peak of memory, without what was spent in generating."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, ...]] = []  # on the wall, and of CPU
        self.peak_mb = 0.0
        self._began: tuple[float, ...] = ()
        self._generating: tuple[float, ...] = ()
        self._left_out: tuple[float, ...] = ()

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._began, self._left_out = _now(), (0.0, 0.0)

    def on_step_end(self, *_: Any, **__: Any) -> None:
        both = zip(_now(), self._began, self._left_out, strict=True)
        self.steps.append(tuple(now - began - left_out for now, began, left_out in both))
        self.look()

    def generating(self) -> None:
        self.look()
        self._generating = _now()

    def generated(self) -> None:
        self._left_out = tuple(now - began for now, began in zip(_now(), self._generating, strict=True))
        small_vlm.forget_peak()

    def look(self) -> None:
        self.peak_mb = max(self.peak_mb, small_vlm.peak_mb())


class _Trainer(GRPOTrainer):
    clock: _Clock
    updates: list[list[Action]]
    made = 0  # updates whose completions were asked for
    tokens = images = padding = 0  # of the last update

    def _get_train_sampler(self, dataset: Any = None) -> RepeatSampler:
        """Every action once, in order, and not in groups of equal prompts."""
        args = self.args
        return RepeatSampler(
            self.train_dataset, 1, args.generation_batch_size, args.steps_per_generation, shuffle=False
        )

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        self.clock.generating()
        made = super()._generate(*args, **kwargs)
        self.clock.generated()
        self.tokens = self.images = self.padding = 0
        return made

    def _generate_single_turn(self, prompt_ids: Any, *_: Any, **__: Any) -> Any:
        """The completions of the file and no log-probabilities, as after its own sampling."""
        actions = self.updates[self.made]
        self.made += 1
        if [list(ids) for ids in prompt_ids] != [action.prompt for action in actions]:
            raise ValueError("its prompts are not those of the file")
        return [action.completion for action in actions], None

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        inputs = super()._prepare_inputs(generation_batch)
        empty = int((inputs["prompt_mask"].sum(dim=0) == 0).sum())
        inputs = {name: value[:, empty:] if name in _ROWS else value for name, value in inputs.items()}
        tokens = int(inputs["prompt_mask"].sum() + inputs["completion_mask"].sum())
        self.tokens += tokens
        self.padding += inputs["prompt_mask"].numel() + inputs["completion_mask"].numel() - tokens
        self.images += sum(inputs["num_images"])
        return inputs


def _by_length(batch: dict[str, Any]) -> dict[str, Any]:
    """In place of its shuffling: passes of samples that are about equally long."""
    order = batch["prompt_mask"].sum(dim=1).argsort(stable=True).tolist()

    def ordered(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value[order] if value.ndim else value
        return None if value is None else [value[index] for index in order]

    return {name: ordered(value) for name, value in batch.items()}


def _parts(prompt: list[int], tokenizer: PreTrainedTokenizerFast) -> list[dict[str, str]]:
    """A prompt as content of a message: words, which are one token each, and places of screenshots."""
    parts: list[dict[str, str]] = []
    words: list[str] = []
    for word in tokenizer.convert_ids_to_tokens(prompt):
        if word == _BEGIN:
            parts += [{"type": "text", "text": f"{' '.join(words)} "}, {"type": "image"}]
            words = []
        elif word not in (_IMAGE, _END):
            words.append(word)
    return [*parts, {"type": "text", "text": f" {' '.join(words)} "}]


def main(folder: Path, batch: int) -> None:
    torch.set_num_threads(2)
    updates = read(folder)
    actions = [action for update in updates for action in update]
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    tokenizer.padding_side = "left"
    processor = Processor(
        image_processor=Qwen2VLImageProcessorPil.from_pretrained(folder),
        tokenizer=tokenizer,
        video_processor=None,
        chat_template=tokenizer.chat_template,
    )
    rows = {
        "prompt": [[{"role": "user", "content": _parts(one.prompt, tokenizer)}] for one in actions],
        "images": [
            [Image.open(screen(folder, name)).convert("RGB") for name in one.screens] for one in actions
        ],
    }
    grpo_trainer.shuffle_sequence_dict = _by_length
    with TemporaryDirectory() as output:
        trainer = _Trainer(
            model=Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32),
            processing_class=processor,
            reward_funcs=lambda completions, **_: [float((-1) ** index) for index in range(len(completions))],
            train_dataset=Dataset.from_dict(rows),
            args=GRPOConfig(
                output_dir=output,
                per_device_train_batch_size=batch,
                gradient_accumulation_steps=len(updates[0]) // batch,
                num_generations=2,  # neighbours are a group: their advantages are 1 and -1
                scale_rewards="none",
                shuffle_dataset=False,
                max_completion_length=len(actions[0].completion),
                max_steps=len(updates),
                use_cpu=True,
                bf16=False,
                beta=0.0,
                gradient_checkpointing=False,
                learning_rate=1e-5,
                report_to=[],
                logging_first_step=True,
                logging_steps=1000,
                save_strategy="no",
                disable_tqdm=True,
            ),
        )
        trainer.clock, trainer.updates = _Clock(), updates
        trainer.add_callback(trainer.clock)
        loaded = small_vlm.resident_mb()
        small_vlm.forget_peak()
        trainer.train()
    figures = {
        "seconds": median(wall for wall, _ in trainer.clock.steps[1:]),
        "cpu_seconds": median(cpu for _, cpu in trainer.clock.steps[1:]),
        "peak_mb": trainer.clock.peak_mb - loaded,
        "actions": len(updates[0]),
        "tokens": trainer.tokens,
        "images": trainer.images,
        "padding": trainer.padding,
        "threads": torch.get_num_threads(),
        "bits": 8 * trainer.model.dtype.itemsize,
        "grad_norm": trainer.state.log_history[0]["grad_norm"],  # of the first step, before it is clipped
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
