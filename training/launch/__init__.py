"""Starting a run past one process: `torchrun`, `ray`."""
