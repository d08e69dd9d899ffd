#!lua flags=no-writes
-- compare
-- why: versions and members must be looked at in one moment, or a change in between looks like a loss.
-- keys:
--   1 members: ZSET of packed (number, version), score = next effective time in UTC ms, 0 = finished
--   2 versions: HASH number -> 2 * version + (1 if that change reached the owner)
-- arguments:
--   1 jobs, at most 1,000, one after the other: number, version, 1 with a member or 0 without (doubles, big-endian)
-- answer: the indexes, from 0, of jobs that are not there in this version or a newer one, with or without a member as told
local fields, names, wanted, with = {}, {}, {}, {}
local packed, at, n = ARGV[1], 1, 0
while at <= #packed do
  local number
  n = n + 1
  number, wanted[n], with[n], at = struct.unpack('>ddd', packed, at)
  fields[n] = string.format('%d', number)
  names[n] = string.format('%d', number * 65536 + wanted[n] % 65536)
end
if n == 0 then return {} end
local kept = redis.call('HMGET', KEYS[2], unpack(fields))
local scores = redis.call('ZMSCORE', KEYS[1], unpack(names))
local differ = {}
for i = 1, n do
  local version = kept[i] and math.floor(kept[i] / 2) or -1
  local member = scores[i] and 1 or 0
  if version < wanted[i] or (version == wanted[i] and member ~= with[i]) then differ[#differ + 1] = i - 1 end
end
return differ
