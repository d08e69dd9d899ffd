#!lua
-- add
-- why: the version is compared in the same step that writes, so no older change can ever undo a newer one. An owner that
--   restores what the store has lost writes by the same rules, so that it cannot undo a change either.
-- keys:
--   1 members: ZSET of packed (number, version), score = next effective time in UTC ms, 0 = finished
--   2 versions: HASH number -> 2 * version + (1 if that change reached the owner), e.g. version 3, reached -> 7
--   3 records: HASH number -> encoded job record
--   4 state: HASH with `epoch` of the owner, `horizon` H in UTC ms and `build`, the number of the last rebuild
--   5 tombstones: ZSET of numbers without a record, score = time of removal by Redis's clock, ms
-- arguments:
--   1 changes of different numbers, at most 1,000, one after the other: number, version, score, cut (doubles; score -1: no
--     member; cut in UTC ms: the version before owes up to there), length of the record (4 bytes; 0xFFFFFFFF: deleted), record.
--     Big-endian.
--   2 epoch of the owner that restores them, or an empty text: they are changes
-- answer: one digit for each change: 0 applied, 1 applied and reaches the owner, 2 same, 3 same and reached it, 4 older. When
--   they are restored: 's' and the higher epoch that stands there, or of the same version 0 or 1 where something was lacking
local members, versions, records, state, tombstones = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local DELETED = 4294967295
local restores = ARGV[2] ~= ''
local stored_state = redis.call('HMGET', state, 'epoch', 'horizon', 'build')
if restores and tonumber(stored_state[1] or '0') > tonumber(ARGV[2]) then return 's' .. stored_state[1] end

-- As packMember of core/member.ts: 16 low bits of the version below the number; a double holds it exactly.
local function member_of(number, version)
  return string.format('%d', number * 65536 + version % 65536)
end

-- One call for all members costs a fifth of a call for each.
local function call(command, key, values)
  if #values > 0 then redis.call(command, key, unpack(values)) end
end

local number, version, score, cut, record, field = {}, {}, {}, {}, {}, {}
local packed, at, n = ARGV[1], 1, 0
while at <= #packed do
  local length
  n = n + 1
  number[n], version[n], score[n], cut[n], length, at = struct.unpack('>ddddI4', packed, at)
  field[n] = string.format('%d', number[n])
  if length ~= DELETED then
    record[n] = string.sub(packed, at, at + length - 1)
    at = at + length
  end
end
if n == 0 then return '' end

local kept = redis.call('HMGET', versions, unpack(field))
local former, former_of = {}, {}
for i = 1, n do
  kept[i] = tonumber(kept[i] or '-1')
  local later = version[i] - math.floor(kept[i] / 2)
  if kept[i] >= 0 and (later > 0 or (restores and later == 0)) then
    former[#former + 1] = member_of(number[i], math.floor(kept[i] / 2))
    former_of[i] = #former
  end
end
local former_score = #former > 0 and redis.call('ZMSCORE', members, unpack(former)) or {}

local horizon = tonumber(stored_state[2] or '0')
-- Every key carries the number of the rebuild that made it, under a name that no job has.
local build = stored_state[3]
local mark = build and redis.call('ZSCORE', members, 'build')
local whole = mark and tonumber(mark) == -tonumber(build) and redis.call('HGET', versions, 'build') == build
local time = redis.call('TIME')
local now_ms = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
local answers, removed, added, keep, stored, revived, deleted, buried = {}, {}, {}, {}, {}, {}, {}, {}
for i = 1, n do
  local current = math.floor(kept[i] / 2)
  local left = former_of[i] and former_score[former_of[i]]
  local lacks = restores and (score[i] >= 0) ~= (left and true or false)
  if kept[i] >= 0 and version[i] < current then
    answers[i] = '4'
  elseif kept[i] >= 0 and version[i] == current and not lacks then
    answers[i] = kept[i] % 2 == 1 and '3' or '2'
  else
    local near = (score[i] >= 0 and score[i] <= horizon) or (left and tonumber(left) <= math.max(horizon, cut[i]))
    local reaches = near or not whole
    if left then removed[#removed + 1] = former[former_of[i]] end
    if score[i] >= 0 then
      added[#added + 1] = string.format('%d', score[i])
      added[#added + 1] = member_of(number[i], version[i])
    end
    if record[i] then
      stored[#stored + 1] = field[i]
      stored[#stored + 1] = record[i]
      if kept[i] >= 0 then revived[#revived + 1] = field[i] end
    else
      deleted[#deleted + 1] = field[i]
      buried[#buried + 1] = now_ms
      buried[#buried + 1] = field[i]
    end
    keep[#keep + 1] = field[i]
    keep[#keep + 1] = string.format('%d', 2 * version[i] + ((reaches or restores) and 1 or 0))
    answers[i] = reaches and '1' or '0'
  end
end

call('ZREM', members, removed)
call('ZADD', members, added)
call('HSET', records, stored)
call('HDEL', records, deleted)
call('ZREM', tombstones, revived)
call('ZADD', tombstones, buried)
call('HSET', versions, keep)
return table.concat(answers)
