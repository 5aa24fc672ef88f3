-- Where content was fetched from in the end.
ALTER TABLE lccurl ADD COLUMN fetched_url MEDIUMTEXT;   -- after redirects; NULL: from the fetch URL itself
ALTER TABLE lccurl ADD COLUMN moved_url MEDIUMTEXT;     -- where permanent redirects (301, 308) lead from the fetch URL;
                                                        -- NULL: there are none

-- Rows without a mime type of their own (view */*): looked for where typed views of their pages are stored.
ALTER TABLE pstats ADD COLUMN untyped SMALLINT NOT NULL DEFAULT 0;  -- 1: there are, or were, some
