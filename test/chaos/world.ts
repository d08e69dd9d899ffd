/** Real servers and processes of one stage of the suite, and what faults ask of them. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Admin } from '@platformatic/kafka';
import { type Db, MongoClient } from 'mongodb';
import { type Cluster, type ClusterProcess, type Role, startCluster } from '../../deploy/local/cluster.ts';
import { type StartOptions, serverProcesses } from '../../deploy/local/instance.ts';
import { HOST } from '../../deploy/local/ports.ts';
import { isAlive, signalProcess, stopProcess } from '../../deploy/local/process.ts';
import { CarillonClient } from '../../src/sdk/index.ts';
import { LONG_MS } from './load.ts';
import { TcpProxy } from './proxy.ts';
import type { Reading } from './reading.ts';
import type { Judging } from './result.ts';

export const CLUSTER = 'chaos';
export const TOPIC = 'carillon.triggers.chaos';
export const PARTITIONS = 8;
export type Delivery = 'exactly-once' | 'at-least-once';

const GRACE_MS = 10_000;
const LOOK_MS = 20;
/** Nothing that a fault waits for takes this long; then it has failed. */
const PATIENCE_MS = 120_000;

export interface WorldOptions {
  servers: Pick<StartOptions, 'settings' | 'diskMiB'>;
  /** Whether there is a proxy before each server, for workers that are far. */
  proxied: boolean;
  /** Of the fault that pours them. */
  oneShotsPerSecond: number;
  /** The first that is accepted is taken. */
  deliveries: readonly Delivery[];
  random: () => number;
  /** Told what happens, a line each. */
  log: (line: string) => void;
  /** Shortens the long waits of the table (60 s, 30 s) by this factor, from 0 to 1. */
  scale: number;
  /** As `Judging` has it. */
  slack: number;
}

export class World {
  readonly cluster: Cluster;
  readonly client: CarillonClient;
  readonly delivery: Delivery;
  readonly options: WorldOptions;
  readonly db: Db;
  /** Before MongoDB, Redis and Kafka; empty where the stage has none. */
  readonly proxies: readonly TcpProxy[];
  readonly #mongo: MongoClient;
  readonly #clocks: string;
  readonly #far = new Set<ClusterProcess>();
  #reading: Reading | null = null;
  readonly #endings: (() => void)[] = [];
  /** When the fault began, UTC ms; set by `stroke`. */
  struckMs = 0;

  private constructor(
    cluster: Cluster,
    client: CarillonClient,
    delivery: Delivery,
    proxies: readonly TcpProxy[],
    clocks: string,
    options: WorldOptions,
  ) {
    this.cluster = cluster;
    this.client = client;
    this.delivery = delivery;
    this.proxies = proxies;
    this.#clocks = clocks;
    this.options = options;
    this.#mongo = new MongoClient(cluster.servers.mongodb.uri, { serverSelectionTimeoutMS: 60_000 });
    this.db = this.#mongo.db('carillon');
  }

  static async begin(options: WorldOptions): Promise<World> {
    const { servers, log } = options;
    const proxies = options.proxied ? await Promise.all([TcpProxy.listen(), TcpProxy.listen(), TcpProxy.listen()]) : [];
    const kafka = options.proxied
      ? { ...servers.settings?.kafka, proxyPort: proxies[2]!.port }
      : servers.settings?.kafka;
    const clocks = mkdtempSync(join(tmpdir(), 'carillon-clocks-'));
    const cluster = await startCluster({
      servers: { temporary: true, small: true, ...servers, settings: { ...servers.settings, ...(kafka && { kafka }) } },
      roles: { manager: 2, worker: 2, api: 1 },
      port: 0,
      // What a fault holds up is late, however long it takes, and not given up: so that late and lost are told apart.
      env: { CARILLON_MISFIRE_AFTER_MS: '3600000', CARILLON_TEST_CLOCKS: clocks },
      log,
    });
    try {
      await makeTopic(cluster.servers.kafka.brokers);
      const client = new CarillonClient({ url: cluster.url, cluster: CLUSTER });
      const delivery = await createCluster(client, options.deliveries);
      return new World(cluster, client, delivery, proxies, clocks, options);
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  get judging(): Judging {
    return { delivery: this.delivery, slack: this.options.slack };
  }

  get which(): { dir: string } {
    return { dir: this.cluster.servers.dir };
  }

  get random(): () => number {
    return this.options.random;
  }

  /** One of a list, by the seed. */
  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.random() * list.length)]!;
  }

  /** The instant of the fault: lateness and recovery count from the first one of a fault. */
  stroke(what: string): void {
    if (this.struckMs === 0) this.struckMs = Date.now();
    this.options.log(`  ${what}`);
  }

  /** A wait of the table, in ms, as the scale has it; never below 3 s, within which deaths are noticed. */
  async long(ms: number): Promise<void> {
    await sleep(Math.max(Math.min(ms, 3_000), ms * this.options.scale));
  }

  /** Ends when every job was due once more: what the trigger store has lost shows only then. */
  async oneRound(): Promise<void> {
    await sleep(LONG_MS + 2_000);
  }

  living(role: Role): ClusterProcess[] {
    return this.cluster.processes.filter((one) => one.role === role && isAlive(one.identity));
  }

  async kill(one: ClusterProcess): Promise<void> {
    this.stroke(`kill -9 of ${one.role} ${one.identity.pid}`);
    await stopProcess(one.identity, 0);
  }

  /** SIGTERM; ends when the process is gone. @throws when that took longer than the 10 s of the promise */
  async end(one: ClusterProcess): Promise<void> {
    this.stroke(`SIGTERM to ${one.role} ${one.identity.pid}`);
    const begun = performance.now();
    await stopProcess(one.identity, 3 * GRACE_MS);
    const ms = Math.round(performance.now() - begun);
    if (ms > GRACE_MS) throw new Error(`${one.role} took ${ms} ms to end, more than ${GRACE_MS}`);
  }

  freeze(one: ClusterProcess): void {
    this.stroke(`SIGSTOP to ${one.role} ${one.identity.pid}`);
    signalProcess(one.identity, 'SIGSTOP');
  }

  thaw(one: ClusterProcess): void {
    this.options.log(`  SIGCONT to ${one.role} ${one.identity.pid}`);
    signalProcess(one.identity, 'SIGCONT');
  }

  async start(role: Role, env?: Record<string, string>): Promise<ClusterProcess> {
    return await this.cluster.start(role, env);
  }

  /** A worker that reaches the servers through the proxies alone. */
  async startFar(): Promise<ClusterProcess> {
    const ports = Object.fromEntries(serverProcesses(this.which).map(({ name, ports }) => [name, ports]));
    const targets = [ports['mongodb']![0]!, ports['redis']![0]!, ports['kafka']![2]!];
    for (const [i, proxy] of this.proxies.entries()) proxy.targetPort = targets[i]!;
    const [mongodb, redis, kafka] = this.proxies.map(({ port }) => `${HOST}:${port}`);
    const far = await this.start('worker', {
      // The members of the set would be called by their own addresses, past the proxy.
      CARILLON_MONGODB_URI: `mongodb://${mongodb}/?directConnection=true`,
      CARILLON_REDIS_URL: `redis://${redis}`,
      CARILLON_KAFKA_BROKERS: kafka!,
    });
    this.#far.add(far);
    return far;
  }

  isFar(one: ClusterProcess): boolean {
    return this.#far.has(one);
  }

  /** Adds so many ms to the wall clock of a process, from now on. */
  stepClock({ identity }: ClusterProcess, ms: number): void {
    writeFileSync(join(this.#clocks, String(identity.pid)), String(ms));
  }

  /** What the reader has seen. */
  get reading(): Reading {
    if (this.#reading === null) throw new Error('nobody reads yet');
    return this.#reading;
  }

  set reading(reading: Reading) {
    this.#reading = reading;
  }

  /** The name of a process's session; null while it has none. */
  async incarnationOf({ identity }: ClusterProcess): Promise<string | null> {
    const session = await this.db.collection('sessions').findOne({ pid: identity.pid });
    return session === null ? null : String(session._id);
  }

  /** Slots of the delivery in use, by owner. */
  async owners(): Promise<Map<string | null, number>> {
    const leases = await this.db.collection('leases').find({ delivery: this.delivery }).toArray();
    const owners = leases.map((lease) => (lease['owner'] as string | null) ?? null);
    return new Map([...Map.groupBy(owners, (owner) => owner)].map(([owner, list]) => [owner, list.length]));
  }

  /** Sum of the epochs of all slots: it rises by one with each assignment. */
  async assignments(): Promise<number> {
    const leases = await this.db.collection('leases').find({ delivery: this.delivery }).toArray();
    return leases.reduce((sum, lease) => sum + Number(lease['epoch']), 0);
  }

  /** Waits until it holds; what is asked meanwhile may fail. */
  async until(what: string, holds: () => Promise<boolean>, patienceMs = PATIENCE_MS): Promise<void> {
    const end = performance.now() + patienceMs;
    let reason: unknown = '';
    while (performance.now() < end) {
      try {
        if (await holds()) return;
      } catch (error) {
        reason = error;
      }
      await sleep(LOOK_MS);
    }
    throw new Error(`it did not come to be within ${patienceMs / 1_000} s that ${what} ${String(reason)}`);
  }

  async untilOwns(worker: ClusterProcess, atLeast = 1): Promise<void> {
    await this.until(`worker ${worker.identity.pid} has ${atLeast} slots`, async () => {
      const name = await this.incarnationOf(worker);
      return name !== null && ((await this.owners()).get(name) ?? 0) >= atLeast;
    });
  }

  /** Two of each role again, every slot with a living owner, and no worker without slots. */
  async whole(): Promise<void> {
    for (const role of ['manager', 'worker'] as const) {
      while (this.living(role).length < 2) await this.start(role);
    }
    if (this.living('api').length === 0) await this.start('api');
    await this.until('all slots have living owners, and all workers have slots', async () => {
      const names = await Promise.all(this.living('worker').map((one) => this.incarnationOf(one)));
      const owners = await this.owners();
      return (
        names.every((name) => name !== null && owners.has(name)) && [...owners.keys()].every((o) => names.includes(o))
      );
    });
  }

  /** What else is to be ended with this world. */
  atEnd(end: () => void): void {
    this.#endings.push(end);
  }

  async stop(): Promise<void> {
    this.#reading?.stop();
    for (const end of this.#endings) end();
    await this.#mongo.close();
    // One that is frozen does not hear of a SIGTERM.
    for (const { identity } of this.cluster.processes) signalProcess(identity, 'SIGCONT');
    await this.cluster.stop();
    for (const proxy of this.proxies) proxy.close();
    rmSync(this.#clocks, { recursive: true });
  }
}

/** The topic is made beforehand, since its times must be the broker's: the worker's clock is not the judge. */
async function makeTopic(brokers: readonly string[]): Promise<void> {
  const admin = new Admin({ clientId: 'chaos', bootstrapBrokers: [...brokers] });
  const configs = [
    { name: 'message.timestamp.type', value: 'LogAppendTime' },
    { name: 'retention.bytes', value: String(256 * 1024 * 1024) },
  ];
  try {
    await admin.createTopics({ topics: [TOPIC], partitions: PARTITIONS, replicas: brokers.length, configs });
  } finally {
    await admin.close();
  }
}

async function createCluster(client: CarillonClient, deliveries: readonly Delivery[]): Promise<Delivery> {
  let refused: unknown;
  for (const delivery of deliveries) {
    try {
      await client.clusters.create({ name: CLUSTER, topic: TOPIC, partitions: PARTITIONS, delivery });
      return delivery;
    } catch (error) {
      if ((error as { code?: string }).code !== 'delivery-unsupported') throw error;
      refused = error;
    }
  }
  throw refused;
}
