#!/usr/bin/env python3
"""duplicates.py KEY...: finds pages whose words are those of a page that it has seen before.

What it has seen is what the task keeps: a hash of the words of each page, the last 200.
"""

import hashlib
import json
import os
import re
from urllib.request import urlopen

from lcc.worker import Job, PermanentError, TemporaryError, run

KEPT = 200


def words(key: str) -> str:
    try:
        with urlopen(f"{os.environ['LCC_CU']}/content/{key}", timeout=30) as answer:
            page = answer.read(10_000_000).decode("utf-8", "replace")
    except OSError as error:
        raise TemporaryError(f"{key}: {error}") from None
    return " ".join(re.findall(r"\w+", re.sub(r"<[^>]*>", " ", page).lower()))


def main(job: Job) -> None:
    info = job.show()
    if not info.args:
        raise PermanentError("no page is named")
    seen: dict[str, str] = json.loads(info.data or "{}")
    for number, key in enumerate(info.args, 1):
        job.status(f"page {number} of {len(info.args)}")
        digest = hashlib.sha256(words(key).encode()).hexdigest()[:16]
        first = seen.setdefault(digest, key)
        if first != key:
            job.log(f"{key} is a duplicate of {first}")
            job.store({"id": f"duplicate {key}", "duplicate_of": first})
    job.store_data(json.dumps(dict(list(seen.items())[-KEPT:])))


run(main)
