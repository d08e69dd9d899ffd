#!lua flags=allow-oom
-- scan
-- why: H moves in the same step that reads the range, so every later change at or below H is told to its writer.
-- keys:
--   1 members: ZSET of packed (number, version), score = next effective time in UTC ms, 0 = finished
--   2 records: HASH number -> encoded job record
--   3 state: HASH with `epoch` of the owner, `horizon` H in UTC ms and `build`, the number of the last rebuild
--   4 versions: HASH number -> 2 * version + (1 if that change reached the owner)
-- arguments:
--   1 epoch of the asking owner
--   2 expected H, UTC ms
--   3 members with a score above this are answered, UTC ms
--   4 new H, UTC ms
--   5 number of the rebuild that ends with this scan, or an empty text
-- answer: {1, {member, score, ...} by score, {record, ...}, ...} where the lists of records, one after the other, go with the
--   members; {0, the higher epoch that stands there}; {2, H} when H is not the expected one; or {3} when a part of the shard is
--   not there, or another rebuild than the one that ends
local members, records, state, versions = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local epoch, expected, from, horizon = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
-- Lua passes at most some 8,000 values to one call.
local CHUNK = 4000

local stored = redis.call('HMGET', state, 'epoch', 'horizon', 'build')
local stored_epoch, stored_horizon = tonumber(stored[1] or '0'), tonumber(stored[2] or '0')
if stored_epoch > epoch then return { 0, stored_epoch } end
local build = stored[3]
if ARGV[5] ~= '' then
  if build ~= ARGV[5] then return { 3 } end
elseif build then
  -- Every key carries the number of the rebuild that made it, under a name that no job has.
  local mark = redis.call('ZSCORE', members, 'build')
  if not mark or tonumber(mark) ~= -tonumber(build) or redis.call('HGET', versions, 'build') ~= build
    or redis.call('HGET', records, 'build') ~= build then return { 3 } end
else
  return { 3 }
end
if stored_horizon ~= expected then return { 2, stored_horizon } end
if ARGV[5] ~= '' then
  redis.call('ZADD', members, -tonumber(build), 'build')
  redis.call('HSET', versions, 'build', build)
  redis.call('HSET', records, 'build', build)
end
redis.call('HSET', state, 'epoch', ARGV[1], 'horizon', horizon)

local due = redis.call('ZRANGEBYSCORE', members, '(' .. from, horizon, 'WITHSCORES')
local answer = { 1, due }
for first = 1, #due, 2 * CHUNK do
  local fields = {}
  for i = first, math.min(first + 2 * CHUNK - 2, #due - 1), 2 do
    fields[#fields + 1] = string.format('%d', math.floor(due[i] / 65536))
  end
  answer[#answer + 1] = redis.call('HMGET', records, unpack(fields))
end
return answer
