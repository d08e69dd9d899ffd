import { randomUUID } from 'node:crypto';
import { describe, inject } from 'vitest';
import { localSignals } from '../../src/adapters/local/signals.ts';
import { connectRedis } from '../../src/adapters/redis/connect.ts';
import { openSqlite } from '../../src/adapters/sqlite/stores.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { signalsContract } from './signals.contract.ts';
import { dataFolder, openIn } from './sqlite-folder.ts';

const servers = inject('servers');

signalsContract('one thread', async () => {
  const signals = localSignals();
  return { signals, another: signals, async close() {} };
});

signalsContract('threads of one process', async () => {
  const { folder, remove } = dataFolder();
  const stores = openIn(folder);
  const another = openSqlite({ folder, clock: systemClock(), lock: 'held' }, silentTelemetry);
  return {
    signals: stores.signals,
    another: another.signals,
    async close() {
      await another.close();
      await stores.close();
      remove();
    },
  };
});

describe.skipIf(servers === null)('on a real server', () => {
  signalsContract('Redis', async () => {
    const settings = { url: servers!.redis, prefix: `test-${randomUUID()}` };
    const store = await connectRedis(settings, silentTelemetry);
    const another = await connectRedis(settings, silentTelemetry);
    return {
      signals: store.signals,
      another: another.signals,
      async close() {
        await another.close();
        await store.close();
      },
    };
  });
});
