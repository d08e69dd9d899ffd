#!lua flags=allow-oom
-- drop
-- why: a shard goes whole or not at all, its epoch and H included.
-- keys:
--   1 members: ZSET of packed (number, version)
--   2 versions: HASH number -> 2 * version + (1 if that change reached the owner)
--   3 records: HASH number -> encoded job record
--   4 state: HASH with `epoch` of the owner and `horizon` H in UTC ms
--   5 tombstones: ZSET of numbers without a record
-- arguments:
-- answer: how many of the keys were there
return redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5])
