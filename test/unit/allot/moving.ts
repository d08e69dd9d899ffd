import { expect } from 'vitest';
import { type ManualClock, manualClock } from '../../../src/adapters/memory/clock.ts';
import { memoryStores } from '../../../src/adapters/memory/stores.ts';
import type { Delivery } from '../../../src/core/job.ts';
import { type Change, type ChangeAction, encodeMessage } from '../../../src/core/messages.ts';
import { TOPICS } from '../../../src/core/topics.ts';
import type { Leader } from '../../../src/engine/allot/leader.ts';
import { Mover, type MoveTimes } from '../../../src/engine/allot/move.ts';
import { Applier } from '../../../src/engine/apply.ts';
import { SlotRunner } from '../../../src/engine/firing/slot.ts';
import type { Bus, BusProducer } from '../../../src/ports/bus.ts';
import type { Shard } from '../../../src/ports/shard-store.ts';
import type { Stores } from '../../../src/ports/stores.ts';
import { type Crash, readAll } from '../change/applier-run.ts';
import { T0, Told } from '../engine/world.ts';

export const SLOTS = 2;
const CLUSTER = { name: 'c', topic: 't.c', partitions: 2, envelope: 'cloudevents', createdMs: T0 } as const;

/** What works while time passes. */
export interface Parts {
  applier?: boolean;
  mover?: boolean;
  deaf?: boolean;
}

export interface Published {
  id: string;
  key: string;
  nominalMs: number;
  atMs: number;
}

/**
 * An installation in memory whose parts are stepped one by one and may die at any call: the applier and the mover are the
 * real ones and die at a call to a store, the two owners drop their slots.
 */
export class Moving {
  readonly clock: ManualClock = manualClock(T0);
  readonly stores: Stores = memoryStores(this.clock);
  readonly told = new Told();
  readonly delivery: Delivery;
  readonly times: MoveTimes;
  readonly owners: (SlotRunner | null)[] = [null, null];
  /** Offset of the first change that is not committed. */
  committed = 0;
  applierCrashes = 0;
  #epoch = 0;
  #ids = 0;
  #applier: Applier | null = null;
  #mover: Mover | null = null;
  #producer!: BusProducer;

  constructor(delivery: Delivery, times: MoveTimes) {
    this.delivery = delivery;
    this.times = times;
  }

  get nowMs(): number {
    return this.clock.wallMs();
  }

  async open(): Promise<void> {
    const { bus, catalog } = this.stores;
    await bus.ensureTopics([
      { name: TOPICS.changes, partitions: 1 },
      { name: TOPICS.answers, partitions: 1 },
      { name: TOPICS.fast, partitions: 2 * SLOTS },
      { name: TOPICS.progress, partitions: 2 * SLOTS, compacted: true },
      { name: TOPICS.cursors, partitions: 2 * SLOTS, compacted: true },
      { name: CLUSTER.topic, partitions: CLUSTER.partitions },
    ]);
    await catalog.createCluster({ ...CLUSTER, delivery: this.delivery });
    this.#producer = await bus.producer();
    await this.shard(1, 0);
    for (const slot of [0, 1]) await this.adopt(slot);
  }

  async shard(id: number, slot: number): Promise<void> {
    const shard: Shard = {
      id,
      delivery: this.delivery,
      slot,
      state: 'new',
      jobs: 0,
      nextNumber: 1,
      triggersPerSecond: 0,
      saturated: false,
    };
    await this.stores.shards.create([shard]);
  }

  async adopt(slot: number): Promise<void> {
    this.#epoch += 1;
    const runner = new SlotRunner({
      stores: this.stores,
      clock: this.clock,
      telemetry: this.told,
      installation: { id: 'i', slotsPerSet: SLOTS },
      delivery: this.delivery,
      slot,
      epoch: this.#epoch,
      incarnation: `w${this.#epoch}`,
      producer: this.#producer,
      misfireAfterMs: 10_000,
      trusted: () => true,
    });
    await this.#through(runner.adopt());
    expect(runner.phase).toBe('running');
    this.owners[slot] = runner;
  }

  /** The owner dies; `midway` says how far it had come in its last round. */
  async crashOwner(slot: number, midway: number): Promise<void> {
    const runner = this.owners[slot];
    if (runner == null) return;
    if (midway > 0) await this.#through(runner.readFast(0));
    if (midway > 1) runner.tick(this.nowMs);
    if (midway > 2) await runner.settled();
    if (midway > 3) await this.#through(runner.flushWriteBacks());
    runner.drop('crash');
    this.owners[slot] = null;
  }

  async send(key: string, action: ChangeAction): Promise<void> {
    const change: Change = { v: 1, id: `c${this.#ids++}`, cluster: CLUSTER.name, key, atMs: this.nowMs, action };
    await this.#producer.send([
      { topic: TOPICS.changes, messages: [{ partition: 0, key, value: encodeMessage(change) }] },
    ]);
  }

  /** Applies what is in the topic, in batches; where the applier dies another goes on at once. */
  async apply(batch = 1_000, crash?: Crash): Promise<void> {
    try {
      await this.#applyAll(batch, crash);
    } catch (error) {
      if (!String(error).includes('crash')) throw error;
      this.applierCrashes += 1;
      this.#applier = null;
      await this.#applyAll(batch);
    }
    if (crash !== undefined) this.#applier = null;
  }

  /** The applier dies, and nobody goes on until `apply` is called. */
  async applyUntilCrash(crash: Crash): Promise<void> {
    this.#applier = null;
    await this.#applyAll(1_000, crash).catch((error: unknown) => {
      if (!String(error).includes('crash')) throw error;
      this.applierCrashes += 1;
    });
    this.#applier = null;
  }

  async #applyAll(batch: number, crash?: Crash): Promise<void> {
    const all = await readAll(this.stores.bus, TOPICS.changes, 0);
    const records = all.filter(({ offset }) => offset >= this.committed);
    if (records.length === 0) return;
    const wrap = <T extends object>(store: T): T => crash?.wrap(store) ?? store;
    if (crash !== undefined) this.#applier = null;
    this.#applier ??= await this.#newApplier(wrap);
    const { signal } = new AbortController();
    const holder = { generation: 1, member: 'm' };
    for (let from = 0; from < records.length; from += batch) {
      const part = records.slice(from, from + batch);
      await this.#through(this.#applier.apply({ partition: 0, records: part, signal, holder }));
    }
  }

  async #newApplier(wrap: <T extends object>(store: T) => T): Promise<Applier> {
    const lane = await this.stores.bus.lane('applier');
    const noted: typeof lane = {
      id: lane.id,
      close: () => lane.close(),
      commit: async (messages, offsets) => {
        await lane.commit(messages, offsets);
        this.committed = offsets![0]!.next;
      },
    };
    const { jobs, catalog, shards, operations, triggers } = this.stores;
    const applier = new Applier({
      jobs: wrap(jobs),
      catalog: wrap(catalog),
      shards: wrap(shards),
      operations: wrap(operations),
      triggers: wrap(triggers),
      clock: this.clock,
      telemetry: this.told,
      slotsPerSet: SLOTS,
      answersPartitions: 1,
    });
    applier.open(0, wrap(noted));
    return applier;
  }

  /** One round of the mover, which dies at a call and is followed by a new one. */
  async move(crash?: Crash): Promise<void> {
    if (crash === undefined) this.#mover ??= this.#newMover();
    const mover = crash === undefined ? this.#mover! : this.#newMover(crash);
    try {
      await mover.run();
    } catch (error) {
      if (!String(error).includes('crash')) throw error;
    }
    if (crash === undefined) return;
    await this.#mover?.close();
    this.#mover = null;
  }

  #newMover(crash?: Crash): Mover {
    const wrap = <T extends object>(store: T): T => crash?.wrap(store) ?? store;
    const { bus, jobs, shards, leases, signals } = this.stores;
    return new Mover(
      {
        stores: { bus: withProducer(wrap(bus), wrap), jobs: wrap(jobs), shards: wrap(shards), leases, signals },
        clock: this.clock,
        telemetry: this.told,
        installation: { id: 'i', slotsPerSet: SLOTS, lanesPerSlot: 1 },
        deliveries: [this.delivery],
      },
      { trusted: () => true } as Leader,
      this.times,
    );
  }

  /** The owners that live read what they are told. */
  async tell(): Promise<void> {
    for (const runner of this.owners) if (runner !== null) await this.#through(runner.readFast(0));
  }

  /** One round of every loop of the owners that live; deaf ones do not read what they are told. */
  async fire(deaf = false): Promise<void> {
    for (const runner of this.owners) {
      if (runner === null) continue;
      await this.#through(runner.syncShards(this.nowMs));
      if (!deaf) await this.#through(runner.readFast(0));
      // A shard whose copy no progress names is made whole first, as after the death of its first owner.
      while (await this.#through(runner.rebuild()));
      await this.#through(runner.scan(this.nowMs));
      while (runner.tick(this.nowMs) > 0) await runner.settled();
      await runner.commitProgress();
      await this.#through(runner.flushWriteBacks());
      await runner.recordFinished();
    }
  }

  /** Lets time pass, with rounds of what lives after each step. */
  async run(ms: number, stepMs: number, parts: Parts = {}): Promise<void> {
    const { applier = true, mover = true, deaf = false } = parts;
    const endMs = this.nowMs + ms;
    while (this.nowMs < endMs) {
      await this.clock.advance(Math.min(stepMs, endMs - this.nowMs));
      if (applier) await this.apply();
      await this.fire(deaf);
      if (mover) await this.move();
    }
  }

  async published(): Promise<Published[]> {
    const all: Published[] = [];
    for (let partition = 0; partition < CLUSTER.partitions; partition += 1) {
      for (const { key, headers, timestampMs } of await readAll(this.stores.bus, CLUSTER.topic, partition)) {
        all.push({ id: headers['ce_id']!, key: key!, nominalMs: Date.parse(headers['ce_time']!), atMs: timestampMs });
      }
    }
    return all;
  }

  async close(): Promise<void> {
    await this.#mover?.close();
  }

  async #through<T>(step: Promise<T>): Promise<T> {
    let over = false;
    const end = step.finally(() => {
      over = true;
    });
    end.catch(() => {});
    while (!over) await this.clock.advance(0);
    return await end;
  }
}

/** A bus whose producers may crash as well. */
function withProducer(bus: Bus, wrap: <T extends object>(one: T) => T): Bus {
  return new Proxy(bus, {
    get: (target, name) => {
      if (name === 'producer') return async () => wrap(await target.producer());
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
