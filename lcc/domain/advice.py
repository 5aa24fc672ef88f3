"""What to do about an error: each one of the table in :mod:`lcc.errors` has its next step.

The texts speak to who is told: codes below 1300 to the provider, whose set or element was refused; the others to the
provider and the operator alike, who both see them when a fetch has failed.
"""

from __future__ import annotations

from lcc.errors import entry_for

_SERVER = "check the web server's log for this URL; submit the URL again once it is fixed"
_SITE = "fetching resumes by itself once the site is back; lcc-admin retry --provider N retries now"
_LATER = "no action needed: it is retried"

ADVICE: dict[int, str] = {
    1001: "if your own tool writes the XML, validate it against doc/cp-uns.rng",
    1002: "compare the message with doc/protocol.md; another service may be listening on this port",
    1003: "send shorter values, or fewer at once; the operator sets the limits in [uns]",
    1004: "write UTF-8, without a DOCTYPE",
    1005: "send without long pauses, as lcccp does",
    1010: "check --pid and the password file. Operators can set a new password: lcc-admin provider set N "
    "--new-password",
    1011: "wait a minute, then try once with the right password",
    1012: "try again later (lcccp --retries). Operators: lcc-admin status shows what is full or unreachable",
    1013: "try again later; see the log of the UNS",
    1014: "close unused connections, or try again later; the operator sets the limits in [uns]",
    1015: "the data sent was correct; if this recurs, check the network between the two machines",
    1101: "send only the changes (lcccpstate), or ask the operator for more: lcc-admin provider set N --full-sets",
    1102: "send smaller sets, or ask the operator to raise the limit in [uns]",
    1103: "compare the attributes of <set> with doc/protocol.md",
    1104: "start --urlprefix with http:// or https://, such as http://site/",
    1105: "ask the operator to register you again",
    1106: "compare --urlprefix with your roots; to delete everything, send a full set without elements",
    1107: "draw an order number when the asking begins, and tell the set with it; hints and polls have none",
    1108: "name the site to a notifier of the front end, or of the sub-LCC that has it now (lcc-admin fe where)",
    1201: "give each <url> a curl (or c)",
    1202: "write the URL as in RFC 3986, with other characters %-escaped",
    1203: "use the scheme of one of your roots, or have a root with this scheme registered",
    1204: "compare it with your roots and --urlprefix; the operator can add roots (lcc-admin provider set N "
    "--add-root)",
    1205: "add a mimetype (or m); file2url --default-mimetype sets it for files of unknown type",
    1206: "write type/subtype, such as text/html",
    1207: "leave out files of this type; lcccp --check lists the accepted types (mimetypes in lcc.toml)",
    1208: "write 32 hexadecimal digits, or omit md5",
    1209: "write the length in bytes, or omit len",
    1210: "write 2026-11-22T10:00:00Z or seconds since 1970, or omit mtime",
    1211: "write update or delete",
    1212: "write hours such as 0-8,22-23 or mon 0-8",
    1213: "choose hours that overlap the provider's (lcc-admin provider show N)",
    1214: "write yes or no, or one of the values listed in doc/protocol.md",
    1215: "remove user name and password from the URL",
    1216: "shorten it; doc/protocol.md lists the limits",
    1217: "give the attribute only once",
    1301: f"check the host name, and that the robots' resolver knows it; {_SITE}",
    1302: f"check that the web server runs and listens on that port; {_SITE}",
    1303: f"check that the robots can reach the web server (firewall?); {_SITE}",
    1304: f"renew the site's certificate, or turn off verification: lcc-admin provider set N --insecure; {_SITE}",
    1305: "if the site is on your own network: lcc-admin provider set N --allow-private",
    1306: _LATER,
    1307: f"allow anonymous login, or leave these URLs out; {_SITE}",
    1401: "speed up the page, or raise [bot] deadline",
    1402: "send fewer or shorter header fields, or raise [bot] header_bytes_max",
    1403: "leave out content this large, or raise [bot] body_bytes_max",
    1404: _SERVER,
    1405: _SERVER,
    1406: "shorten the redirect chain, or submit its final URL",
    1407: "submit the URL it redirects to, or have that site registered as a root",
    1408: "submit the type that the server sends, or make the server send the submitted one",
    1409: "make the server honour Accept-Encoding",
    1410: "free disk space for the content folder; lcc-admin status shows on which machine",
    1411: "leave these URLs out, or install the fetcher on every machine with robots (doc/fetchers.md)",
    1412: _SERVER,
    1413: "report the traceback in the robot's log",
    1414: "check that the site it redirects to is up",
    1415: "no action needed: it waits for its next hours; if this recurs, extend the hours",
    1416: _SERVER,
    1417: "make it readable by user anonymous",
    1418: _LATER,
    1419: "put the file into one of [bot] file_folders, on every machine with robots, and make it readable by the "
    "robot",
    1420: "free disk space for the content folder; lcc-admin status shows on which machine",
    1421: "no action needed: it waits for its turn",
    1501: "delete what you do not need, or ask the operator for more: lcc-admin provider set N --files-max",
    1502: "delete what you do not need, or ask the operator for more: lcc-admin provider set N --space-max",
    1503: "send a full set (lcccpstate --full): it confirms all it contains",
    1601: "serve the file at this address, without redirecting to another host",
    1602: "put only the secret into the file, exactly as shown",
}
"""Code -> what to do next."""

_STATUS = {
    401: "the robot has no password: leave the URL out, or allow it",
    403: "leave the URL out, or allow the robot (its User-Agent begins with LCC/, unless [bot] user_agent is set)",
    404: "if it is gone, submit its deletion (lcccpstate does); otherwise check the fetch URL",
    410: "if it is gone, submit its deletion (lcccpstate does)",
    429: "lower the provider's --bandwidth, or raise the site's rate limit for the robot",
}


_THEN_RETRY = frozenset({401, 403, 1305, 1401, 1402, 1403, 1407, 1411, 1417, 1419, 1501, 1502})
"""Final errors whose cause may be repaired here: that alone queues nothing."""


def advice(number: int) -> str:
    """What to do about an error, an HTTP status included."""
    text = ADVICE.get(number) or _STATUS.get(number)
    if text is None:
        text = _LATER if entry_for(number).remedy.value == "retry" else _SERVER
    return f"{text}; then lcc-admin retry --code {number}" if number in _THEN_RETRY else text
