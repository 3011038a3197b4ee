"""Where policies are sampled: in this process (`local`), or by vLLM's servers (`vllm`)."""
