"""The recording proxy: OpenAI's chat completions for anybody's agents, each call kept as sampled."""
