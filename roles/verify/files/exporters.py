"""Ask the exporters of many phones at once; run on the controller by `python -c`.

Name -> URL as JSON on stdin; prints name -> why for those that do not answer with metrics.
"""

import json
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

TRIES = 6
PAUSE_SECONDS = 2.0
LIMIT_SECONDS = 10.0
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def problem(url: str) -> str | None:
    """None once it answers. One that has just started needs a moment."""
    said = ""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(PAUSE_SECONDS)
        try:
            with OPENER.open(url, timeout=LIMIT_SECONDS) as answer:
                if b"\nphonerack_" in answer.read():
                    return None
            said = "no phonerack metrics in its answer"
        except OSError as error:
            said = str(getattr(error, "reason", error))
    return said


def main() -> None:
    urls = json.load(sys.stdin)
    with ThreadPoolExecutor(32) as pool:
        found = dict(zip(urls, pool.map(problem, urls.values()), strict=True))
    print(json.dumps({name: why for name, why in found.items() if why}))


main()
