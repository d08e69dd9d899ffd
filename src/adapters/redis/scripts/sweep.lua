#!lua flags=allow-oom
-- sweep
-- why: a tombstone is only needed while its change may come again.
-- keys:
--   1 versions: HASH number -> 2 * version + (1 if that change reached the owner)
--   2 tombstones: ZSET of numbers without a record, score = time of removal by Redis's clock, ms
-- arguments:
--   1 tombstones older than this go, ms by Redis's clock
--   2 most of them, at most 4,000
-- answer: how many went
local old = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. ARGV[1], 'LIMIT', 0, ARGV[2])
if #old == 0 then return 0 end
redis.call('HDEL', KEYS[1], unpack(old))
redis.call('ZREM', KEYS[2], unpack(old))
return #old
