import { memoryStores } from '../../../src/adapters/memory/stores.ts';
import { systemClock } from '../../../src/adapters/system/clock.ts';
import { triggerHead, triggerMessage } from '../../../src/core/envelope.ts';
import { applierService } from '../../../src/management/applier-process.ts';
import { Changes } from '../../../src/management/changes.ts';
import { firstStart } from '../../../src/management/first-start.ts';
import { apiServer } from '../../../src/management/server.ts';
import type { Stores } from '../../../src/ports/stores.ts';
import { silentTelemetry as telemetry } from '../../../src/ports/telemetry.ts';

export interface RunningApi {
  url: string;
  stores: Stores;
  /** Puts triggers into the topic of `default`, as the engine would; answers their execution ids. */
  publish(count: number, jobs: number, from?: number): Promise<string[]>;
  close(): Promise<void>;
}

export const START_MS = Date.parse('2027-01-01T00:00:00Z');

/** The real API with its appliers on a free port, over stores in memory; no worker fires. */
export async function startApi(options: { apiKey?: string; port?: number; stores?: Stores } = {}): Promise<RunningApi> {
  const clock = systemClock();
  const stores = options.stores ?? memoryStores(clock);
  const delivery = 'at-least-once';
  const installation = await firstStart(stores, clock, {
    slotsPerSet: 2,
    lanesPerSlot: 1,
    changesPartitions: 2,
    deliveries: [delivery],
  });
  await stores.shards.create([
    { id: 0, delivery, slot: 0, state: 'open', jobs: 0, nextNumber: 1, triggersPerSecond: 0, saturated: false },
  ]);
  const incarnation = crypto.randomUUID();
  const { changesPartitions } = installation;
  const changes = new Changes({ bus: stores.bus, clock, telemetry, changesPartitions, incarnation });
  const appliers = applierService({ stores, clock, telemetry, installation, changes });
  const api = apiServer(
    {
      stores,
      clock,
      telemetry,
      installation,
      changes,
      options: {
        mode: 'embedded',
        apiKey: options.apiKey ?? null,
        deliveries: [delivery],
        version: 'test',
        bulkThreads: 1,
      },
    },
    { host: '127.0.0.1', port: options.port ?? 0 },
  );
  for (const part of [changes, appliers, api]) await part.start();
  const cluster = (await stores.catalog.cluster('default'))!;
  return {
    url: `http://127.0.0.1:${api.address!.port}`,
    stores,
    async publish(count, jobs, from = 0) {
      const ids: string[] = [];
      const messages = Array.from({ length: count }, (_, index) => {
        const job = (from + index) % jobs;
        const nominalMs = START_MS + Math.floor((from + index) / jobs) * 60_000;
        const record = { key: `job-${job}`, version: 1, payload: `{"job":${job}}`, contentType: 'application/json' };
        const id = `0-${job}-${nominalMs}`;
        ids.push(id);
        return triggerMessage(triggerHead(cluster, record, 1), id, nominalMs, nominalMs);
      });
      const producer = await stores.bus.producer();
      await producer.send([{ topic: cluster.topic, messages }]);
      await producer.close();
      return ids;
    },
    async close() {
      for (const part of [api, appliers, changes]) await part.stop();
      if (options.stores === undefined) await stores.close();
    },
  };
}
