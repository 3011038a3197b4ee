"""Languages of families of models that are made on top of others."""
