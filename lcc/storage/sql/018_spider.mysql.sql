-- The frontier of crawls (lcc.storage.spider).
-- Times are seconds since 1970 (UTC).  Written by spiders only, as far as nothing else is said.

-- Crawls (lcc.model.spider.crawls).
CREATE TABLE IF NOT EXISTS spcrawl (
    id BIGINT NOT NULL,
    name VARCHAR(64) NOT NULL,
    settings MEDIUMTEXT NOT NULL,               -- JSON: CrawlSettings
    state VARCHAR(16) NOT NULL,                 -- active, paused, removing
    created_time BIGINT NOT NULL,
    version BIGINT NOT NULL,                    -- grows with its settings, its state, its excluded hosts
    PRIMARY KEY (id),
    UNIQUE KEY spcrawl_name (name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Hosts that a crawl does not follow links to.
CREATE TABLE IF NOT EXISTS spexcluded (
    crawl INT NOT NULL,
    host VARCHAR(300) NOT NULL,                 -- lower case, with the port if that is not the default
    PRIMARY KEY (crawl, host)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Known URLs.
CREATE TABLE IF NOT EXISTS spurl (
    crawl INT NOT NULL,
    urlkey BINARY(16) NOT NULL,                 -- of the URL that compares (lcc.domain.spider.keys)
    hostkey BINARY(8) NOT NULL,                 -- of the host that it is fetched from
    path MEDIUMTEXT NOT NULL,                   -- of the URL that is fetched, behind the root of its host
    state SMALLINT NOT NULL,                    -- 0 waiting, 1 told, 2 cached, 3 failed, 4 gone, 5 refused
    urlrank BIGINT NOT NULL,                    -- waiting: lowest first; told: when; else when it is looked at again
    depth INT NOT NULL,                         -- links from a start
    inlinks INT NOT NULL,                       -- read pages with a link to it, where the order goes by them, while it was not read
    parent VARBINARY(16) NOT NULL,              -- urlkey of the page it was found on first; empty: a start
    cash BIGINT NOT NULL,                       -- importance that is not handed on yet (OPIC)
    history BIGINT NOT NULL,                    -- importance handed on within the window of history (OPIC)
    change_number BIGINT NOT NULL,              -- of the content that was read last; 0: none was
    md5 VARBINARY(16) NOT NULL,                 -- of that content; empty: none was read
    checked_time BIGINT NOT NULL,               -- when its content, or its error, was known to be current; 0: never
    interval_seconds INT NOT NULL,              -- until it is looked at again
    code INT NOT NULL,                          -- of its last error; 0: none
    failures INT NOT NULL,                      -- errors in a row
    told_set BIGINT NOT NULL,                   -- number of the set that told it last; 0: none
    PRIMARY KEY (crawl, urlkey),
    KEY spurl_next (crawl, hostkey, state, urlrank)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Hosts with known URLs.
CREATE TABLE IF NOT EXISTS sphost (
    crawl INT NOT NULL,
    hostkey BINARY(8) NOT NULL,
    root TEXT NOT NULL,                         -- scheme://host[:port]/
    domain VARCHAR(300) NOT NULL,               -- registered domain
    bucket SMALLINT NOT NULL,                   -- 0 to 63: whose it is (spclaim)
    pid BIGINT NOT NULL,                        -- its provider; 0: not asked for yet
    excluded SMALLINT NOT NULL,                 -- 1: nothing of it is told
    known BIGINT NOT NULL,                      -- rows of spurl: all, by state
    waiting BIGINT NOT NULL,
    told BIGINT NOT NULL,
    cached BIGINT NOT NULL,
    failures INT NOT NULL,                      -- of the host, in a row
    parked_time BIGINT NOT NULL,                -- nothing of it is told before; 0: it is not parked
    parkings INT NOT NULL,                      -- how often it was parked in a row
    code INT NOT NULL,                          -- of its last failure; 0: none
    due_time BIGINT,                            -- when the first of its URLs is looked at again; NULL: never
    ready_time BIGINT,                          -- from when on URLs of it can be told; NULL: there are none, or no room
    ask_time BIGINT,                            -- when to ask what became of its told URLs; NULL: there are none
    PRIMARY KEY (crawl, hostkey),
    KEY sphost_ready (crawl, ready_time, bucket),
    KEY sphost_ask (crawl, ask_time, bucket),
    KEY sphost_known (crawl, known),
    KEY sphost_parked (crawl, parked_time)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Hosts of a registered domain.
CREATE TABLE IF NOT EXISTS spdomain (
    crawl INT NOT NULL,
    domain VARCHAR(300) NOT NULL,
    hosts BIGINT NOT NULL,
    PRIMARY KEY (crawl, domain)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Patterns of URLs of a host that filters count.
CREATE TABLE IF NOT EXISTS sptrap (
    crawl INT NOT NULL,
    hostkey BINARY(8) NOT NULL,
    trapkey VARBINARY(16) NOT NULL,             -- of the pattern
    urls BIGINT NOT NULL,                       -- that have it
    PRIMARY KEY (crawl, hostkey, trapkey)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Counters of crawls: the sum over all spiders counts.
CREATE TABLE IF NOT EXISTS spcount (
    crawl INT NOT NULL,
    name VARCHAR(64) NOT NULL,                  -- lcc.model.spider.crawls.CrawlStatus
    spider VARCHAR(64) NOT NULL,                -- that has counted
    value BIGINT NOT NULL,
    PRIMARY KEY (crawl, name, spider)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Spiders that have not ended.
CREATE TABLE IF NOT EXISTS spspider (
    run BIGINT NOT NULL,                        -- names this run of its process
    name VARCHAR(64) NOT NULL,
    epoch VARCHAR(32) NOT NULL,                 -- of the numbers of its sets
    beats BIGINT NOT NULL,                      -- how often it has shown that it lives
    seen_time BIGINT NOT NULL,                  -- when it has done so last, by its own clock
    trouble VARCHAR(500) NOT NULL,              -- what it waited for then, for people; empty: nothing
    fence BIGINT NOT NULL,                      -- grows with its writes, on Galera
    writes BIGINT NOT NULL,                     -- number of its last write that was committed
    sets BIGINT NOT NULL,                       -- number of its last set
    hosts_hour BIGINT NOT NULL,                 -- hour since 1970 of the next
    hosts BIGINT NOT NULL,                      -- that became watched providers in that hour
    PRIMARY KEY (run)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Buckets of hosts: which spider reads and tells them.
CREATE TABLE IF NOT EXISTS spclaim (
    bucket SMALLINT NOT NULL,
    run BIGINT NOT NULL,                        -- of the spider; 0: free
    token TEXT NOT NULL,                        -- where to read on in the changes of the cache; empty: at their beginning
    PRIMARY KEY (bucket)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What the stores of a spider have; and how far it has read what providers had before.
CREATE TABLE IF NOT EXISTS spplace (
    spider VARCHAR(64) NOT NULL,
    store VARCHAR(64) NOT NULL,
    place TEXT NOT NULL,                        -- as the store says
    fault TEXT NOT NULL,                        -- why it cannot write; empty: it can
    backlog BIGINT NOT NULL,                    -- rows of spbacklog
    PRIMARY KEY (spider, store)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Pages that a store could not take: it gets them later.
CREATE TABLE IF NOT EXISTS spbacklog (
    spider VARCHAR(64) NOT NULL,
    store VARCHAR(64) NOT NULL,
    pagekey BINARY(20) NOT NULL,                -- of the cache
    change_number BIGINT NOT NULL,              -- the version of the page that it could not take
    PRIMARY KEY (spider, store, pagekey)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What operators want of spiders.  Written by them; a spider answers.
CREATE TABLE IF NOT EXISTS sporders (
    id BIGINT NOT NULL,
    kind VARCHAR(64) NOT NULL,                  -- lcc.storage.spider.orders
    target VARCHAR(64) NOT NULL,                -- name of a crawl
    body MEDIUMTEXT NOT NULL,                   -- JSON
    time BIGINT NOT NULL,                       -- when it was given
    done_time BIGINT,                           -- NULL: it is open
    answer MEDIUMTEXT NOT NULL,                 -- JSON: what became of it
    PRIMARY KEY (id),
    KEY sporders_done (done_time, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
