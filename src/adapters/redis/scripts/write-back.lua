#!lua flags=allow-oom
-- write-back
-- why: a score belongs to one version; what was removed or replaced meanwhile must not come back.
-- keys:
--   1 members: ZSET of packed (number, version), score = next effective time in UTC ms, 0 = finished
--   2 versions: HASH number -> 2 * version + (1 if that change reached the owner)
--   3 state: HASH with `epoch` of the owner and `horizon` H in UTC ms
-- arguments:
--   1 epoch of the writing owner
--   2 scores, at most 1,000, one after the other: number, version, score (doubles, big-endian)
-- answer: {1, {index, ...}, {index, ...}} with the indexes, from 0, of members that now stand at or below H and of those that
--   are missing; or {0, the higher epoch that stands there}
local members, versions, state = KEYS[1], KEYS[2], KEYS[3]
local stored = redis.call('HMGET', state, 'epoch', 'horizon')
local stored_epoch, horizon = tonumber(stored[1] or '0'), tonumber(stored[2] or '0')
if stored_epoch > tonumber(ARGV[1]) then return { 0, stored_epoch } end

local packed, at = ARGV[2], 1
local fields, names, wanted, scores = {}, {}, {}, {}
while at <= #packed do
  local number, version, score
  number, version, score, at = struct.unpack('>ddd', packed, at)
  local n = #fields + 1
  fields[n] = string.format('%d', number)
  names[n] = string.format('%d', number * 65536 + version % 65536)
  wanted[n], scores[n] = version, score
end
if #fields == 0 then return { 1, {}, {} } end

local kept = redis.call('HMGET', versions, unpack(fields))
local former = redis.call('ZMSCORE', members, unpack(names))
local within, missing, pairs_of = {}, {}, {}
for i = 1, #fields do
  if former[i] and kept[i] and math.floor(kept[i] / 2) == wanted[i] then
    pairs_of[#pairs_of + 1] = string.format('%d', scores[i])
    pairs_of[#pairs_of + 1] = names[i]
    if scores[i] > 0 and scores[i] <= horizon then within[#within + 1] = i - 1 end
  else
    missing[#missing + 1] = i - 1
  end
end
if #pairs_of > 0 then redis.call('ZADD', members, 'XX', unpack(pairs_of)) end
return { 1, within, missing }
