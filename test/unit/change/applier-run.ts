import { manualClock } from '../../../src/adapters/memory/clock.ts';
import { memoryStores } from '../../../src/adapters/memory/stores.ts';
import type { Job } from '../../../src/core/job.ts';
import {
  type Answer,
  type Change,
  decodeMessage,
  encodeMessage,
  type FastMessage,
} from '../../../src/core/messages.ts';
import { decodeRecord } from '../../../src/core/record.ts';
import { TOPICS } from '../../../src/core/topics.ts';
import { Applier, type ApplierDeps } from '../../../src/engine/apply.ts';
import { Calendars } from '../../../src/engine/change/calendars.ts';
import { nextEffective } from '../../../src/engine/change/timing.ts';
import { checkLines } from '../../../src/management/bulk/check-lines.ts';
import type { Bus, BusRecord } from '../../../src/ports/bus.ts';
import type { OperationError } from '../../../src/ports/operation-store.ts';
import type { Stores } from '../../../src/ports/stores.ts';
import { silentTelemetry } from '../../../src/ports/telemetry.ts';
import { NOON } from './samples.ts';

export const SLOTS = 2;
/** H of all shards: what is due until then is in a wheel. */
export const HORIZON = NOON + 16_000;

/** Throws at the n-th call to any store (or of one method), before it is made or after it was made. */
export class Crash {
  calls = 0;
  readonly at: number;
  readonly when: 'before' | 'after';

  readonly only: string | null;

  constructor(at: number, when: 'before' | 'after', only: string | null = null) {
    this.at = at;
    this.when = when;
    this.only = only;
  }

  /** The same store, whose methods may crash. */
  wrap<T extends object>(store: T): T {
    return new Proxy(store, {
      get: (target, name) => {
        const value = Reflect.get(target, name, target);
        if (typeof value !== 'function') return value;
        return async (...args: unknown[]) => {
          const call = this.only === null || this.only === name ? this.calls++ : -1;
          if (call >= 0 && call === this.at && this.when === 'before') throw new Error(`crash before ${String(name)}`);
          const result = await value.apply(target, args);
          if (call >= 0 && call === this.at && this.when === 'after') throw new Error(`crash after ${String(name)}`);
          return result;
        };
      },
    });
  }
}

/** An installation in memory with one changes partition, and appliers that come and go. */
export class ApplierRun {
  readonly clock = manualClock(NOON);
  readonly stores: Stores = memoryStores(this.clock);
  /** Offset of the first change that is not committed. */
  committed = 0;
  #incarnation = 0;

  async open(): Promise<void> {
    const { bus, catalog, shards, triggers } = this.stores;
    await bus.ensureTopics([
      { name: TOPICS.changes, partitions: 1 },
      { name: TOPICS.answers, partitions: 1 },
      { name: TOPICS.fast, partitions: 2 * SLOTS },
    ]);
    await catalog.createCluster({
      name: 'team',
      topic: 't',
      partitions: 1,
      envelope: 'compact',
      delivery: 'at-least-once',
      createdMs: NOON,
    });
    const shard = {
      delivery: 'at-least-once',
      state: 'open',
      jobs: 0,
      triggersPerSecond: 0,
      saturated: false,
    } as const;
    await shards.create([0, 1].map((id) => ({ ...shard, id, slot: id, nextNumber: 1 })));
    for (const id of [0, 1]) {
      await triggers.reset(id, 1, 1);
      await triggers.scan(id, { epoch: 1, expectedHorizonMs: 0, fromMs: 0, horizonMs: HORIZON, build: 1 });
    }
  }

  async send(changes: readonly Change[]): Promise<void> {
    const producer = await this.stores.bus.producer();
    const messages = changes.map((change) => ({ partition: 0, key: change.key, value: encodeMessage(change) }));
    await producer.send([{ topic: TOPICS.changes, messages }]);
    await producer.close();
  }

  /** Lines of a bulk upload, checked and in messages as the API sends them; answers those that were refused. */
  async sendLines(operation: string, lines: readonly string[]): Promise<OperationError[]> {
    const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''));
    const task = { cluster: 'team', operation, atMs: NOON, changesPartitions: 1, calendars: [] };
    const { messages, errors } = checkLines({ ...task, bytes, firstLine: 1 });
    const producer = await this.stores.bus.producer();
    await producer.send([{ topic: TOPICS.changes, messages }]);
    await producer.close();
    return errors;
  }

  /** A new incarnation applies everything that is not committed, in batches of a size. Throws where it crashes. */
  async applyAll(batch = 1_000, crash?: Crash): Promise<void> {
    const records = (await readAll(this.stores.bus, TOPICS.changes, 0)).filter(
      ({ offset }) => offset >= this.committed,
    );
    const lane = await this.stores.bus.lane(`applier-${this.#incarnation++ % 1}`);
    const noted: typeof lane = {
      id: lane.id,
      close: () => lane.close(),
      commit: async (messages, offsets) => {
        await lane.commit(messages, offsets);
        this.committed = offsets![0]!.next;
      },
    };
    const wrap = <T extends object>(store: T): T => crash?.wrap(store) ?? store;
    const { jobs, catalog, shards, operations, triggers } = this.stores;
    const deps: ApplierDeps = {
      jobs: wrap(jobs),
      catalog: wrap(catalog),
      shards: wrap(shards),
      operations: wrap(operations),
      triggers: wrap(triggers),
      clock: this.clock,
      telemetry: silentTelemetry,
      slotsPerSet: SLOTS,
      answersPartitions: 1,
    };
    const applier = new Applier(deps);
    applier.open(0, wrap(noted));
    const { signal } = new AbortController();
    const holder = { generation: 1, member: 'm' };
    for (let from = 0; from < records.length; from += batch)
      await applier.apply({ partition: 0, records: records.slice(from, from + batch), signal, holder });
  }

  /** Everything that others can see, without the numbers of places, which depend on how often places were taken. */
  async seen(operation?: string) {
    const { bus, jobs, triggers, operations } = this.stores;
    const answers = (await readAll(bus, TOPICS.answers, 0)).map(({ value }) => decodeMessage<Answer>(value!));
    const fast: FastMessage[] = [];
    for (let partition = 0; partition < 2 * SLOTS; partition++) {
      for (const { value } of await readAll(bus, TOPICS.fast, partition))
        fast.push(decodeMessage<FastMessage>(value!)!);
    }
    const members = [];
    for (const shard of [0, 1]) members.push(await triggers.count(shard));
    const found = operation === undefined ? null : await operations.get('team', operation);
    return {
      committed: this.committed,
      jobs: (await jobs.list({ cluster: 'team', limit: 1_000 })).jobs.map(withoutPlace),
      members: members.reduce((sum, one) => sum + one.members, 0),
      fast: fast
        .map((message) => ({
          ...withoutPlace(message),
          record: readable(message.record),
          former: readable(message.former),
        }))
        .sort(byId),
      answers,
      counts: found?.counts,
      errors: found?.errors,
    };
  }
}

/** Without shard and number, in a job's replay too. */
function withoutPlace<T extends { shard: number; number: number }>({ shard: _, number: __, ...rest }: T) {
  if (!('replay' in rest)) return rest;
  const { left, former, ...replay } = rest.replay as NonNullable<Job['replay']>;
  const bare = left.map(({ shard: _s, number: _n, ...place }) => place);
  return { ...rest, replay: { ...replay, left: bare, former: former.map(({ record }) => record) } };
}

type Seen = Awaited<ReturnType<ApplierRun['seen']>>;

/** What owners were told, as `RESULT KEY`: which versions are told depends on where batches end. */
export function toldOf({ fast }: Seen): string[] {
  return fast.map(({ result, record, former }) => `${result} ${(record ?? former)?.key}`);
}

/** Jobs with a time up to H whose version no owner was told: they would never fire. */
export function untold({ fast, jobs }: Seen): string[] {
  const told = new Set(fast.map(({ record, version }) => `${record?.key} ${version}`));
  return jobs.flatMap(({ key, version, ...job }) => {
    const next = job.state === 'enabled' ? nextEffective({ key, ...job }, job.cutMs, new Calendars()) : null;
    return next !== null && next <= HORIZON && !told.has(`${key} ${version}`) ? [`${key} ${version}`] : [];
  });
}

function readable(record: string | null) {
  return record === null ? null : decodeRecord(Buffer.from(record, 'base64'));
}

function byId(a: object, b: object): number {
  return JSON.stringify(a) < JSON.stringify(b) ? -1 : 1;
}

export async function readAll(bus: Bus, topic: string, partition: number): Promise<BusRecord[]> {
  const reader = await bus.reader(topic, partition, 'first');
  const records: BusRecord[] = [];
  while (!(await reader.caughtUp())) records.push(...(await reader.read(0)));
  await reader.close();
  return records;
}
