-- Sets that providers submit by HTTP with an Idempotency-Key, so that a repeated request is one set.
CREATE TABLE IF NOT EXISTS setrequest (
    id BINARY(16) NOT NULL,                     -- digest of provider and key
    pid BIGINT NOT NULL,
    query BINARY(16) NOT NULL,                  -- digest of what was asked for besides the elements
    connorder BIGINT NOT NULL,                  -- order number of the set
    status INT NOT NULL,                        -- of the answer; 0: none is known yet
    answer TEXT NOT NULL,                       -- its lines of JSON
    time BIGINT NOT NULL,                       -- when it began
    PRIMARY KEY (id),
    KEY setrequest_time (time)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
