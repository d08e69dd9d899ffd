import { randomUUID } from 'node:crypto';
import { describe, inject } from 'vitest';
import { kafkaBus } from '../../src/adapters/kafka/bus.ts';
import type { Bus } from '../../src/ports/bus.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { busContract } from './bus.contract.ts';

const servers = inject('servers');

describe.skipIf(servers === null)('on a real broker', () => {
  busContract('kafka', async () => {
    const own = randomUUID();
    const open = (): Bus => kafkaBus({ brokers: servers!.kafka, clientId: `contract-${own}` }, silentTelemetry);
    const opening = {
      bus: open(),
      unique: (name: string) => `${name}-${own}`,
      another: async () => open(),
      async reopen() {
        await opening.bus.close();
        opening.bus = open();
        return opening.bus;
      },
      close: () => opening.bus.close(),
    };
    return opening;
  });
});
