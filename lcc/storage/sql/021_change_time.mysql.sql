-- When the last change of a URL was: ResourceSync's clients go on from a time.
ALTER TABLE lccurl ADD COLUMN change_time BIGINT NOT NULL DEFAULT 0;    -- never before that of a lower change_number;
                                                                        -- 0: it was not noted then
INSERT IGNORE INTO counters (name, value) VALUES ('change_time', 0);    -- of the last change
