-- Count a request against a sliding window and look up cached content, in one round trip.
-- KEYS[1]: list of request times in the window, newest first ('' skips counting)
-- KEYS[2]: key of the content ('' skips the look-up)
-- KEYS[3..]: versions of the content's tags
-- ARGV[1]: limit
-- ARGV[2]: period in milliseconds
-- ARGV[3]: 1 to count the request, 0 to read the window only
-- ARGV[4]: duration in milliseconds of the lease to compute missing content
-- Returns: allowed, used, milliseconds until the oldest counted request leaves the window, version, content,
-- whether the caller has the lease
local allowed, used, frees_in = 1, 0, 0
if KEYS[1] ~= '' then
  local limit, period, count = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local oldest = redis.call('LINDEX', KEYS[1], -1)
  local budget = 2000 -- limits the work of a call; later calls or the key's expiry remove the rest
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
