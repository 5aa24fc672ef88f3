-- Subscribers of the hub of the front end's content users, in tables like those of an LCC; what is said there of timeline and number
-- is here the positions in all sub-LCCs, and their sum.
-- from hub_001_first: hubask, hubsub

-- Up to which changes all subscribers were woken.
CREATE TABLE hubposition (
    id INTEGER NOT NULL PRIMARY KEY,            -- 1: there is one row
    position TEXT NOT NULL                      -- a token
);
