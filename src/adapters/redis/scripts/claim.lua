#!lua flags=allow-oom
-- claim
-- why: once a newer owner has claimed the shard, nothing that the former one writes with its epoch counts.
-- keys:
--   1 state: HASH with `epoch` of the owner, `horizon` H in UTC ms and `build`, the number of the last rebuild
--   2 members: ZSET, in which `build` stands with the score -build
--   3 versions: HASH, in which `build` stands
--   4 records: HASH, in which `build` stands
-- arguments:
--   1 epoch of the claiming owner
-- answer: {1, H, the epoch before, 1 if the shard is whole, replication id of the server (empty: it does not tell)}, or
--   {0, the higher epoch that stands there}
local state = KEYS[1]
local epoch = tonumber(ARGV[1])
local stored = redis.call('HMGET', state, 'epoch', 'horizon', 'build')
local stored_epoch = tonumber(stored[1] or '0')
if stored_epoch > epoch then return { 0, stored_epoch } end
redis.call('HSET', state, 'epoch', ARGV[1])
local build = stored[3]
local mark = build and redis.call('ZSCORE', KEYS[2], 'build')
local whole = mark and tonumber(mark) == -tonumber(build)
  and redis.call('HGET', KEYS[3], 'build') == build and redis.call('HGET', KEYS[4], 'build') == build
-- Redis takes a new id when it starts and when a replica becomes the primary.
local info = redis.pcall('INFO', 'replication')
local lineage = type(info) == 'string' and string.match(info, 'master_replid:(%x+)') or ''
return { 1, tonumber(stored[2] or '0'), stored_epoch, whole and 1 or 0, lineage }
