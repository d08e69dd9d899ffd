#!lua flags=allow-oom
-- remove-finished
-- why: only what is of this very version goes; a newer version has begun again.
-- keys:
--   1 members: ZSET of packed (number, version), score = next effective time in UTC ms, 0 = finished
--   2 versions: HASH number -> 2 * version + (1 if that change reached the owner)
--   3 records: HASH number -> encoded job record
-- arguments:
--   1 members, at most 1,000, one after the other: number, version (doubles, big-endian)
-- answer: how many were removed
local members, versions, records = KEYS[1], KEYS[2], KEYS[3]
local packed, at = ARGV[1], 1
local fields, names, wanted = {}, {}, {}
while at <= #packed do
  local number, version
  number, version, at = struct.unpack('>dd', packed, at)
  local n = #fields + 1
  fields[n] = string.format('%d', number)
  names[n] = string.format('%d', number * 65536 + version % 65536)
  wanted[n] = version
end
if #fields == 0 then return 0 end

-- One call for all members costs a fifth of a call for each.
local kept = redis.call('HMGET', versions, unpack(fields))
local scores = redis.call('ZMSCORE', members, unpack(names))
local gone, gone_fields = {}, {}
for i = 1, #fields do
  if kept[i] and math.floor(kept[i] / 2) == wanted[i] and scores[i] then
    gone[#gone + 1] = names[i]
    gone_fields[#gone_fields + 1] = fields[i]
  end
end
if #gone == 0 then return 0 end
redis.call('ZREM', members, unpack(gone))
redis.call('HDEL', versions, unpack(gone_fields))
redis.call('HDEL', records, unpack(gone_fields))
return #gone
