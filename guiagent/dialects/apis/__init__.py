"""Languages of model vendors' computer tools: a reply is the tool's input as JSON."""
