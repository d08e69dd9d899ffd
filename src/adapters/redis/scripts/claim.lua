#!lua flags=allow-oom
-- claim
-- why: once a newer owner has claimed the shard, nothing that the former one writes with its epoch counts.
-- keys:
--   1 state: HASH with `epoch` of the owner and `horizon` H in UTC ms
-- arguments:
--   1 epoch of the claiming owner
-- answer: {1, H}, or {0, the higher epoch that stands there}
local state = KEYS[1]
local epoch = tonumber(ARGV[1])
local stored = redis.call('HMGET', state, 'epoch', 'horizon')
local stored_epoch = tonumber(stored[1] or '0')
if stored_epoch > epoch then return { 0, stored_epoch } end
redis.call('HSET', state, 'epoch', ARGV[1])
return { 1, tonumber(stored[2] or '0') }
