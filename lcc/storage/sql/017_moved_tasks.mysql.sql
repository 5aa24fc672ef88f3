-- A polled page that has moved for good.
ALTER TABLE tasks ADD COLUMN moved_from MEDIUMTEXT;  -- its URL before its latest move; NULL or empty: it has not moved
