"""Recording of leases: what their holders do and see, by any verb, as trajectories."""
