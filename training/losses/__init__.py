"""The losses, on flat tensors of sampled tokens: pure functions, one file for each kind of term."""
