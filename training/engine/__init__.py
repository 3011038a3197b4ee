"""Where policies are sampled: in this process (`local`). Servers over HTTP are `guiagent.policies.chat`."""
