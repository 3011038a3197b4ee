"""The algorithms, by the name a recipe gives them. Each is a preset in a file of its own."""
