"""Paths, media types, limits and codes of the farm's API over HTTP."""

LEASES = "/v1/leases"
DEVICES = "/v1/devices"
HOSTS = "/v1/hosts"
OPENAPI = "/v1/openapi.json"
LIVE = "/v1/live"
HEALTH = "/healthz"
METRICS = "/metrics"
APPROVALS = "/v1/approvals"
HELP = "/v1/help"
LIVE_PROTOCOL = "guiagent.live"  # WebSocket subprotocol; the bearer token is offered as a second one
JSON = "application/json"
MSGPACK = "application/msgpack"
PROBLEM = "application/problem+json"
OCTETS = "application/octet-stream"
TEXT = "text/plain"
NOBODY_LEADS = frozenset({"no_leader", "leader_lost"})
"""Codes of a pool instance that cannot reach the one that leads: it will have another soon."""
TOO_MANY_REQUESTS = "too_many_requests"
"""Code of a tenant's request that is one too many for now; `Retry-After` says for how long."""
MAX_BODY = 1 << 20  # bytes of a request
MAX_FILE = 64 << 20  # bytes of a file, each way
MAX_NESTING = 64  # of lists and dicts in the state of a reset
TRY_LATER = 1013  # WebSocket close code: the client may try again
CLOSED = 4000  # plus the status a problem would have: why the pool closed a connection to a service
