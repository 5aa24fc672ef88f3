-- The frontier of crawls (lcc.storage.spider), in a file of its own: a spider must not wait while the queue manager writes.
-- Times are seconds since 1970 (UTC).  Written by spiders only, as far as nothing else is said.

-- Crawls (lcc.model.spider.crawls).
CREATE TABLE spcrawl (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    settings TEXT NOT NULL,                     -- JSON: CrawlSettings
    state TEXT NOT NULL,                        -- active, paused, removing
    created_time INTEGER NOT NULL,
    version INTEGER NOT NULL                    -- grows with its settings, its state, its excluded hosts
);
CREATE UNIQUE INDEX spcrawl_name ON spcrawl (name);

-- Hosts that a crawl does not follow links to.
CREATE TABLE spexcluded (
    crawl INTEGER NOT NULL,
    host TEXT NOT NULL,                         -- lower case, with the port if that is not the default
    PRIMARY KEY (crawl, host)
) WITHOUT ROWID;

-- Known URLs.
CREATE TABLE spurl (
    crawl INTEGER NOT NULL,
    urlkey BLOB NOT NULL,                       -- of the URL that compares (lcc.domain.spider.keys)
    hostkey BLOB NOT NULL,                      -- of the host that it is fetched from
    path TEXT NOT NULL,                         -- of the URL that is fetched, behind the root of its host
    state INTEGER NOT NULL,                     -- 0 waiting, 1 told, 2 cached, 3 failed, 4 gone, 5 refused
    urlrank INTEGER NOT NULL,                   -- waiting: lowest first; told: when; else when it is looked at again
    depth INTEGER NOT NULL,                     -- links from a start
    inlinks INTEGER NOT NULL,                   -- read pages with a link to it, where the order goes by them, while it was not read
    parent BLOB NOT NULL,                       -- urlkey of the page it was found on first; empty: a start
    cash INTEGER NOT NULL,                      -- importance that is not handed on yet (OPIC)
    history INTEGER NOT NULL,                   -- importance handed on within the window of history (OPIC)
    change_number INTEGER NOT NULL,             -- of the content that was read last; 0: none was
    md5 BLOB NOT NULL,                          -- of that content; empty: none was read
    checked_time INTEGER NOT NULL,              -- when its content, or its error, was known to be current; 0: never
    interval_seconds INTEGER NOT NULL,          -- until it is looked at again
    code INTEGER NOT NULL,                      -- of its last error; 0: none
    failures INTEGER NOT NULL,                  -- errors in a row
    told_set INTEGER NOT NULL,                  -- number of the set that told it last; 0: none
    PRIMARY KEY (crawl, urlkey)
) WITHOUT ROWID;
CREATE INDEX spurl_next ON spurl (crawl, hostkey, state, urlrank);

-- Hosts with known URLs.
CREATE TABLE sphost (
    crawl INTEGER NOT NULL,
    hostkey BLOB NOT NULL,
    root TEXT NOT NULL,                         -- scheme://host[:port]/
    domain TEXT NOT NULL,                       -- registered domain
    bucket INTEGER NOT NULL,                    -- 0 to 63: whose it is (spclaim)
    pid INTEGER NOT NULL,                       -- its provider; 0: not asked for yet
    excluded INTEGER NOT NULL,                  -- 1: nothing of it is told
    known INTEGER NOT NULL,                     -- rows of spurl: all, by state
    waiting INTEGER NOT NULL,
    told INTEGER NOT NULL,
    cached INTEGER NOT NULL,
    failures INTEGER NOT NULL,                  -- of the host, in a row
    parked_time INTEGER NOT NULL,               -- nothing of it is told before; 0: it is not parked
    parkings INTEGER NOT NULL,                  -- how often it was parked in a row
    code INTEGER NOT NULL,                      -- of its last failure; 0: none
    due_time INTEGER,                           -- when the first of its URLs is looked at again; NULL: never
    ready_time INTEGER,                         -- from when on URLs of it can be told; NULL: there are none, or no room
    ask_time INTEGER,                           -- when to ask what became of its told URLs; NULL: there are none
    PRIMARY KEY (crawl, hostkey)
) WITHOUT ROWID;
CREATE INDEX sphost_ready ON sphost (crawl, ready_time, bucket);
CREATE INDEX sphost_ask ON sphost (crawl, ask_time, bucket);
CREATE INDEX sphost_known ON sphost (crawl, known);
CREATE INDEX sphost_parked ON sphost (crawl, parked_time);

-- Hosts of a registered domain.
CREATE TABLE spdomain (
    crawl INTEGER NOT NULL,
    domain TEXT NOT NULL,
    hosts INTEGER NOT NULL,
    PRIMARY KEY (crawl, domain)
) WITHOUT ROWID;

-- Patterns of URLs of a host that filters count.
CREATE TABLE sptrap (
    crawl INTEGER NOT NULL,
    hostkey BLOB NOT NULL,
    trapkey BLOB NOT NULL,                      -- of the pattern
    urls INTEGER NOT NULL,                      -- that have it
    PRIMARY KEY (crawl, hostkey, trapkey)
) WITHOUT ROWID;

-- Counters of crawls: the sum over all spiders counts.
CREATE TABLE spcount (
    crawl INTEGER NOT NULL,
    name TEXT NOT NULL,                         -- lcc.model.spider.crawls.CrawlStatus
    spider TEXT NOT NULL,                       -- that has counted
    value INTEGER NOT NULL,
    PRIMARY KEY (crawl, name, spider)
) WITHOUT ROWID;

-- Spiders that have not ended.
CREATE TABLE spspider (
    run INTEGER NOT NULL PRIMARY KEY,           -- names this run of its process
    name TEXT NOT NULL,
    epoch TEXT NOT NULL,                        -- of the numbers of its sets
    beats INTEGER NOT NULL,                     -- how often it has shown that it lives
    seen_time INTEGER NOT NULL,                 -- when it has done so last, by its own clock
    trouble TEXT NOT NULL,                      -- what it waited for then, for people; empty: nothing
    fence INTEGER NOT NULL,                     -- grows with its writes, on Galera
    writes INTEGER NOT NULL,                    -- number of its last write that was committed
    sets INTEGER NOT NULL,                      -- number of its last set
    hosts_hour INTEGER NOT NULL,                -- hour since 1970 of the next
    hosts INTEGER NOT NULL                      -- that became watched providers in that hour
);

-- Buckets of hosts: which spider reads and tells them.
CREATE TABLE spclaim (
    bucket INTEGER NOT NULL PRIMARY KEY,
    run INTEGER NOT NULL,                       -- of the spider; 0: free
    token TEXT NOT NULL                         -- where to read on in the changes of the cache; empty: at their beginning
);

-- What the stores of a spider have; and how far it has read what providers had before.
CREATE TABLE spplace (
    spider TEXT NOT NULL,
    store TEXT NOT NULL,
    place TEXT NOT NULL,                        -- as the store says
    fault TEXT NOT NULL,                        -- why it cannot write; empty: it can
    backlog INTEGER NOT NULL,                   -- rows of spbacklog
    PRIMARY KEY (spider, store)
) WITHOUT ROWID;

-- Pages that a store could not take: it gets them later.
CREATE TABLE spbacklog (
    spider TEXT NOT NULL,
    store TEXT NOT NULL,
    pagekey BLOB NOT NULL,                      -- of the cache
    change_number INTEGER NOT NULL,             -- the version of the page that it could not take
    PRIMARY KEY (spider, store, pagekey)
) WITHOUT ROWID;

-- What operators want of spiders.  Written by them; a spider answers.
CREATE TABLE sporders (
    id INTEGER NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,                         -- lcc.storage.spider.orders
    target TEXT NOT NULL,                       -- name of a crawl
    body TEXT NOT NULL,                         -- JSON
    time INTEGER NOT NULL,                      -- when it was given
    done_time INTEGER,                          -- NULL: it is open
    answer TEXT NOT NULL                        -- JSON: what became of it
);
CREATE INDEX sporders_done ON sporders (done_time, id);
