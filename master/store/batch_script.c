// SPDX-License-Identifier: Apache-2.0
// The two scripts that write. Redis runs a script whole, and writes what it did to its file as one
// transaction; an erring script keeps what it had done, so everything that can be refused is looked
// at first, and the commit number comes last: a batch whose number is there was applied whole, and
// is not applied again.
#include "master/store/batch.h"

// Groups: "S" n (key value)*    "T" n (key ttl_ms value)*    "D" n key*    "A" n stream max_len (id
// value)*
const char batch_script[] =
    "local have = redis.call('HMGET', KEYS[1], 'epoch', 'commit')\n"
    "if have[1] ~= ARGV[1] then\n"
    "  return redis.error_reply('EPOCH is ' .. tostring(have[1]) .. ', not ' .. ARGV[1])\n"
    "end\n"
    "local number, last = tonumber(ARGV[2]), tonumber(have[2] or 0)\n"
    "if number <= last then return 'DUP' end\n"
    "if number ~= last + 1 then\n"
    "  return redis.error_reply('GAP: last commit is ' .. last .. ', not ' .. (number - 1))\n"
    "end\n"
    "local i, n = 3, #ARGV\n"
    "while i <= n do\n"
    "  local kind, count = ARGV[i], tonumber(ARGV[i + 1])\n"
    "  i = i + 2\n"
    "  if kind == 'S' then\n"
    "    redis.call('MSET', unpack(ARGV, i, i + 2 * count - 1))\n"
    "    i = i + 2 * count\n"
    "  elseif kind == 'T' then\n"
    "    for _ = 1, count do\n"
    "      redis.call('SET', ARGV[i], ARGV[i + 2], 'PX', ARGV[i + 1])\n"
    "      i = i + 3\n"
    "    end\n"
    "  elseif kind == 'D' then\n"
    "    redis.call('DEL', unpack(ARGV, i, i + count - 1))\n"
    "    i = i + count\n"
    "  elseif kind == 'A' then\n"
    "    local stream, max = ARGV[i], ARGV[i + 1]\n"
    "    i = i + 2\n"
    "    for _ = 1, count do\n"
    "      redis.call('XADD', stream, 'MAXLEN', '~', max, ARGV[i], 'json', ARGV[i + 1])\n"
    "      i = i + 2\n"
    "    end\n"
    "  else\n"
    "    return redis.error_reply('KIND unknown')\n"
    "  end\n"
    "end\n"
    "redis.call('HSET', KEYS[1], 'commit', ARGV[2])\n"
    "return 'OK'\n";

const char raise_script[] = "if redis.call('HGET', KEYS[1], 'epoch') == ARGV[1] then\n"
                            "  redis.call('HSET', KEYS[1], 'epoch', ARGV[2])\n"
                            "end\n"
                            "return redis.call('HGET', KEYS[1], 'epoch')\n";

const char epoch_script[] =
    "local schema = tonumber(redis.call('HGET', KEYS[1], 'schema') or ARGV[1])\n"
    "if schema > tonumber(ARGV[1]) then\n"
    "  return redis.error_reply('SCHEMA is ' .. schema .. ', newer than ' .. ARGV[1])\n"
    "end\n"
    "redis.call('HSET', KEYS[1], 'schema', ARGV[1])\n"
    "redis.call('HSETNX', KEYS[1], 'commit', '0')\n"
    "if tonumber(ARGV[2]) > tonumber(redis.call('HGET', KEYS[1], 'epoch') or 0) then\n"
    "  redis.call('HSET', KEYS[1], 'epoch', ARGV[2])\n"
    "end\n"
    "return {redis.call('HINCRBY', KEYS[1], 'epoch', 1), tonumber(redis.call('HGET', KEYS[1], "
    "'commit'))}\n";
