-- Subscribers of the hub of the front end's content users, in tables like those of an LCC; what is said there of timeline and number
-- is here the positions in all sub-LCCs, and their sum.
-- from 025_hub: hubask, hubsub

-- Up to which changes all subscribers were woken.
CREATE TABLE IF NOT EXISTS hubposition (
    id INT NOT NULL,                            -- 1: there is one row
    position MEDIUMTEXT NOT NULL,               -- a token
    PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
