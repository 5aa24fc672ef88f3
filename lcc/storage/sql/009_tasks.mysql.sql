-- Tasks, jobs and what belongs to them (lcc.storage.tasks), which the scheduler writes.
-- Times are seconds since 1970 (UTC); texts that may be absent are empty.

-- The numbers of the scheduler (run: of the one that may write), of jobs and of notices.
CREATE TABLE IF NOT EXISTS schedulerfence (
    name VARCHAR(255) NOT NULL,                 -- run, fence, job, notice; open: jobs that are; heard: when the scheduler lived last
    value BIGINT NOT NULL,
    PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
INSERT IGNORE INTO schedulerfence (name, value) VALUES ('run', 0), ('fence', 0), ('job', 0), ('notice', 0), ('open', 0), ('heard', 0);

-- Periodic tasks (seed 003).  Written by the scheduler only, as all of these but taskorders.
CREATE TABLE IF NOT EXISTS tasks (
    id BIGINT NOT NULL,
    kind VARCHAR(255) NOT NULL,                 -- its jobs' limits at a manager; feed, sitemap, robots: polled
    command VARCHAR(255) NOT NULL,              -- name of an executable; empty: a built-in kind's own
    args MEDIUMTEXT NOT NULL,                   -- a JSON list
    resource VARCHAR(255) NOT NULL,             -- what its jobs use, one at a time; empty: nothing
    hosts MEDIUMTEXT NOT NULL,                  -- allow:HOST, deny:HOST: a JSON list
    data MEDIUMTEXT NOT NULL,                   -- what its workers keep
    every_seconds BIGINT NOT NULL,              -- its period; 0: none
    at_time VARCHAR(255) NOT NULL,              -- HH:MM[:SS]; empty: none
    cron VARCHAR(255) NOT NULL,                 -- empty: none
    timezone VARCHAR(255) NOT NULL,             -- of at_time and cron; empty: UTC
    state VARCHAR(255) NOT NULL,                -- active, suspended
    auto BIGINT NOT NULL,                       -- 1: its period follows from its polls
    least_seconds BIGINT NOT NULL,              -- bounds of that
    most_seconds BIGINT NOT NULL,
    created_time BIGINT NOT NULL,
    due_time BIGINT,                            -- of its next job; NULL: suspended, or a job is open
    started_time BIGINT,                        -- of its latest job
    ended_time BIGINT,
    last_state VARCHAR(255) NOT NULL,           -- of its latest job, once it has ended; empty: none has
    since_time BIGINT,                          -- since when its jobs fail; NULL: the latest did not
    failures BIGINT NOT NULL,                   -- of its jobs in a row
    message MEDIUMTEXT NOT NULL,                -- of its latest job, or why it is suspended
    polled BIGINT NOT NULL,                     -- 1: of a polled kind: its URL (the first argument) is fetched through the queue
    texts BIGINT NOT NULL DEFAULT 0,            -- 1: a feed with --full-content: the text of its items' pages is kept
    pid BIGINT NOT NULL DEFAULT 0,              -- polled kinds: the provider whose turns it is polled in; 0: not known yet
    urlkey BINARY(20),                          -- polled kinds: key of that URL there; NULL: not known yet
    polls VARCHAR(255) NOT NULL DEFAULT '',     -- polled kinds: its last polls (lcc.domain.tasks.autoperiod)
    asked_time BIGINT,                          -- polled kinds: when its open poll was put into the queue; NULL: none is
    asked_order BIGINT NOT NULL DEFAULT 0,      -- polled kinds: order number of that asking; 0: none was drawn
    asked_generation BIGINT NOT NULL DEFAULT 0, -- polled kinds: what is fetched for that has a greater generation (lccurl)
    look_time BIGINT,                           -- polled kinds: when it is next looked at what became of that; NULL: it is known
    seen BIGINT NOT NULL DEFAULT 0,             -- polled kinds: change number of the content that its workers have got; 0: none
    seen_digest BINARY(16),                     -- polled kinds: of that content, for what gets a new number and is the same
    PRIMARY KEY (id),
    KEY tasks_due (polled, due_time, id),
    KEY tasks_look (look_time, id),
    KEY tasks_urlkey (urlkey),
    KEY tasks_kind (kind, id),
    KEY tasks_texts (texts),
    KEY tasks_state (state, id),
    KEY tasks_since (since_time, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- One-time activities.  Those that ended are kept for a time (scheduler.jobs_kept).
CREATE TABLE IF NOT EXISTS jobs (
    id BIGINT NOT NULL,
    task BIGINT NOT NULL,                       -- 0: a person's, or a worker's
    opentask BIGINT,                            -- its task, while it is open: only once; NULL: of none, or ended
    parent BIGINT NOT NULL,                     -- the job that has added it; 0: none
    scope VARCHAR(255) NOT NULL,                -- within which jobkey is unique: where its chain of parents begins
    jobkey VARCHAR(255) NOT NULL,               -- as its adder named it; empty: it did not
    dedup VARBINARY(16),                        -- hash of scope and key; NULL: it may be added again
    kind VARCHAR(255) NOT NULL,                 -- as in tasks
    command VARCHAR(255) NOT NULL,
    args MEDIUMTEXT NOT NULL,
    resource VARCHAR(255) NOT NULL,
    hosts MEDIUMTEXT NOT NULL,
    data MEDIUMTEXT NOT NULL,                   -- of a job without task: what it was given
    input MEDIUMTEXT NOT NULL,                  -- what a polled kind hands to its worker, JSON; empty: nothing
    connorder BIGINT NOT NULL DEFAULT 0,        -- order number of the asking that it is of; 0: none
    state VARCHAR(255) NOT NULL,                -- pending, running, completed, temporary-error, permanent-error, lost
    attempt BIGINT NOT NULL,                    -- how often it was started
    commits BIGINT NOT NULL,                    -- of this attempt that took effect
    scheduled_time BIGINT NOT NULL,             -- when it was to start first
    due_time BIGINT,                            -- when it may start next; NULL: it runs, or has ended
    started_time BIGINT,                        -- its latest attempt
    ended_time BIGINT,                          -- NULL: it has not
    updated_time BIGINT NOT NULL,               -- when anything was heard of it
    manager VARCHAR(255) NOT NULL,              -- that runs it, or ran it last
    run VARCHAR(255) NOT NULL DEFAULT '',       -- of that manager, as it names itself to the scheduler
    host VARCHAR(255) NOT NULL,                 -- where that is
    process BIGINT NOT NULL,                    -- its process id there; 0: not known
    message MEDIUMTEXT NOT NULL,                -- its status, as it or the scheduler says
    exit_code BIGINT,                           -- NULL: none
    ended_signal BIGINT NOT NULL,               -- that ended it; 0: none
    seconds DOUBLE NOT NULL,                    -- that its latest attempt took
    cpu_seconds DOUBLE NOT NULL,
    memory_bytes BIGINT NOT NULL,
    items BIGINT NOT NULL,                      -- new items that it has brought
    killed MEDIUMTEXT NOT NULL,                 -- why its attempt is to end, and is not followed by another one; empty: it is not to
    PRIMARY KEY (id),
    UNIQUE KEY jobs_open (opentask),
    UNIQUE KEY jobs_dedup (dedup),
    KEY jobs_due (due_time, id),
    KEY jobs_ended (ended_time, id),
    KEY jobs_task (task, id),
    KEY jobs_state (state, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What jobs log, and what they wrote last.
CREATE TABLE IF NOT EXISTS joblogs (
    job BIGINT NOT NULL,
    number BIGINT NOT NULL,                     -- counts the rows of the job
    attempt BIGINT NOT NULL,                    -- which one has logged it
    time BIGINT NOT NULL,
    level VARCHAR(255) NOT NULL,                -- debug, info, warn, error; output: what it wrote; end: how the attempt ended
    text MEDIUMTEXT NOT NULL,
    PRIMARY KEY (job, number)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Statistics a day and kind.
CREATE TABLE IF NOT EXISTS jobsdone (
    day BIGINT NOT NULL,                        -- days since 1970 (UTC)
    kind VARCHAR(255) NOT NULL,
    completed BIGINT NOT NULL,
    temporary BIGINT NOT NULL,                  -- ended with a temporary error
    permanent BIGINT NOT NULL,
    lost BIGINT NOT NULL,
    retried BIGINT NOT NULL,                    -- attempts that were followed by another one
    unchanged BIGINT NOT NULL,                  -- polls that found nothing new, and no job was made
    seconds DOUBLE NOT NULL,                    -- of all attempts
    cpu_seconds DOUBLE NOT NULL,
    items BIGINT NOT NULL,                      -- new ones
    PRIMARY KEY (day, kind)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What only one job at a time uses.  A name that is not here has no interval.
CREATE TABLE IF NOT EXISTS resources (
    name VARCHAR(255) NOT NULL,
    interval_seconds BIGINT NOT NULL,           -- from the start of a job to the start of the next
    started_time BIGINT NOT NULL,               -- of the last one; 0: none
    PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What jobs notify of and the UNS has not taken yet.
CREATE TABLE IF NOT EXISTS tasknotices (
    number BIGINT NOT NULL,                     -- of the set
    pid BIGINT NOT NULL,                        -- 0: the provider of root is asked for first
    root MEDIUMTEXT NOT NULL,
    source VARCHAR(255) NOT NULL,               -- lcc.model.sources
    connorder BIGINT NOT NULL,                  -- order number of the asking; 0: none
    urls MEDIUMTEXT NOT NULL,                   -- attributes of each <url>: a JSON list of objects
    job BIGINT NOT NULL,                        -- that notifies; 0: the scheduler itself
    time BIGINT NOT NULL,
    PRIMARY KEY (number)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What lcc-admin and the monitor want of the scheduler.  Written by them; the scheduler answers.
CREATE TABLE IF NOT EXISTS taskorders (
    id BIGINT NOT NULL,
    kind VARCHAR(255) NOT NULL,                 -- lcc.storage.tasks.orders
    target BIGINT NOT NULL,                     -- id of a task or a job; 0: none
    body MEDIUMTEXT NOT NULL,                   -- JSON
    time BIGINT NOT NULL,                       -- when it was given
    done_time BIGINT,                           -- NULL: it is open
    answer MEDIUMTEXT NOT NULL,                 -- JSON: what became of it
    PRIMARY KEY (id),
    KEY taskorders_done (done_time, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- robots.txt of watched hosts, as parsed last (RFC 9309).
CREATE TABLE IF NOT EXISTS robots (
    origin VARCHAR(255) NOT NULL,               -- scheme://host[:port]
    rules MEDIUMTEXT NOT NULL,                  -- the text, as far as it is read
    allow VARCHAR(255) NOT NULL,                -- rules: as they say; all, none
    fetched_time BIGINT NOT NULL,               -- of the rules; 0: never
    checked_time BIGINT NOT NULL,               -- when this was found out
    status BIGINT NOT NULL,                     -- of the last answer; 0: none
    task BIGINT NOT NULL,                       -- that polls it
    delay_seconds DOUBLE NOT NULL DEFAULT 0,    -- that it asks for between fetches (Crawl-delay, Request-rate)
    hours VARCHAR(255) NOT NULL DEFAULT '',    -- that it asks for (Visit-time, UTC), in slots; empty: any
    asked_said SMALLINT NOT NULL DEFAULT 0,    -- 1: its providers have both
    named_by BIGINT NOT NULL DEFAULT 0,         -- task whose job has named the site first; 0: none
    named_time BIGINT NOT NULL DEFAULT 0,       -- when that was
    PRIMARY KEY (origin),
    KEY robots_named (named_by, named_time)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
