import { expect, it } from 'vitest';
import { redisAddress } from '../../../src/adapters/redis/address.ts';

it.each([
  ['redis://u:p@host:6380/1', { url: 'redis://u:p@host:6380/1' }],
  ['rediss://host', { url: 'rediss://host' }],
  [
    'redis+cluster://a,b:7001',
    {
      nodes: [
        { host: 'a', port: 6379 },
        { host: 'b', port: 7001 },
      ],
    },
  ],
  [
    'rediss+cluster://joe:p%40ss%3A@[::1]:7001',
    { nodes: [{ host: '::1', port: 7001 }], username: 'joe', password: 'p@ss:', tls: true },
  ],
  [
    'redis+sentinel://:secret@a:1,b/jobs',
    {
      sentinels: [
        { host: 'a', port: 1 },
        { host: 'b', port: 26379 },
      ],
      name: 'jobs',
      password: 'secret',
    },
  ],
])('%s', (url, address) => {
  expect(redisAddress(url)).toEqual(address);
});

it.each([
  ['http://host', /is no address/],
  ['redis+sentinel://u:secret@a:1', /does not name the primary/],
  ['redis+cluster://u:secret@a:1/2', /a cluster has only one/],
  ['redis+cluster://u:secret@a:b', /a host that cannot be read/],
  ['redis+cluster://u:%secret@a', /encodes nothing/],
])('%s is refused with the mend and without the password', (url, reason) => {
  expect(() => redisAddress(url)).toThrow(reason);
  expect(() => redisAddress(url)).toThrow(/write it as redis:\/\//);
  expect(() => redisAddress(url)).not.toThrow(/secret/);
});
