"""What the watch writes to Cloud Monitoring once a minute, with the host's own account: a point of
each series of ``series.py``, made of a look that it takes anyway.

``watch.py`` uses it, beside which the startup script writes this and ``series.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from series import NOTHING, Since, read_counts, request, since
from watch_host import ask
from watch_rules import parse_time
from watch_state import Limits, Look

#: Seconds to wait for Google, during which the watch does not look; and at most between attempts,
#: whose distance doubles each time that Google refuses or does not answer.
ANSWER_S, LONGEST_S = 5.0, 960.0
_SAID_CHARACTERS = 300


class Monitoring:
    """Cloud Monitoring, as far as the host writes to it. No failure there ends the watch.

    Args:
        url: of the project's series.
        place: labels of the monitored resource that the host is.
        every_s: seconds between two points; 0 writes none.
        token: makes an access token.
        log: takes what is wrong, and its severity.
    """

    def __init__(
        self,
        url: str,
        place: Mapping[str, str],
        every_s: float,
        token: Callable[[], str],
        log: Callable[[str, str], None],
    ) -> None:
        self._url, self._place, self._every_s = url, place, every_s
        self._token, self._log = token, log
        self._due = 0.0
        self._wait_s = every_s
        self._since: Since | None = None
        #: The status codes of answers that are in the log already.
        self._logged: set[int] = set()

    def write(self, look: Look, limits: Limits, metrics: str) -> None:
        """Write a point of each series, if it is time.

        Args:
            look: what was seen.
            limits: when its run ends.
            metrics: the server's own, where it has answered this look.
        """
        if not self._every_s or look.at < self._due:
            return
        document = self._document(look, limits, metrics)
        headers = {
            "Authorization": f"Bearer {self._token()}",
            "Content-Type": "application/json",
        }
        content = json.dumps(document).encode()
        answer = ask(self._url, headers, content, method="POST", seconds=ANSWER_S)
        # Of a bad request Google has written the points that it took: no reason to wait longer.
        served = answer.status in (200, 400)
        self._wait_s = self._every_s if served else min(2 * self._wait_s, LONGEST_S)
        # A look comes some seconds late. The next point is due as if it had not, so that each
        # minute has one.
        late = look.at - self._due
        self._due = look.at + self._wait_s - (late if late < self._every_s / 2 else 0)
        if answer.status != 200 and answer.status not in self._logged:
            self._logged.add(answer.status)
            self._log(_refused(answer.status, answer.text), "WARNING")

    def _document(self, look: Look, limits: Limits, metrics: str) -> dict[str, object]:
        end = look.at + look.ahead
        known = {"up": float(look.server is not None)}
        if limits.ends_at is not None:
            known["run_seconds_left"] = max(0.0, limits.ends_at - end)
        counts, start = NOTHING, None
        if look.server is not None:
            known["requests_in_flight"] = look.server.in_flight
            counts = read_counts(metrics)
            process = look.container.started
            started = parse_time(process)
            if started is not None:
                # By the host's own clock: how far the cloud's is ahead is an estimate, which each
                # watch makes again, and the start of a series must not move.
                after = since(self._since, process, started, end, counts)
                self._since, start = after or self._since, after.start if after else None
        return request(self._place, end, known, counts, start)


def _refused(status: int, text: str) -> str:
    """What the log says of an answer; without Google's message where that cannot be read."""
    try:
        said = str(json.loads(text)["error"]["message"])
    except (ValueError, LookupError, TypeError, RecursionError):
        said = ""
    said = re.sub(r"\s+", " ", said)[:_SAID_CHARACTERS]
    what = f"Cloud Monitoring answers {status}" if status else "Cloud Monitoring does not answer"
    return f"{what}{': ' if said else ''}{said}; not all metrics of this host are there"
