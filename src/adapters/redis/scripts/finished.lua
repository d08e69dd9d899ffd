#!lua flags=no-writes
-- finished
-- why: members and their full versions must be read at one moment.
-- keys:
--   1 members: ZSET of packed (number, version), score = next effective time in UTC ms, 0 = finished
--   2 versions: HASH number -> 2 * version + (1 if that change reached the owner)
-- arguments:
--   1 most members to answer, at most 4,000
-- answer: number, 2 * version + flag, ... as text; a member whose version is unknown is left out
local found = redis.call('ZRANGEBYSCORE', KEYS[1], 0, 0, 'LIMIT', 0, ARGV[1])
if #found == 0 then return {} end
local fields = {}
for i, member in ipairs(found) do
  fields[i] = string.format('%d', math.floor(member / 65536))
end
local kept = redis.call('HMGET', KEYS[2], unpack(fields))
local answer = {}
for i, field in ipairs(fields) do
  if kept[i] then
    answer[#answer + 1] = field
    answer[#answer + 1] = kept[i]
  end
end
return answer
