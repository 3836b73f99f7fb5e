"""The scripts that Redis or Valkey runs: one for each operation, which makes it atomic.

All keys of a partition share a hash tag, so a cluster keeps them on one machine. Below the prefix
and `{partition}` there are

| key | type | what |
|---|---|---|
| `:v` | string | the version that was given last |
| `:e:name` | hash | an entry: its value, version, expiry and, if it has one, when it is due |
| `:f:folder` | sorted set | the names in a folder, by themselves |
| `:x:folder` | sorted set | the same by expiry: what has expired is swept little by little |
| `:d:folder` | sorted set | those that are or will be due, by that time |
| `:l:name` | list | the items of a log |
| `:m:name` | hash | the last position of a log, its bytes, its expiry, and when it began |

Times are microseconds of the server's clock, which doubles count exactly. Entries have their own
expiry; the time to live that each key has besides gives the room back.
"""

from __future__ import annotations

import math
from typing import Any, Final

from attrs import fields

from trio_mcp.store.changes import (
    LARGEST,
    Add,
    Append,
    Change,
    Check,
    Conflict,
    Delete,
    Drop,
    Entry,
    News,
    Put,
    Touch,
)

NEVER: Final = 10**18
"""The time of what never happens."""

_SLACK: Final = 60_000
"""Milliseconds for which a key outlives its contents: entries and logs have their own expiry."""

_COMMON: Final = f"""
local NEVER = {NEVER}
local call, base = redis.call, KEYS[1]
local next_argument = 0
local function argument()
  next_argument = next_argument + 1
  return ARGV[next_argument]
end

local now = tonumber(argument())
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

local function digits(number) return string.format('%.0f', number) end
local function folder_of(name) return string.match(name, '^(.+)/[^/]*$') end
local function after(seconds) return seconds >= NEVER and NEVER or now + seconds end

-- Has a key live until a time at least. A sorted set serves many entries: the last one counts.
local function keep(key, expires, was_there)
  if expires >= NEVER then
    call('PERSIST', key)
    return
  end
  local left = was_there and call('PTTL', key) or 0
  local wanted = math.ceil((expires - now) / 1000) + {_SLACK}
  if left ~= -1 and left < wanted then call('PEXPIRE', key, digits(wanted)) end
end

local function load(name)
  local row = call('HMGET', base .. ':e:' .. name, 'n', 'x', 'd')
  if not row[1] or tonumber(row[2]) <= now then return nil end
  return {{version = row[1], expires = tonumber(row[2]), due = row[3] and tonumber(row[3])}}
end

local function remove(name)
  call('UNLINK', base .. ':e:' .. name)
  local folder = folder_of(name)
  if folder then
    for _, kind in ipairs({{':f:', ':x:', ':d:'}}) do call('ZREM', base .. kind .. folder, name) end
  end
end

local function list(kind, folder, name, score, expires)
  local key = base .. kind .. folder
  local was_there = call('EXISTS', key) == 1
  call('ZADD', key, digits(score), name)
  keep(key, expires, was_there)
end

-- Writes an entry. Without a value, it keeps the one that it has.
local function save(name, version, expires, due, value)
  local key = base .. ':e:' .. name
  if value then call('HSET', key, 'v', value) end
  call('HSET', key, 'n', version, 'x', digits(expires))
  if due then call('HSET', key, 'd', digits(due)) else call('HDEL', key, 'd') end
  keep(key, expires, false)
  local folder = folder_of(name)
  if not folder then return end
  list(':f:', folder, name, 0, expires)
  list(':x:', folder, name, expires, expires)
  if due then list(':d:', folder, name, due, expires)
  else call('ZREM', base .. ':d:' .. folder, name) end
  local gone = call('ZRANGEBYSCORE', base .. ':x:' .. folder, '-inf', digits(now), 'LIMIT', 0, 8)
  for _, each in ipairs(gone) do remove(each) end
end

-- Grows however long it is forgotten in between, unless the clock was set back for that long.
local function new_version()
  local key = base .. ':v'
  local version = digits(math.max(tonumber(call('GET', key) or '0') + 1, now))
  call('SET', key, version, 'PX', 7 * 24 * 3600 * 1000)
  return version
end

local function log_of(name)
  local found = call('HMGET', base .. ':m:' .. name, 'last', 'size', 'x')
  if not found[1] or tonumber(found[3]) <= now then return 0, 0 end
  return tonumber(found[1]), tonumber(found[2])
end

local function drop(name) call('UNLINK', base .. ':l:' .. name, base .. ':m:' .. name) end
"""

_COMMIT: Final = """
local sender, count = argument(), tonumber(argument())
local version

-- Whether one whole number in digits is above another; both may be longer than doubles can count.
local function above(a, b)
  local is_negative = string.sub(a, 1, 1) == '-'
  if is_negative ~= (string.sub(b, 1, 1) == '-') then return not is_negative end
  if #a ~= #b then return (#a > #b) ~= is_negative end
  return a ~= b and (a > b) ~= is_negative
end

-- Redis counts with 64 bits, Lua does not.
local function sum(value, amount)
  local key = base .. ':t'
  call('SET', key, value, 'PX', 1000)
  local result = redis.pcall('INCRBY', key, amount)
  local total = call('GET', key)
  call('DEL', key)
  if type(result) == 'table' then
    return nil, string.find(result.err, 'overflow') and 'large' or 'number'
  end
  return total
end

local function expected(expect, row)
  return expect == '' or expect == (row and row.version or '0')
end

-- Each kind has a function that looks at the entry, and may refuse, and one that makes the change.
local look, make = {}, {}

function look.put(c)
  c.value, c.ttl = argument(), tonumber(argument())
  c.expect, c.delay = argument(), tonumber(argument())
  if c.expect == '' then return end
  if not expected(c.expect, load(c.name)) then return 'conflict' end
end
function make.put(c)
  version = version or new_version()
  save(c.name, version, after(c.ttl), c.delay and now + c.delay, c.value)
  return version
end

function look.touch(c)
  c.ttl, c.expect, c.delay = tonumber(argument()), argument(), tonumber(argument())
  c.row = load(c.name)
  if not c.row or not expected(c.expect, c.row) then return 'conflict' end
end
function make.touch(c)
  local expires = c.ttl and after(c.ttl) or c.row.expires
  save(c.name, c.row.version, expires, c.delay and now + c.delay or c.row.due)
  return c.row.version
end

function look.delete(c)
  c.expect, c.row = argument(), load(c.name)
  if not expected(c.expect, c.row) then return 'conflict' end
end
function make.delete(c)
  remove(c.name)
  return c.row and c.row.version or '0'
end

look.check = look.delete
function make.check(c) return c.row and c.row.version or '0' end

function look.add(c)
  c.amount, c.ttl, c.limit = argument(), tonumber(argument()), argument()
  c.row = load(c.name)
  local value = c.row and call('HGET', base .. ':e:' .. c.name, 'v') or '0'
  local problem
  c.total, problem = sum(value, c.amount)
  if not c.total then return problem end
  if c.limit ~= '' and above(c.total, c.limit) then return 'conflict' end
end
function make.add(c)
  if c.total == '0' then  -- as if there was none, so nothing is left of what ended
    remove(c.name)
    return c.total
  end
  version = version or new_version()
  save(c.name, version, c.row and c.row.expires or after(c.ttl), nil, c.total)
  return c.total
end

function look.append(c)
  c.item, c.ttl = argument(), tonumber(argument())
  c.limit, c.max_bytes = tonumber(argument()), tonumber(argument())
end
function make.append(c)
  local items, about = base .. ':l:' .. c.name, base .. ':m:' .. c.name
  local last, size = log_of(c.name)
  if last == 0 then
    drop(c.name)
    version = version or new_version()
    call('HSET', about, 'began', version)
  end
  local length = call('RPUSH', items, c.item)
  last, size = last + 1, size + #c.item
  while length > c.limit or (length > 1 and size > c.max_bytes) do
    size, length = size - #call('LPOP', items), length - 1
  end
  local expires = after(c.ttl)
  call('HSET', about, 'last', digits(last), 'size', digits(size), 'x', digits(expires))
  keep(items, expires, false)
  keep(about, expires, false)
  return digits(last)
end

function look.drop() end
function make.drop(c)
  local last = log_of(c.name)
  drop(c.name)
  return digits(last)
end

function look.news(c) c.channel = argument() end
function make.news(c)
  call('PUBLISH', c.channel, sender)
  return '0'
end

-- Without memory, this fails before anything was changed.
if argument() ~= '' then
  call('SET', base .. ':t', '', 'PX', 1000)
  call('DEL', base .. ':t')
end
local changes = {}
for number = 1, count do
  local change = {kind = argument(), name = argument()}
  local problem = look[change.kind](change)
  if problem then return {problem, tostring(number - 1)} end
  changes[number] = change
end
local results = {'done'}
for _, change in ipairs(changes) do
  results[#results + 1] = make[change.kind](change)
end
return results
"""

_GET: Final = """
local name = argument()
local row = load(name)
if not row then return {} end
return {call('HGET', base .. ':e:' .. name, 'v'), row.version, digits(row.expires - now)}
"""

_SCAN: Final = """
local folder, begin, limit = argument(), argument(), tonumber(argument())
local max_bytes, size, found = tonumber(argument()), 0, {}
local seen = 0
while true do
  local names = call('ZRANGEBYLEX', base .. ':f:' .. folder, begin, '+', 'LIMIT', 0, limit + 1)
  for _, name in ipairs(names) do
    local row = load(name)
    if row then
      local key = base .. ':e:' .. name
      size = size + call('HSTRLEN', key, 'v')
      if seen == limit or (seen > 0 and size > max_bytes) then return {'more', found} end
      seen = seen + 1
      found[seen] = {name, call('HGET', key, 'v'), row.version, digits(row.expires - now)}
    end
    begin = '(' .. name
  end
  if #names <= limit then return {'', found} end
end
"""

_CLAIM: Final = """
local folder, lease, limit = argument(), tonumber(argument()), tonumber(argument())
local found, version, looked = {}, nil, 0
while true do
  local first = call('ZRANGE', base .. ':d:' .. folder, 0, 0, 'WITHSCORES')
  local name, due = first[1], tonumber(first[2])
  if not name then return {'', found} end
  local row = load(name)
  if row and (due > now or #found == limit) then
    return {digits(math.max(due - now, 0)), found}
  elseif row then
    version = version or new_version()
    save(name, version, row.expires, now + math.max(lease, 1))
    local value = call('HGET', base .. ':e:' .. name, 'v')
    found[#found + 1] = {name, value, version, digits(row.expires - now)}
  else
    remove(name)
    looked = looked + 1
    if looked == 1000 then return {'0', found} end  -- the rest when it is asked for again
  end
end
"""

_READ: Final = """
local name, position, limit = argument(), tonumber(argument()), tonumber(argument())
local max_bytes, size, items = tonumber(argument()), 0, {}
local last = log_of(name)
if last == 0 then return {'1', '0', '0', '1', {}} end
local key = base .. ':l:' .. name
local first = last - call('LLEN', key) + 1
local start = math.max(position + 1, first) - first
while #items < limit do
  local from = start + #items
  local several = call('LRANGE', key, from, from + math.min(limit - #items, 8) - 1)
  if #several == 0 then break end
  for _, item in ipairs(several) do
    size = size + #item
    if #items > 0 and size > max_bytes then limit = #items break end
    items[#items + 1] = item
  end
end
local began = call('HGET', base .. ':m:' .. name, 'began') or '0'
return {digits(first), digits(last), began, digits(first + start), items}
"""

COMMIT, GET, SCAN, CLAIM, READ = (
    _COMMON + script for script in (_COMMIT, _GET, _SCAN, _CLAIM, _READ)
)


Argument = str | bytes

GROWING: Final = (Put, Touch, Add, Append)

_NAMES: Final[dict[type[Any], tuple[str, ...]]] = {
    kind: tuple(field.name for field in fields(kind) if field.name != "key")
    for kind in (Put, Touch, Delete, Check, Add, Append, Drop, News)
}
"""By the kind of a change, what is written after its key, in the order in which it is read."""


def time_of(seconds: float | None) -> str:
    """Write a time for a script: in microseconds, rounded up; empty for None."""
    if seconds is None:
        return ""
    return str(NEVER if seconds * 1e6 >= NEVER else math.ceil(seconds * 1e6))


def name_of(key: str) -> str:
    """Return the name of a key within its partition."""
    return key.partition(":")[2]


def written(change: Change) -> list[Argument]:
    """Write a change as `redis_scripts.COMMIT` reads it.

    Raises:
        ValueError: It adds more than 64 bits hold.
    """
    if isinstance(change, Add) and abs(change.amount) > LARGEST:
        raise refusal(b"large", change)
    kind = type(change)
    values = (_written(name, getattr(change, name)) for name in _NAMES[kind])
    return [kind.__name__.lower(), name_of(change.key), *values]


def _written(name: str, value: Any) -> Argument:
    if name in ("ttl", "delay"):
        return time_of(value)
    if value is None:
        return ""
    return value if isinstance(value, bytes) else str(value)


def refusal(outcome: bytes, change: Any) -> Exception:
    """Make the exception for a change that the script refused."""
    if outcome == b"conflict":
        return Conflict(change)
    if outcome == b"large":
        return ValueError(f"the sum at {change.key!r} would be beyond 64 bits")
    return ValueError(f"{change.key!r} has no number to add to")


def entry_of(key: str, value: bytes, version: bytes, left: bytes) -> Entry:
    """Read an entry from its value, its version, and the microseconds until it expires."""
    never = int(left) >= NEVER // 2
    return Entry(key, value, int(version), math.inf if never else int(left) / 1e6)
