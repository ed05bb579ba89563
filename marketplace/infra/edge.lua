-- One round trip of the edge: count a request against a sliding window and look up cached content.
-- KEYS[1]: the window's list of request times, newest first ('' skips counting).
-- KEYS[2]: the content's key ('' skips the look-up); KEYS[3..]: versions of the tags that the content depends on.
-- ARGV: limit, period in milliseconds, whether to count the request (1) or only to look (0), for how many
-- milliseconds a caller that does not find the content claims to compute it.
-- Returns: allowed, used, milliseconds until the oldest counted request leaves the window, version, content,
-- whether the caller has the claim.
local allowed, used, frees_in = 1, 0, 0
if KEYS[1] ~= '' then
  local limit, period, count = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local oldest = redis.call('LINDEX', KEYS[1], -1)
  local budget = 2000 -- bounds one call; what is left over goes with the next calls or with the key
  while oldest and tonumber(oldest) <= now - period and budget > 0 do
    redis.call('RPOP', KEYS[1])
    oldest = redis.call('LINDEX', KEYS[1], -1)
    budget = budget - 1
  end
  used = redis.call('LLEN', KEYS[1])
  if used >= limit then
    allowed = 0
  elseif count then
    redis.call('LPUSH', KEYS[1], now)
    redis.call('PEXPIRE', KEYS[1], period)
    used = used + 1
    oldest = oldest or now
  end
  if oldest then frees_in = tonumber(oldest) + period - now end
end
local version, content, claimed = '', false, 0
if KEYS[2] ~= '' and allowed == 1 then
  for index = 3, #KEYS do
    version = version .. '.' .. (redis.call('GET', KEYS[index]) or '0')
  end
  content = redis.call('GET', KEYS[2] .. version)
  if not content and redis.call('SET', KEYS[2] .. version .. ':claim', '1', 'NX', 'PX', ARGV[4]) then
    claimed = 1
  end
end
return {allowed, used, frees_in, version, content, claimed}
