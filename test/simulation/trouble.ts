import type { Stores } from '../../src/ports/stores.ts';
import type { Faults, Server } from './faults.ts';
import type { Fleet, Running } from './fleet.ts';
import { type Shape, TRIGGER_PARTITIONS, topicsOf } from './installation.ts';
import type { Oracle } from './oracle.ts';
import type { ArmedCrash } from './process.ts';
import type { Random } from './random.ts';
import type { Replicated } from './replicated.ts';
import type { VirtualTime } from './virtual-time.ts';

export interface TroubleContext {
  random: Random;
  time: VirtualTime;
  fleet: Fleet;
  faults: Faults;
  stores: Stores;
  redis: Replicated;
  oracle: Oracle;
  shape: Shape;
  trace(text: string): void;
  /** Something is wrong now, and for so many ms. */
  disturbed(ms?: number): void;
}

const SERVERS: readonly Server[] = ['mongodb', 'redis', 'kafka'];
/** Calls at which a crash is most telling, by role. */
const CALLS: Record<string, readonly (string | null)[]> = {
  worker: [
    null,
    null,
    'send',
    'send',
    'commit',
    'commit',
    'commit',
    'scan',
    'claim',
    'writeBack',
    'writeBack',
    'lane',
    'read',
    'free',
    'removeFinished',
  ],
  api: [null, 'send', 'insertMany', 'replaceMany', 'add', 'add', 'commit', 'commit', 'takePlaces', 'getMany'],
  manager: [null, 'assign', 'free', 'endSession', 'lane', 'lead', 'setState', 'create'],
};

/** Everything that goes wrong, by the one source of chance. */
export class Trouble {
  readonly #context: TroubleContext;
  readonly #missing = new Set<string>();

  constructor(context: TroubleContext) {
    this.#context = context;
  }

  /** Something goes wrong. */
  strike(): void {
    const { random, shape } = this.#context;
    const kinds = [
      ...Array(5).fill(() => this.#armed()),
      ...Array(2).fill(() => this.#kill()),
      ...Array(2).fill(() => this.#stop()),
      ...Array(2).fill(() => this.#freeze()),
      ...Array(2).fill(() => this.#cut()),
      ...Array(2).fill(() => this.#setClock()),
      ...Array(2).fill(() => this.#slow()),
      ...Array(2).fill(() => this.#flaky()),
      () => this.#outage(),
      () => this.#scale(),
      () => this.#throwOut(),
      () => this.#loseTopic(),
      ...(shape.failovers > 0 ? [() => this.#failOver()] : []),
      ...(shape.shardsPerSlot > 0 ? Array(4).fill(() => this.#drain()) : []),
      ...(shape.losesRedis ? [() => this.#loseRedis()] : []),
    ] as (() => void)[];
    random.pick(kinds)();
  }

  /** What a fault has taken away for longer than itself is given back. */
  async mend(): Promise<void> {
    const { fleet, shape } = this.#context;
    Object.assign(fleet.wanted, { manager: shape.managers, worker: shape.workers, api: shape.apis });
    fleet.startAll();
    for (const topic of this.#missing) await this.#makeTopic(topic);
  }

  #someone(roles: readonly string[] = ['worker', 'worker', 'worker', 'api', 'api', 'manager']): Running | undefined {
    const { random, fleet } = this.#context;
    const role = random.pick(roles);
    const all = [...fleet.running].filter(({ process, started }) => process.role === role && started);
    return all.length === 0 ? undefined : random.pick(all);
  }

  #armed(): void {
    const { random } = this.#context;
    const one = this.#someone();
    if (one === undefined) return;
    const method = random.pick(CALLS[one.process.role]!);
    const calls = method === null ? random.int(0, 40) : random.int(0, 3);
    one.process.armed = { calls, when: random.pick<ArmedCrash['when']>(['before', 'sent', 'after', 'after']), method };
  }

  #kill(): void {
    this.#someone()?.process.crash('killed');
  }

  #stop(): void {
    const one = this.#someone();
    if (one !== undefined) this.#context.fleet.stop(one);
  }

  #freeze(): void {
    const { random, time, trace, disturbed } = this.#context;
    const one = this.#someone();
    if (one === undefined) return;
    const ms = random.pick([300, 1_200, 2_500, 6_000, 12_000]);
    one.process.frozenUntilMs = time.nowMs + ms;
    trace(`${one.process.name} is frozen for ${ms} ms`);
    disturbed(ms);
  }

  /** Somebody sets the clock of a process, and sets it back after a while. */
  #setClock(): void {
    const { random, time, trace } = this.#context;
    const one = this.#someone();
    if (one === undefined) return;
    const { process } = one;
    process.jumpMs = random.pick([-3_600_000, -300_000, -700, 700, 300_000, 3_600_000]);
    trace(`the clock of ${process.name} jumps by ${process.jumpMs} ms`);
    time.after(random.pick([30, 2_000, 20_000]), () => {
      process.jumpMs = 0;
    });
  }

  #cut(): void {
    const { random, faults, trace, disturbed } = this.#context;
    const one = this.#someone();
    if (one === undefined) return;
    const server = random.pick(SERVERS);
    const ms = random.pick([200, 1_000, 3_000, 8_000]);
    faults.cut(one.process, server, ms, random.pick(['request', 'answer', 'either']));
    trace(`${one.process.name} is cut off from ${server} for ${ms} ms`);
    disturbed(ms);
  }

  #slow(): void {
    const { random, faults, trace, disturbed } = this.#context;
    const one = this.#someone();
    if (one === undefined) return;
    const server = random.pick(SERVERS);
    const ms = random.pick([1_000, 4_000, 10_000]);
    const slowMs = random.pick([20, 200, 1_500]);
    faults.slowDown(one.process, server, ms, slowMs);
    trace(`${server} takes up to ${slowMs} ms for ${one.process.name}, for ${ms} ms`);
    disturbed(ms);
  }

  /** For a while part of all calls fails, with or without effect, and many take time. */
  #flaky(): void {
    const { random, faults, time, trace, disturbed } = this.#context;
    const ms = random.pick([1_000, 5_000]);
    faults.failing = random.pick([0.02, 0.1]);
    faults.slow = 0.5;
    faults.slowMostMs = random.pick([20, 300]);
    trace(`the network is bad for ${ms} ms`);
    disturbed(ms);
    time.after(ms, () => Object.assign(faults, { failing: 0, slow: 0.05, slowMostMs: 5 }));
  }

  #outage(): void {
    const { random, faults, time, trace, disturbed } = this.#context;
    const server = random.pick(SERVERS);
    const ms = random.pick([500, 2_000, 6_000, 14_000]);
    faults.downUntilMs[server] = time.nowMs + ms;
    if (server === 'redis') faults.connections += 1;
    trace(`${server} is away for ${ms} ms`);
    disturbed(ms);
  }

  /** A shard with jobs takes no more, and they move: as the manager asks it of one that is nearly empty. */
  #drain(): void {
    const { random, stores, trace } = this.#context;
    void stores.shards.shards().then((shards) => {
      const delivery = random.pick(shards).delivery;
      const open = shards.filter((one) => one.delivery === delivery && one.state === 'open');
      const full = open.filter(({ jobs }) => jobs > 0);
      // With fewer the manager would open it again at once.
      if (open.length < 3 || full.length === 0) return;
      const { id } = random.pick(full);
      trace(`shard ${id} is to be drained`);
      void stores.shards.setState(id, 'open', 'draining');
    });
  }

  /** A replica of Redis takes over that lacks the last writes. */
  #failOver(): void {
    const { random, redis } = this.#context;
    if (redis.failoversLeft > 0)
      this.#redisIsAnother(`a replica that lacks ${redis.failOver(random.int(0, 40))} writes`, null);
  }

  /** Redis loses one shard, or all that it had. */
  #loseRedis(): void {
    const { random, stores } = this.#context;
    void stores.shards.shards().then((shards) => {
      const lost = random.chance(0.5) ? shards : [random.pick(shards)];
      for (const { id } of lost) void stores.triggers.drop(id);
      this.#redisIsAnother(
        `without shards ${lost.map(({ id }) => id).join(', ')}`,
        lost.map(({ id }) => id),
      );
    });
  }

  #redisIsAnother(what: string, shards: readonly number[] | null): void {
    const { random, faults, oracle, time, trace, disturbed } = this.#context;
    const ms = random.pick([0, 300, 3_000]);
    trace(`redis is another one after ${ms} ms: ${what}`);
    faults.downUntilMs.redis = Math.max(faults.downUntilMs.redis, time.nowMs + ms);
    faults.connections += 1;
    oracle.redisForgot(shards);
    disturbed(ms);
  }

  /** More or fewer workers. */
  #scale(): void {
    const { random, fleet, trace } = this.#context;
    const workers = random.int(1, 3);
    trace(`${workers} workers are wanted`);
    fleet.wanted.worker = workers;
    fleet.startAll();
    for (const one of fleet.of('worker').slice(workers)) fleet.stop(one);
  }

  /** A group takes a living process for dead; it comes back after a while. */
  #throwOut(): void {
    const { random, time, trace, disturbed } = this.#context;
    const one = this.#someone(['api']);
    if (one === undefined) return;
    const ms = random.pick([10, 500, 4_000]);
    trace(`${one.process.name} is thrown out of its group for ${ms} ms`);
    disturbed(ms);
    for (const group of one.process.groups) group.throwOut(time.wait(ms));
  }

  /** A tenant's topic is deleted and made again. */
  #loseTopic(): void {
    const { random, time, stores, oracle, trace, disturbed, shape } = this.#context;
    const topic = random.pick([...topicsOf(shape).values()]);
    if (this.#missing.has(topic)) return;
    const ms = random.pick([500, 3_000, 13_000]);
    this.#missing.add(topic);
    trace(`${topic} is deleted for ${ms} ms`);
    disturbed(ms);
    oracle.topicMissing(topic, ms);
    void stores.bus.deleteTopics([topic]);
    time.after(ms, () => void this.#makeTopic(topic));
  }

  async #makeTopic(topic: string): Promise<void> {
    if (!this.#missing.delete(topic)) return;
    this.#context.trace(`${topic} is there again`);
    await this.#context.stores.bus.ensureTopics([{ name: topic, partitions: TRIGGER_PARTITIONS }]);
  }
}
