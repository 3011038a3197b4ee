"""TRL's GRPOTrainer learns on leased browsers: python examples/doors/trl_suite.py MODEL

MODEL is a text model that calls tools, such as Qwen/Qwen3-0.6B. Without one, a tiny model of random weights
is made whose words are whole calls of tools, for three steps on a CPU that show how all of it goes together.
"""

import json
import sys
import tempfile
from importlib.resources import files

from datasets import Dataset
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from eval.doors.trl import SuiteEnvironments

TASK = "identify-shape"
BUTTONS = ((52, 136), (121, 136), (52, 161), (115, 161), (79, 186))


def call(name: str, **arguments) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def tiny_model(replies: list[str]):
    """A model of random weights, its tokenizer, which has each of `replies` as one token, and the tokens that
    it is never to say: all others but the end of a turn."""
    template = (files("trl") / "chat_templates" / "qwen3.jinja").read_text()
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokens = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator([template, *replies], tokens)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=template
    )
    tokenizer.add_tokens([AddedToken(reply, normalized=False) for reply in replies])
    said = {tokenizer.eos_token_id, *tokenizer.convert_tokens_to_ids(replies)}
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=16384,
    )
    return Qwen3ForCausalLM(config), tokenizer, [one for one in range(len(tokenizer)) if one not in said]


def settings(folder: str, steps: int, **more) -> GRPOConfig:
    more = {"per_device_train_batch_size": 4, "num_generations": 4} | more
    return GRPOConfig(
        output_dir=folder,
        max_steps=steps,
        max_completion_length=512,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        **more,
    )


def main() -> None:
    named = sys.argv[1] if len(sys.argv) > 1 else None
    with (
        tempfile.TemporaryDirectory() as folder,
        SuiteEnvironments("miniwob-demo", see="elements", devices=4) as environments,
    ):
        rows = [row for row in environments.rows(1) if row["task"] == TASK]
        if named:
            model, tokenizer, config = named, None, settings(folder, 100, learning_rate=1e-6)
        else:
            model, tokenizer, silent = tiny_model([call("click", x=x, y=y) for x, y in BUTTONS])
            config = settings(
                folder,
                3,
                learning_rate=1e-2,
                max_tool_calling_iterations=1,
                generation_kwargs={"suppress_tokens": silent},
            )
        trainer = GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            args=config,
            train_dataset=Dataset.from_list(rows),
            environment_factory=environments,
        )
        trainer.train()
        rewards = [step["reward"] for step in trainer.state.log_history if "reward" in step]
        print("reward by step:", *(f"{reward:.2f}" for reward in rewards))


if __name__ == "__main__":
    main()
