-- Tasks, jobs and what belongs to them (lcc.storage.tasks), in a file of their own: the scheduler must not wait while the queue
-- manager writes.
-- Times are seconds since 1970 (UTC); texts that may be absent are empty.

-- The numbers of the scheduler (run: of the one that may write), of jobs and of notices.
CREATE TABLE schedulerfence (
    name TEXT NOT NULL,                         -- run, fence, job, notice; open: jobs that are; heard: when the scheduler lived last
    value INTEGER NOT NULL,
    PRIMARY KEY (name)
) WITHOUT ROWID;
INSERT INTO schedulerfence (name, value) VALUES ('run', 0), ('fence', 0), ('job', 0), ('notice', 0), ('open', 0), ('heard', 0);

-- Periodic tasks (seed 003).  Written by the scheduler only, as all of these but taskorders.
CREATE TABLE tasks (
    id INTEGER NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,                         -- its jobs' limits at a manager; feed, sitemap, robots: polled
    command TEXT NOT NULL,                      -- name of an executable; empty: a built-in kind's own
    args TEXT NOT NULL,                         -- a JSON list
    resource TEXT NOT NULL,                     -- what its jobs use, one at a time; empty: nothing
    hosts TEXT NOT NULL,                        -- allow:HOST, deny:HOST: a JSON list
    data TEXT NOT NULL,                         -- what its workers keep
    every_seconds INTEGER NOT NULL,             -- its period; 0: none
    at_time TEXT NOT NULL,                      -- HH:MM[:SS]; empty: none
    cron TEXT NOT NULL,                         -- empty: none
    timezone TEXT NOT NULL,                     -- of at_time and cron; empty: UTC
    state TEXT NOT NULL,                        -- active, suspended
    auto INTEGER NOT NULL,                      -- 1: its period follows from its polls
    least_seconds INTEGER NOT NULL,             -- bounds of that
    most_seconds INTEGER NOT NULL,
    created_time INTEGER NOT NULL,
    due_time INTEGER,                           -- of its next job; NULL: suspended, or a job is open
    started_time INTEGER,                       -- of its latest job
    ended_time INTEGER,
    last_state TEXT NOT NULL,                   -- of its latest job, once it has ended; empty: none has
    since_time INTEGER,                         -- since when its jobs fail; NULL: the latest did not
    failures INTEGER NOT NULL,                  -- of its jobs in a row
    message TEXT NOT NULL,                      -- of its latest job, or why it is suspended
    polled INTEGER NOT NULL,                    -- 1: of a polled kind: its URL (the first argument) is fetched through the queue
    texts INTEGER NOT NULL DEFAULT 0,           -- 1: a feed with --full-content: the text of its items' pages is kept
    pid INTEGER NOT NULL DEFAULT 0,             -- polled kinds: the provider whose turns it is polled in; 0: not known yet
    urlkey BLOB,                                -- polled kinds: key of that URL there; NULL: not known yet
    polls TEXT NOT NULL DEFAULT '',             -- polled kinds: its last polls (lcc.domain.tasks.autoperiod)
    asked_time INTEGER,                         -- polled kinds: when its open poll was put into the queue; NULL: none is
    asked_order INTEGER NOT NULL DEFAULT 0,     -- polled kinds: order number of that asking; 0: none was drawn
    asked_generation INTEGER NOT NULL DEFAULT 0, -- polled kinds: what is fetched for that has a greater generation (lccurl)
    look_time INTEGER,                          -- polled kinds: when it is next looked at what became of that; NULL: it is known
    seen INTEGER NOT NULL DEFAULT 0,            -- polled kinds: change number of the content that its workers have got; 0: none
    seen_digest BLOB                            -- polled kinds: of that content, for what gets a new number and is the same
);
CREATE INDEX tasks_due ON tasks (polled, due_time, id);
CREATE INDEX tasks_look ON tasks (look_time, id);
CREATE INDEX tasks_urlkey ON tasks (urlkey);
CREATE INDEX tasks_kind ON tasks (kind, id);
CREATE INDEX tasks_texts ON tasks (texts);
CREATE INDEX tasks_state ON tasks (state, id);
CREATE INDEX tasks_since ON tasks (since_time, id);

-- One-time activities.  Those that ended are kept for a time (scheduler.jobs_kept).
CREATE TABLE jobs (
    id INTEGER NOT NULL PRIMARY KEY,
    task INTEGER NOT NULL,                      -- 0: a person's, or a worker's
    opentask INTEGER,                           -- its task, while it is open: only once; NULL: of none, or ended
    parent INTEGER NOT NULL,                    -- the job that has added it; 0: none
    scope TEXT NOT NULL,                        -- within which jobkey is unique: where its chain of parents begins
    jobkey TEXT NOT NULL,                       -- as its adder named it; empty: it did not
    dedup BLOB,                                 -- hash of scope and key; NULL: it may be added again
    kind TEXT NOT NULL,                         -- as in tasks
    command TEXT NOT NULL,
    args TEXT NOT NULL,
    resource TEXT NOT NULL,
    hosts TEXT NOT NULL,
    data TEXT NOT NULL,                         -- of a job without task: what it was given
    input TEXT NOT NULL,                        -- what a polled kind hands to its worker, JSON; empty: nothing
    connorder INTEGER NOT NULL DEFAULT 0,       -- order number of the asking that it is of; 0: none
    state TEXT NOT NULL,                        -- pending, running, completed, temporary-error, permanent-error, lost
    attempt INTEGER NOT NULL,                   -- how often it was started
    commits INTEGER NOT NULL,                   -- of this attempt that took effect
    scheduled_time INTEGER NOT NULL,            -- when it was to start first
    due_time INTEGER,                           -- when it may start next; NULL: it runs, or has ended
    started_time INTEGER,                       -- its latest attempt
    ended_time INTEGER,                         -- NULL: it has not
    updated_time INTEGER NOT NULL,              -- when anything was heard of it
    manager TEXT NOT NULL,                      -- that runs it, or ran it last
    run TEXT NOT NULL DEFAULT '',               -- of that manager, as it names itself to the scheduler
    host TEXT NOT NULL,                         -- where that is
    process INTEGER NOT NULL,                   -- its process id there; 0: not known
    message TEXT NOT NULL,                      -- its status, as it or the scheduler says
    exit_code INTEGER,                          -- NULL: none
    ended_signal INTEGER NOT NULL,              -- that ended it; 0: none
    seconds REAL NOT NULL,                      -- that its latest attempt took
    cpu_seconds REAL NOT NULL,
    memory_bytes INTEGER NOT NULL,
    items INTEGER NOT NULL,                     -- new items that it has brought
    killed TEXT NOT NULL                        -- why its attempt is to end, and is not followed by another one; empty: it is not to
);
CREATE UNIQUE INDEX jobs_open ON jobs (opentask);
CREATE UNIQUE INDEX jobs_dedup ON jobs (dedup);
CREATE INDEX jobs_due ON jobs (due_time, id);
CREATE INDEX jobs_ended ON jobs (ended_time, id);
CREATE INDEX jobs_task ON jobs (task, id);
CREATE INDEX jobs_state ON jobs (state, id);

-- What jobs log, and what they wrote last.
CREATE TABLE joblogs (
    job INTEGER NOT NULL,
    number INTEGER NOT NULL,                    -- counts the rows of the job
    attempt INTEGER NOT NULL,                   -- which one has logged it
    time INTEGER NOT NULL,
    level TEXT NOT NULL,                        -- debug, info, warn, error; output: what it wrote; end: how the attempt ended
    text TEXT NOT NULL,
    PRIMARY KEY (job, number)
) WITHOUT ROWID;

-- Statistics a day and kind.
CREATE TABLE jobsdone (
    day INTEGER NOT NULL,                       -- days since 1970 (UTC)
    kind TEXT NOT NULL,
    completed INTEGER NOT NULL,
    temporary INTEGER NOT NULL,                 -- ended with a temporary error
    permanent INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    retried INTEGER NOT NULL,                   -- attempts that were followed by another one
    unchanged INTEGER NOT NULL,                 -- polls that found nothing new, and no job was made
    seconds REAL NOT NULL,                      -- of all attempts
    cpu_seconds REAL NOT NULL,
    items INTEGER NOT NULL,                     -- new ones
    PRIMARY KEY (day, kind)
) WITHOUT ROWID;

-- What only one job at a time uses.  A name that is not here has no interval.
CREATE TABLE resources (
    name TEXT NOT NULL,
    interval_seconds INTEGER NOT NULL,          -- from the start of a job to the start of the next
    started_time INTEGER NOT NULL,              -- of the last one; 0: none
    PRIMARY KEY (name)
) WITHOUT ROWID;

-- What jobs notify of and the UNS has not taken yet.
CREATE TABLE tasknotices (
    number INTEGER NOT NULL PRIMARY KEY,        -- of the set
    pid INTEGER NOT NULL,                       -- 0: the provider of root is asked for first
    root TEXT NOT NULL,
    source TEXT NOT NULL,                       -- lcc.model.sources
    connorder INTEGER NOT NULL,                 -- order number of the asking; 0: none
    urls TEXT NOT NULL,                         -- attributes of each <url>: a JSON list of objects
    job INTEGER NOT NULL,                       -- that notifies; 0: the scheduler itself
    time INTEGER NOT NULL
);

-- What lcc-admin and the monitor want of the scheduler.  Written by them; the scheduler answers.
CREATE TABLE taskorders (
    id INTEGER NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,                         -- lcc.storage.tasks.orders
    target INTEGER NOT NULL,                    -- id of a task or a job; 0: none
    body TEXT NOT NULL,                         -- JSON
    time INTEGER NOT NULL,                      -- when it was given
    done_time INTEGER,                          -- NULL: it is open
    answer TEXT NOT NULL                        -- JSON: what became of it
);
CREATE INDEX taskorders_done ON taskorders (done_time, id);

-- robots.txt of watched hosts, as parsed last (RFC 9309).
CREATE TABLE robots (
    origin TEXT NOT NULL,                       -- scheme://host[:port]
    rules TEXT NOT NULL,                        -- the text, as far as it is read
    allow TEXT NOT NULL,                        -- rules: as they say; all, none
    fetched_time INTEGER NOT NULL,              -- of the rules; 0: never
    checked_time INTEGER NOT NULL,              -- when this was found out
    status INTEGER NOT NULL,                    -- of the last answer; 0: none
    task INTEGER NOT NULL,                      -- that polls it
    delay_seconds DOUBLE NOT NULL DEFAULT 0,    -- that it asks for between fetches (Crawl-delay, Request-rate)
    hours TEXT NOT NULL DEFAULT '',    -- that it asks for (Visit-time, UTC), in slots; empty: any
    asked_said INTEGER NOT NULL DEFAULT 0,    -- 1: its providers have both
    named_by INTEGER NOT NULL DEFAULT 0,        -- task whose job has named the site first; 0: none
    named_time INTEGER NOT NULL DEFAULT 0,      -- when that was
    PRIMARY KEY (origin)
) WITHOUT ROWID;
CREATE INDEX robots_named ON robots (named_by, named_time);
