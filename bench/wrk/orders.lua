-- Requests for wrk. Arguments: the beginning of all keys, and how many orders there are that are sent again and again;
-- 0: every request is a new order.
local prefix, repeats, number

function init(args)
  prefix, repeats, number = args[1], tonumber(args[2]), 0
end

-- As `Order::numbered` makes them: a repeat must say what the first said.
function request()
  number = number + 1
  local order = number
  if repeats > 0 then
    order = number % repeats
  end
  local item = math.floor(order * 2654435761 % 4294967296 / 65536) % 1000
  local headers = {
    ["Content-Type"] = "application/json",
    ["Idempotency-Key"] = string.format('"%s%016x"', prefix, order),
  }
  return wrk.format("POST", "/orders", headers, string.format('{"item":"item-%d","units":1}', item))
end

-- One line that is read; wrk's own text stands before it.
function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"duration_us":%d,"p50_us":%d,"p99_us":%d,"statuses":%d,"sockets":%d,"timeouts":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write, errors.timeout))
end
