import type { FastifyInstance, InjectOptions } from 'fastify';
import { memoryStores } from '../../../src/adapters/memory/stores.ts';
import { systemClock } from '../../../src/adapters/system/clock.ts';
import { changesIn } from '../../../src/core/lines.ts';
import { TOPICS } from '../../../src/core/topics.ts';
import { buildApi } from '../../../src/management/app.ts';
import { applierService } from '../../../src/management/applier-process.ts';
import { Changes } from '../../../src/management/changes.ts';
import type { ApiDeps, ApiOptions } from '../../../src/management/deps.ts';
import { firstStart } from '../../../src/management/first-start.ts';
import { newRequestKey } from '../../../src/management/server.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { Stores } from '../../../src/ports/stores.ts';
import { silentTelemetry } from '../../../src/ports/telemetry.ts';
import { inOrder } from '../../../src/runtime/service.ts';

export interface ApiUnderTest {
  app: FastifyInstance;
  deps: ApiDeps;
  stores: Stores;
  changes: Changes;
  /** One request; the body is sent as JSON unless it is text or bytes. */
  call(method: string, url: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  /** What a refused request must leave as it is. */
  counts(): Promise<{ jobs: number; offsets: number; changes: number; members: number }>;
  close(): Promise<void>;
}

export interface Answer {
  status: number;
  headers: Record<string, unknown>;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of all shapes
  json: any;
}

export interface ApiSetup {
  options?: Partial<ApiOptions>;
  clock?: Clock;
  stores?: Stores;
  /** Without one, changes stay in the topic. */
  applier?: boolean;
  answerWaitMs?: number;
  queueMost?: number;
}

/** The API over stores in memory with an applier, as one process; nothing listens. */
export async function openApi(setup: ApiSetup = {}): Promise<ApiUnderTest> {
  const clock = setup.clock ?? systemClock();
  const stores = setup.stores ?? memoryStores(clock);
  const telemetry = silentTelemetry;
  const installation = await firstStart(stores, clock, {
    slotsPerSet: 2,
    lanesPerSlot: 2,
    changesPartitions: 2,
    deliveries: ['at-least-once'],
  });
  const shard = { delivery: 'at-least-once', state: 'open', jobs: 0, triggersPerSecond: 0, saturated: false } as const;
  await stores.shards.create([0, 1].map((id) => ({ ...shard, id, slot: id, nextNumber: 1 })));
  const { answerWaitMs, queueMost } = setup;
  const changes = new Changes({
    bus: stores.bus,
    clock,
    telemetry,
    changesPartitions: installation.changesPartitions,
    incarnation: `api-${newRequestKey()}`,
    ownerAnswerWaitMs: 1,
    ...(answerWaitMs === undefined ? {} : { answerWaitMs }),
    ...(queueMost === undefined ? {} : { queueMost }),
  });
  const applier = applierService({ stores, clock, telemetry, installation, changes });
  const running = inOrder('test', telemetry, setup.applier === false ? [changes] : [applier, changes]);
  await running.start();
  const options: ApiOptions = {
    mode: 'embedded',
    apiKey: null,
    deliveries: ['at-least-once'],
    version: '0.0.0-test',
    bulkThreads: 1,
    ...setup.options,
  };
  const deps: ApiDeps = { stores, clock, telemetry, installation, changes, options, newRequestKey };
  const app = await buildApi(deps);
  return {
    app,
    deps,
    stores,
    changes,
    call: (method, url, body, headers) => call(app, method, url, body, headers),
    counts: () => counts(stores),
    async close() {
      await app.close();
      await running.stop();
      await stores.close();
    },
  };
}

async function call(
  app: FastifyInstance,
  method: string,
  url: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const asIs = typeof body === 'string' || body instanceof Uint8Array;
  const payload = body === undefined || asIs ? body : JSON.stringify(body);
  const type = body === undefined ? {} : { 'content-type': 'application/json' };
  const request = { method, url, headers: { ...type, ...headers }, ...(payload === undefined ? {} : { payload }) };
  const response = await app.inject(request as InjectOptions);
  const isJson = String(response.headers['content-type'] ?? '').includes('json');
  return {
    status: response.statusCode,
    headers: response.headers,
    text: response.body,
    json: isJson && response.body !== '' ? JSON.parse(response.body) : null,
  };
}

export async function counts({ bus, jobs, shards, triggers }: Stores) {
  const states = Object.values(await jobs.counts());
  const offsets = await bus.offsets(TOPICS.changes);
  let members = 0;
  let changes = 0;
  for (const partition of offsets.keys()) {
    const reader = await bus.reader(TOPICS.changes, partition, 'first');
    while (!(await reader.caughtUp())) {
      for (const { value } of await reader.read(0)) changes += changesIn(value);
    }
    await reader.close();
  }
  for (const { id } of await shards.shards()) members += (await triggers.count(id)).members;
  return {
    jobs: states.reduce((sum, count) => sum + count, 0),
    offsets: offsets.reduce((sum, { end }) => sum + end, 0),
    changes,
    members,
  };
}

export const JOBS = '/v1/clusters/default/jobs';

export function jobUrl(key: string): string {
  return `${JOBS}/${encodeURIComponent(key)}`;
}

export const CRON = { kind: 'cron', expression: '0 9 * * *' } as const;
