"""What to do about an error: each one of the table in :mod:`lcc.errors` has its next step.

The texts speak to who is told: codes below 1300 to the provider, whose set or element was refused; the others to the
provider and the operator alike, who both see them when a fetch has failed.
"""

from __future__ import annotations

from lcc.errors import entry_for

_SERVER = "look at the web server's log for this URL; tell the URL again when it is mended"
_SITE = "when the site is back it goes on by itself; lcc-admin retry --provider N does not wait for that"
_LATER = "nothing has to be done: it is tried again"

ADVICE: dict[int, str] = {
    1001: "if a tool of your own writes the XML, check it against doc/cp-uns.rng",
    1002: "compare what is sent with doc/protocol.md; perhaps something else answers at this port",
    1003: "send shorter values, or fewer at once; the operator's limits are in [uns]",
    1004: "write UTF-8, without a DOCTYPE",
    1005: "send without long pauses; let lcccp do it",
    1010: "look at --pid and the password file. Operators make a new one: lcc-admin provider set N --new-password",
    1011: "wait a minute, then try once, with the right password",
    1012: "try again later; lcccp --retries does. Operators: lcc-admin status says what is full or away",
    1013: "try again later; the log of the UNS says more",
    1014: "close connections that are not needed, or try again later; the operator's limits are in [uns]",
    1015: "nothing is wrong with what was sent; if it happens again, see what is between the two machines",
    1101: "send what has changed instead (lcccpstate does), or ask for more: lcc-admin provider set N --full-sets",
    1102: "send several smaller sets, or ask the operator for a larger [uns] limit",
    1103: "compare the attributes of <set> with doc/protocol.md",
    1104: "let --urlprefix be http:// or https://, or begin with one and a host, such as http://site/",
    1105: "ask the operator to register you again",
    1106: "compare --urlprefix with your roots; a set without any element says that there is nothing left",
    1201: "give each <url> a curl (or c)",
    1202: "write the URL as RFC 3986 has it, with %-escapes for what cannot stand in one",
    1203: "use a scheme that one of your roots has, or have a root of this scheme registered",
    1204: "compare it with your roots and with --urlprefix; the operator can change roots (lcc-admin provider set N)",
    1205: "give it a mimetype (or m); file2url --default-mimetype does for files of unknown type",
    1206: "write type/subtype, such as text/html",
    1207: "leave files of this type out; lcccp --check lists what is accepted (mimetypes in lcc.toml)",
    1208: "write 32 hexadecimal digits, or leave md5 out",
    1209: "write the length in bytes as a number, or leave len out",
    1210: "write 2026-11-22T10:00:00Z or seconds since 1970, or leave mtime out",
    1211: "write update or delete",
    1212: "write hours such as 0-8,22-23 or mon 0-8",
    1213: "choose hours that meet those of the provider; lcc-admin provider show N has them",
    1214: "write yes or no, or one of the values that doc/protocol.md names",
    1215: "leave user name and password out of the URL",
    1216: "shorten it; doc/protocol.md has the limits",
    1217: "give the attribute once",
    1301: f"see that the host's name is right, and known to DNS where the robots are; {_SITE}",
    1302: f"see that the web server runs, and at that port; {_SITE}",
    1303: f"see that the web server can be reached from where the robots are (firewall?); {_SITE}",
    1304: f"renew the site's certificate, or register it with --insecure if that is meant; {_SITE}",
    1305: "if this site is on your own network: lcc-admin provider set N --allow-private",
    1306: _LATER,
    1307: f"let user anonymous in, or take these URLs out; {_SITE}",
    1401: "make the page faster, or raise [bot] deadline",
    1402: "send fewer or shorter header fields, or raise [bot] header_bytes_max",
    1403: "leave so large content out, or raise [bot] body_bytes_max",
    1404: _SERVER,
    1405: _SERVER,
    1406: "shorten the chain of redirects, or tell the URL that it ends at",
    1407: "tell the URL that it leads to, or have its beginning registered as a root",
    1408: "tell the type that the server sends, or have the server send the one that is told",
    1409: "have the server send what Accept-Encoding allows",
    1410: "make room where the content folder is; lcc-admin status says which machine it is",
    1411: "install the fetcher wherever robots run (doc/fetchers.md), or leave these URLs out",
    1412: _SERVER,
    1413: "look into the log of the robot for the traceback, and report it",
    1414: "see that the site that the redirect leads to is up",
    1415: "nothing has to be done: it waits for its next hours; longer hours make it likelier to be fetched in them",
    1416: _SERVER,
    1417: "see that user anonymous may read it",
    1418: _LATER,
    1419: "put the file into one of [bot] file_folders, on every machine with robots, readable for the robot",
    1420: "make room where the content folder is; lcc-admin status says which machine it is",
    1501: "delete what is not needed, or ask the operator: lcc-admin provider set N --files-max",
    1502: "delete what is not needed, or ask the operator: lcc-admin provider set N --space-max",
    1503: "send a full set (lcccpstate --full): what is in it is confirmed",
    1601: "let the file be found at its own address, without a redirect to another host",
    1602: "put the secret into the file, as it was shown, and nothing else",
}
"""Code -> what to do next."""

_STATUS = {
    401: "the robot has no password: let it in, or leave the URL out",
    403: "let the robot in (its User-Agent begins with LCC/, unless [bot] user_agent is set), or leave the URL out",
    404: "if it is gone, tell its deletion (lcccpstate does); else look at the URL that is fetched",
    410: "if it is gone, tell its deletion (lcccpstate does)",
    429: "lower the provider's --bandwidth, or have the site let the robot do more",
}


def advice(code: int) -> str:
    """What to do about an error, an HTTP status included."""
    if code in ADVICE:
        return ADVICE[code]
    if code in _STATUS:
        return _STATUS[code]
    return _LATER if entry_for(code).remedy.value == "retry" else _SERVER
