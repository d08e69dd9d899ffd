#!lua flags=allow-oom
-- remove-finished
-- why: only a member that is still finished in this very version goes; a newer version has begun again.
-- keys:
--   1 members: ZSET of packed (number, version), score = next effective time in UTC ms, 0 = finished
--   2 versions: HASH number -> 2 * version + (1 if that change reached the owner)
--   3 records: HASH number -> encoded job record
-- arguments:
--   1 members, at most 1,000, one after the other: number, version (doubles, big-endian)
-- answer: how many were removed
local members, versions, records = KEYS[1], KEYS[2], KEYS[3]
local packed, at = ARGV[1], 1
local removed = 0
while at <= #packed do
  local number, version
  number, version, at = struct.unpack('>dd', packed, at)
  local field = string.format('%.0f', number)
  local member = string.format('%.0f', number * 65536 + version % 65536)
  local kept = redis.call('HGET', versions, field)
  if kept and math.floor(kept / 2) == version and tonumber(redis.call('ZSCORE', members, member) or '1') == 0 then
    redis.call('ZREM', members, member)
    redis.call('HDEL', versions, field)
    redis.call('HDEL', records, field)
    removed = removed + 1
  end
end
return removed
