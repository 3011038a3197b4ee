"""What the requests of a page ask of the driver: the password of its proxy, and leave to read a file."""

from devices.chromium.cdp import Connection, Json
from devices.drivers.browser import sites
from devices.egress.proxy import EgressProxy

Command = tuple[str, Json]

NOWHERE = "http://guiagent.invalid/"  # no name below .invalid exists (RFC 2606)


class Requests:
    """Answers the requests of one page, whoever opened it; `enable` comes before its first one.

    `authenticated`: the page's browser context has sent the proxy's password before, and will send it with
    every connection. Else all its requests come through here, for the browser asks for a password only about
    such as do.
    """

    def __init__(
        self, connection: Connection, session: str, egress: EgressProxy, *, authenticated: bool
    ) -> None:
        self._connection = connection
        self._session = session
        self._egress = egress
        self._authenticated = authenticated

    @property
    def enable(self) -> Command:
        """The command after which the browser asks here."""
        urls = ("file:*", NOWHERE) if self._authenticated else ("*",)
        return "Fetch.enable", {"patterns": [{"urlPattern": url} for url in urls], "handleAuthRequests": True}

    def heard(self, method: str, event: Json) -> None:
        """Answer an event of the page, if it is about a request."""
        match method:
            case "Fetch.authRequired":
                self._give_password(event)
            case "Fetch.requestPaused":
                self._admit(event)

    def _give_password(self, event: Json) -> None:
        answer: Json = {"response": "CancelAuth"}
        if event["authChallenge"]["source"] == "Proxy":
            answer = {"response": "ProvideCredentials"}
            answer |= {"username": self._egress.username, "password": self._egress.password}
        parameters = {"requestId": event["requestId"], "authChallengeResponse": answer}
        self._connection.post("Fetch.continueWithAuth", parameters, self._session)

    def _admit(self, event: Json) -> None:
        request: Json = {"requestId": event["requestId"]}
        url = event["request"]["url"]
        if not url.startswith("file:") or sites.is_served(url):
            self._connection.post("Fetch.continueRequest", request, self._session)
        else:
            refusal = request | {"errorReason": "AccessDenied"}
            self._connection.post("Fetch.failRequest", refusal, self._session)
