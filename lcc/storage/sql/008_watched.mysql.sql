-- Providers that nobody registered: a site that is watched.  It has no password.
ALTER TABLE pidb ADD COLUMN watched SMALLINT NOT NULL DEFAULT 0;    -- 1: nobody has registered it
ALTER TABLE pidb ADD COLUMN interval_seconds DOUBLE;                -- from the start of a fetch to that of the next, at
                                                                    -- least; NULL: no limit
ALTER TABLE pidb ADD COLUMN interval_by VARCHAR(16) NOT NULL DEFAULT '';  -- who has set it: operator, robots.txt; or nobody
ALTER TABLE pidb ADD COLUMN hours_by VARCHAR(16) NOT NULL DEFAULT '';  -- the same of timeofday
ALTER TABLE pidb ADD COLUMN domain VARCHAR(255) NOT NULL DEFAULT '';  -- registered domain of a watched one, by which
                                                                      -- they are counted; empty: it is not
ALTER TABLE pidb ADD COLUMN made_time BIGINT NOT NULL DEFAULT 0;    -- when it was made, if it is counted
CREATE INDEX pidb_domain ON pidb (domain);
-- Whose a URL is, and whether a root is there.
CREATE INDEX proots_root ON proots (root(255));
