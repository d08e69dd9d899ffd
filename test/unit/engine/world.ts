import { expect } from 'vitest';
import { type ManualClock, manualClock } from '../../../src/adapters/memory/clock.ts';
import { memoryStores } from '../../../src/adapters/memory/stores.ts';
import type { Cluster, Delivery, Job, JobDefinition } from '../../../src/core/job.ts';
import {
  type Answer,
  type Cursor,
  decodeMessage,
  encodeMessage,
  type FastMessage,
} from '../../../src/core/messages.ts';
import { encodeRecord, recordOf } from '../../../src/core/record.ts';
import { compileSchedule } from '../../../src/core/schedule/schedule.ts';
import type { Schedule } from '../../../src/core/schedule/types.ts';
import { TOPICS } from '../../../src/core/topics.ts';
import { SlotRunner } from '../../../src/engine/firing/slot.ts';
import type { SlotOptions } from '../../../src/engine/firing/slot-state.ts';
import type { Bus, BusProducer } from '../../../src/ports/bus.ts';
import type { Stores } from '../../../src/ports/stores.ts';
import type { Labels, Telemetry } from '../../../src/ports/telemetry.ts';
import { LosingTriggers } from './losing-triggers.ts';

export const T0 = Date.UTC(2026, 11, 1);
export const SHARD = 0;

export interface Fired {
  id: string;
  key: string;
  partition: number;
  version: number;
  nominalMs: number;
  /** When the record was written. */
  atMs: number;
  payload: string;
}

/** Counts and events, so that a test can ask what was told. */
export class Told implements Telemetry {
  readonly counts = new Map<string, number>();
  readonly events: { level: string; message: string; fields: Record<string, unknown> }[] = [];
  readonly latenesses: { ms: number; n: number }[] = [];
  readonly gauges = new Map<string, number>();

  count(name: string, labels: Labels = {}, by = 1): void {
    for (const key of [name, `${name}/${labels['result'] ?? labels['reason'] ?? ''}`]) {
      this.counts.set(key, (this.counts.get(key) ?? 0) + by);
    }
  }
  gauge(name: string, value: number, labels: Labels = {}): void {
    this.gauges.set(`${name}/${labels['queue'] ?? ''}`, value);
  }
  lateness(ms: number, n: number): void {
    this.latenesses.push({ ms, n });
  }
  event(level: 'info' | 'warn' | 'error', message: string, fields: Record<string, unknown> = {}): void {
    this.events.push({ level, message, fields });
  }
  of(name: string): number {
    return this.counts.get(name) ?? 0;
  }
}

/**
 * One slot over memory stores and a clock that stands: the part of the API and the applier is played here, as simply as it
 * can be, so that what is tested is the owner of the slot.
 */
export class World {
  readonly clock: ManualClock;
  readonly stores: Stores;
  readonly triggers: LosingTriggers;
  readonly told = new Told();
  readonly delivery: Delivery;
  readonly jobs = new Map<string, Job>();
  producer!: BusProducer;
  trusted = true;
  /** Messages of the fast path that the applier has not committed yet, while `holding`: its effects are visible already. */
  readonly held: FastMessage[] = [];
  holding = false;
  private epoch = 0;
  private nextNumber = 1;
  private offset = 0;

  readonly partitions: number;

  private constructor(delivery: Delivery, startMs: number, partitions: number, bus: Bus | null) {
    this.delivery = delivery;
    this.partitions = partitions;
    this.clock = manualClock(startMs);
    this.triggers = new LosingTriggers(this.clock);
    this.stores = { ...memoryStores(this.clock), triggers: this.triggers.store };
    if (bus !== null) this.stores.bus = bus;
  }

  /** `bus`: another than that of memory, whose topics are its own. */
  static async open(
    delivery: Delivery,
    { startMs = T0, topic = true, partitions = 3, bus: own = null as Bus | null } = {},
  ): Promise<World> {
    const world = new World(delivery, startMs, partitions, own);
    const { bus, catalog, shards } = world.stores;
    await bus.ensureTopics([
      { name: TOPICS.fast, partitions: 2 },
      { name: TOPICS.progress, partitions: 2, compacted: true },
      { name: TOPICS.cursors, partitions: 2, compacted: true },
      { name: TOPICS.answers, partitions: 1 },
    ]);
    await world.cluster('c', topic);
    await shards.create([world.shard(SHARD)]);
    await world.makeWhole(SHARD);
    await catalog.clusters();
    world.producer = await bus.producer();
    return world;
  }

  shard(id: number) {
    const { delivery } = this;
    const state = 'new' as const;
    return { id, delivery, slot: 0, state, jobs: 0, nextNumber: 1, triggersPerSecond: 0, saturated: false };
  }

  /** As after the first owner of a shard: it is whole, and H is 0. */
  async makeWhole(shard: number): Promise<void> {
    const { triggers } = this.stores;
    await triggers.reset(shard, 0, 1);
    await triggers.scan(shard, { epoch: 0, expectedHorizonMs: 0, fromMs: 0, horizonMs: 0, build: 1 });
  }

  async cluster(name: string, topic = true): Promise<void> {
    const cluster: Cluster = {
      name,
      topic: `t.${name}`,
      partitions: this.partitions,
      envelope: 'cloudevents',
      delivery: this.delivery,
      createdMs: T0,
    };
    await this.stores.catalog.createCluster(cluster);
    if (topic) await this.makeTopic(name);
  }

  makeTopic(cluster = 'c'): Promise<void> {
    return this.stores.bus.ensureTopics([{ name: `t.${cluster}`, partitions: this.partitions }]);
  }

  get nowMs(): number {
    return this.clock.wallMs();
  }

  runner(more: Partial<SlotOptions> = {}): SlotRunner {
    this.epoch += 1;
    return new SlotRunner({
      stores: this.stores,
      clock: this.clock,
      telemetry: this.told,
      installation: { id: 'i', slotsPerSet: 1 },
      delivery: this.delivery,
      slot: 0,
      epoch: this.epoch,
      incarnation: `w${this.epoch}`,
      producer: this.producer,
      misfireAfterMs: 10_000,
      trusted: () => this.trusted,
      ...more,
    });
  }

  async adopted(more: Partial<SlotOptions> = {}): Promise<SlotRunner> {
    const runner = this.runner(more);
    await this.through(runner.adopt());
    return runner;
  }

  /** Waits for a step that may sleep for no time. */
  async through<T>(step: Promise<T>): Promise<T> {
    let over = false;
    const end = step.finally(() => {
      over = true;
    });
    end.catch(() => {});
    while (!over) await this.clock.advance(0);
    return await end;
  }

  /** One round of every loop of a worker. */
  async round(runner: SlotRunner): Promise<void> {
    await this.through(runner.readFast(0));
    await this.through(runner.scan(this.nowMs));
    while (await this.through(runner.rebuild()));
    while (await this.through(runner.reconcile()));
    while (runner.tick(this.nowMs) > 0) await runner.settled();
    await runner.commitProgress();
    await this.through(runner.flushWriteBacks());
    await runner.recordFinished();
    await runner.checkTopics();
  }

  /** Lets time pass in steps, with a round after each. */
  async run(runner: SlotRunner, ms: number, stepMs = 10): Promise<void> {
    const endMs = this.nowMs + ms;
    while (this.nowMs < endMs) {
      await this.clock.advance(Math.min(stepMs, endMs - this.nowMs));
      await this.round(runner);
    }
  }

  /** Makes a job, or a new version of one, from now on (or from `cutMs` on), as the applier would. */
  async put(
    key: string,
    fields: { schedule: Schedule } & Partial<JobDefinition & Pick<Job, 'state' | 'cutMs' | 'shard' | 'cluster'>>,
    { reply = false } = {},
  ): Promise<Job> {
    const before = this.jobs.get(key);
    const cutMs = fields.cutMs ?? this.nowMs;
    this.offset += 1;
    const job: Job = {
      cluster: 'c',
      bounds: {},
      misfire: { mode: 'once' },
      payload: `payload of ${key}`,
      contentType: 'text/plain',
      state: 'enabled',
      shard: SHARD,
      ...fields,
      key,
      version: (before?.version ?? 0) + 1,
      number: before?.number ?? this.nextNumber++,
      createdMs: before?.createdMs ?? cutMs,
      updatedMs: this.nowMs,
      cutMs,
      position: { partition: 0, offset: this.offset },
      lastChange: { id: `r${this.offset}`, result: before === undefined ? 'created' : 'updated' },
    };
    this.jobs.set(key, job);
    await this.write(before, job, reply);
    return job;
  }

  async change(key: string, fields: Partial<Job>, options = {}): Promise<Job> {
    const { schedule, bounds, misfire, payload, state, shard, cluster } = this.jobs.get(key)!;
    return await this.put(key, { schedule, bounds, misfire, payload, state, shard, cluster, ...fields }, options);
  }

  async delete(key: string, { reply = false, cutMs = this.nowMs } = {}): Promise<void> {
    const before = this.jobs.get(key)!;
    this.offset += 1;
    const position = { partition: 0, offset: this.offset };
    const job: Job = { ...before, version: before.version + 1, cutMs, deleted: true, position };
    this.jobs.delete(key);
    await this.write(before, job, reply);
  }

  async fire(key: string, requestKey: string): Promise<void> {
    const job = this.jobs.get(key)!;
    await this.tell(job, { fire: { requestKey, nominalMs: this.nowMs } }, job);
  }

  /** The first effective time after the cut, or null. */
  private score(job: Job): number | null {
    if (job.deleted === true || job.state !== 'enabled') return null;
    const compiled = compileSchedule(job.schedule, job.bounds, { key: job.key, createdMs: job.createdMs });
    const next = compiled.next(job.cutMs - compiled.offsetMs);
    return next < 0 ? null : next + compiled.offsetMs;
  }

  private async write(before: Job | undefined, job: Job, reply: boolean): Promise<void> {
    const { jobs } = this.stores;
    // A deleted job stands as a tombstone.
    const stored = before ?? (await jobs.get(job.cluster, job.key));
    if (stored === null) {
      await jobs.insertMany([job]);
    } else {
      const expected = { version: stored.version, offset: stored.position.offset };
      expect(await jobs.replaceMany([{ job, expected }])).toEqual([true]);
    }
    const record = job.deleted === true ? null : encodeRecord(recordOf(job));
    const change = { number: job.number, version: job.version, score: this.score(job), cutMs: job.cutMs, record };
    const [result] = await this.stores.triggers.add(job.shard, [change]);
    if (result!.reachesOwner) await this.tell(job, reply ? { replyTo: 'api' } : {}, before);
  }

  private async tell(job: Job, more: Partial<FastMessage>, before: Job | undefined): Promise<void> {
    const base64 = (one: Job | undefined): string | null =>
      one === undefined || one.deleted === true ? null : Buffer.from(encodeRecord(recordOf(one))).toString('base64');
    const message: FastMessage = {
      v: 1,
      id: job.lastChange.id,
      shard: job.shard,
      number: job.number,
      version: job.version,
      cutMs: job.cutMs,
      score: this.score(job),
      record: base64(job),
      former: base64(before),
      result: job.lastChange.result,
      ...more,
    };
    this.held.push(message);
    if (!this.holding) await this.commitHeld();
  }

  /** The applier commits what it held back, in order. */
  async commitHeld(): Promise<void> {
    this.holding = false;
    const partition = this.delivery === 'exactly-once' ? 1 : 0;
    const messages = this.held.splice(0).map((message) => ({ partition, key: null, value: encodeMessage(message) }));
    if (messages.length > 0) await this.producer.send([{ topic: TOPICS.fast, messages }]);
  }

  /** Every record of the trigger topic of a cluster, by time of writing. */
  async fired(cluster = 'c'): Promise<Fired[]> {
    const all: Fired[] = [];
    for (let partition = 0; partition < this.partitions; partition += 1) {
      for (const { key, value, headers, timestampMs } of await this.read(`t.${cluster}`, partition)) {
        all.push({
          id: headers['ce_id']!,
          key: key!,
          partition,
          version: Number(headers['ce_jobversion']),
          nominalMs: Date.parse(headers['ce_time']!),
          atMs: timestampMs,
          payload: Buffer.from(value!).toString('utf8'),
        });
      }
    }
    return all.sort((a, b) => a.atMs - b.atMs);
  }

  async timesOf(key: string, cluster = 'c'): Promise<number[]> {
    return (await this.fired(cluster)).filter((one) => one.key === key).map((one) => one.nominalMs);
  }

  async answers(): Promise<Answer[]> {
    return (await this.read(TOPICS.answers, 0)).map(({ value }) => decodeMessage<Answer>(value!)!);
  }

  /** Cursors that stand, by key. */
  async cursors(): Promise<Map<string, Cursor>> {
    const standing = new Map<string, Cursor>();
    for (const { key, value } of await this.read(TOPICS.cursors, this.delivery === 'exactly-once' ? 1 : 0)) {
      if (key === 'adopt') continue;
      if (value === null) standing.delete(key!);
      else standing.set(key!, decodeMessage<Cursor>(value)!);
    }
    return standing;
  }

  private async read(topic: string, partition: number) {
    const reader = await this.stores.bus.reader(topic, partition, 'first');
    const records = [];
    while (!(await reader.caughtUp('written'))) records.push(...(await reader.read(0, 10_000)));
    await reader.close();
    return records;
  }
}

/** Times from one to another, both inclusive, in steps. */
export function every(stepMs: number, fromMs: number, toMs: number): number[] {
  const times = [];
  for (let at = fromMs; at <= toMs; at += stepMs) times.push(at);
  return times;
}

export function rate(everyMs: number, anchorMs = T0): Schedule {
  return { kind: 'rate', everyMs, anchorMs };
}

export function once(atMs: number): Schedule {
  return { kind: 'once', atMs };
}
