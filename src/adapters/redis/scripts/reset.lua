#!lua flags=allow-oom
-- reset
-- why: a rebuild begins with nothing, so that what was removed since an old copy was made does not come back.
-- keys:
--   1 members: ZSET of packed (number, version)
--   2 versions: HASH number -> 2 * version + (1 if that change reached the owner)
--   3 records: HASH number -> encoded job record
--   4 state: HASH with `epoch` of the owner, `horizon` H in UTC ms and `build`, the number of the last rebuild
--   5 tombstones: ZSET of numbers without a record
-- arguments:
--   1 epoch of the owner
--   2 number of the rebuild that begins
-- answer: {1}, or {0, the higher epoch that stands there}
local stored_epoch = tonumber(redis.call('HGET', KEYS[4], 'epoch') or '0')
if stored_epoch > tonumber(ARGV[1]) then return { 0, stored_epoch } end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5])
redis.call('HSET', KEYS[4], 'epoch', ARGV[1], 'build', ARGV[2])
return { 1 }
