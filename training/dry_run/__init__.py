"""The dry run of a recipe: loads everything it names except the weights, and estimates cost and memory."""
