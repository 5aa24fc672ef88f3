-- Providers that nobody registered: a site that is watched.  It has no password.
ALTER TABLE pidb ADD COLUMN watched INTEGER NOT NULL DEFAULT 0;     -- 1: nobody has registered it
ALTER TABLE pidb ADD COLUMN interval_seconds DOUBLE;                -- from the start of a fetch to that of the next, at
                                                                    -- least; NULL: no limit
ALTER TABLE pidb ADD COLUMN interval_by TEXT NOT NULL DEFAULT '';  -- who has set it: operator, robots.txt; or nobody
ALTER TABLE pidb ADD COLUMN hours_by TEXT NOT NULL DEFAULT '';  -- the same of timeofday
ALTER TABLE pidb ADD COLUMN domain TEXT NOT NULL DEFAULT '';       -- registered domain of a watched one, by which they
                                                                    -- are counted; empty: it is not
ALTER TABLE pidb ADD COLUMN made_time INTEGER NOT NULL DEFAULT 0;   -- when it was made, if it is counted
CREATE INDEX pidb_domain ON pidb (domain);
-- Whose a URL is, and whether a root is there.
CREATE INDEX proots_root ON proots (root);
