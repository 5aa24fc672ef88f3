"""What the model is fed with: assumptions, and measured costs.  doc/growth.md tells where each comes from."""

from __future__ import annotations

import attrs

from growth.world import changes_per_day


@attrs.frozen
class Assumptions:
    """Of the web that is cached, of who reads it, and of the machines; a reader has other ones.

    :ivar urls: pages in the cache.
    :ivar provider_urls: of them, of one provider, on average.
    :ivar changes_per_day: of a page, on average; each is told once and fetched once.
    :ivar pages_per_set: changed pages that a provider tells of at once; full sets are not among these.
    :ivar kept_part: of the sets, 0 to 1, that come over a connection that stays open; each other one has a session of
        its own.
    :ivar full_set_days: each provider names all its pages once in so many days; most of them are unchanged then.
    :ivar page_bytes: of a content, as it is kept.
    :ivar wire_bytes: of a fetch, as it travels from the web server.
    :ivar notice_bytes: of an element of a set, as it travels.
    :ivar https_part: of the pages, 0 to 1.
    :ivar pages_per_connection: that a robot fetches before it has to connect anew.
    :ivar fetch_seconds: of a fetch over the internet, on average.
    :ivar reads_per_page: how often content users take each version of a page.
    :ivar reads_by_url: of these, one by one as ``/content/KEY``, 0 to 1; the others are taken in packages.
    :ivar peak: the busiest hour, as a multiple of the mean.
    :ivar busy: of a core, that is planned for at the peak.
    :ivar fill: of a disk, with content or with a database, that is planned for.
    :ivar cores: of a machine.
    :ivar disk_bytes: of a machine with content.
    :ivar database_bytes: of a database server's disk.
    :ivar robot_fetches: at once, in one robot.
    """

    urls: float = 10e9
    provider_urls: float = 1000.0
    changes_per_day: float = changes_per_day()
    pages_per_set: float = 3.4
    kept_part: float = 0.0
    full_set_days: float = 90.0
    page_bytes: float = 30e3
    wire_bytes: float = 12e3
    notice_bytes: float = 120.0
    https_part: float = 0.9
    pages_per_connection: float = 3.0
    fetch_seconds: float = 0.5
    reads_per_page: float = 1.0
    reads_by_url: float = 0.1
    peak: float = 2.0
    busy: float = 0.5
    fill: float = 0.7
    cores: int = 16
    disk_bytes: float = 60e12
    database_bytes: float = 1e12
    robot_fetches: int = 200


@attrs.frozen
class Costs:
    """What was measured, on the machine of doc/performance.md; ``_us``: microseconds of CPU.

    :ivar session_uns_us: of the UNS for a session: connect, log in, one small set, leave; ``session_qm_us``: of the
        QM, ``session_database_us``: of the database, for the same.
    :ivar session_tls_us: of the UNS, on top, because the session comes over TLS.
    :ivar front_session_us: of the front end's proxy for the same session, without TLS; ``front_element_us``: for an
        element of a set.
    :ivar set_uns_us, set_qm_us, set_database_us: for a small set over a connection that is open already.
    :ivar session_syncs: of the database's disk for a session with a set, when none is shared; ``set_syncs``: for a
        set over an open connection.
    :ivar uns_us: of the UNS for an element.
    :ivar qm_us: of the QM for a changed page, from the notification to the record; ``database_us``: of the database.
    :ivar qm_unchanged_us, database_unchanged_us: of both for an element that tells nothing new.
    :ivar botm_us: of the BOT-M for a page that is fetched.
    :ivar central_us: of a central BOT-M for the same.
    :ivar bot_us: of the robot for a page of 10 KiB that comes as it is, on a kept connection without TLS.
    :ivar decode_us: of the robot, on top, for a page of ``page_bytes`` that comes compressed.
    :ivar tls_us: of the robot for a new connection with TLS.
    :ivar cu_by_url_us: of lcc-cu for a content by its URL; ``botm_by_url_us``: of the BOT-M.
    :ivar cu_packed_us: of lcc-cu for a content in a package; ``botm_packed_us``: of the BOT-M.
    :ivar cu_row_us: of lcc-cu for a row of a list of changes; ``database_row_us``: of the database.
    :ivar row_bytes: of the database for a cached page, with its indexes.
    :ivar row_reads: rows and entries of indexes that are looked at for a changed page; ``row_writes``: rows that are
        inserted, updated or removed.
    :ivar page_reads: database pages of 16 KiB that are read from disk for a changed page; ``page_writes``: written.
    """

    session_uns_us: float = 730.0
    session_qm_us: float = 220.0
    session_database_us: float = 260.0
    session_tls_us: float = 800.0
    front_session_us: float = 370.0
    front_element_us: float = 0.3
    set_uns_us: float = 250.0
    set_qm_us: float = 150.0
    set_database_us: float = 100.0
    session_syncs: float = 2.0
    set_syncs: float = 1.0
    uns_us: float = 15.0
    qm_us: float = 200.0
    database_us: float = 250.0
    qm_unchanged_us: float = 25.0
    database_unchanged_us: float = 20.0
    botm_us: float = 65.0
    central_us: float = 75.0
    bot_us: float = 120.0
    decode_us: float = 130.0
    tls_us: float = 1500.0
    cu_by_url_us: float = 720.0
    botm_by_url_us: float = 210.0
    cu_packed_us: float = 250.0
    botm_packed_us: float = 40.0
    cu_row_us: float = 14.0
    database_row_us: float = 4.0
    row_bytes: float = 1100.0
    row_reads: float = 11.0
    row_writes: float = 8.0
    page_reads: float = 4.0
    page_writes: float = 3.0
