"""Training runs that are killed and resumed: ours, and peers by their own checkpoints."""
