/**
 * An installation for one run of a benchmark: servers of its own, in a folder that is removed at the end, and real processes
 * of each role. Servers come first, so that the raw limit of the broker is measured while nothing else runs.
 */
import { readFileSync, rmSync } from 'node:fs';
import { basename } from 'node:path';
import { type Cluster, type ClusterProcess, type Role, startCluster } from '../../deploy/local/cluster.ts';
import { runningServers } from '../../deploy/local/instance.ts';
import { isFree } from '../../deploy/local/ports.ts';
import { stopProcess } from '../../deploy/local/process.ts';
import type { JobState } from '../../src/core/job.ts';
import type { BulkItem } from '../../src/sdk/bulk.ts';
import { CarillonClient } from '../../src/sdk/index.ts';
import type { Watched } from '../measure/processes.ts';
import { type WorkerMetrics, workerMetrics } from '../measure/worker-metrics.ts';
import type { Options } from '../options.ts';
import { makeTopic, type TopicPlan } from './topic.ts';

export const CLUSTER = 'bench';
export const TOPIC = 'carillon.triggers.bench';

/** The broker's heap in MiB: batches of a second on the way, and caches; C2 compiles, as in production. */
const KAFKA_HEAP_MB = 1_024;
const REDIS_MB = 8_192;
/** Ports for the metrics of workers, below those that Linux gives to outgoing connections. */
const ADMIN_PORTS_FROM = 25_300;
const WORKER_STOP_MS = 10_000;

export interface Registered {
  seconds: number;
  per_s: number;
  counts: Record<string, number>;
}

export class Installation {
  readonly #cluster: Cluster;
  readonly #options: Options;
  readonly #workerUrls: string[] = [];
  readonly log: (line: string) => void;
  url = '';

  private constructor(cluster: Cluster, options: Options, log: (line: string) => void) {
    this.#cluster = cluster;
    this.#options = options;
    this.log = log;
  }

  /** Servers alone; `dir` keeps them beyond this life of the installation. */
  static async servers(options: Options, log: (line: string) => void, dir?: string): Promise<Installation> {
    const settings = { kafka: { heapMB: KAFKA_HEAP_MB, quickJit: false }, redis: { maxMemoryMB: REDIS_MB } };
    const cluster = await startCluster({
      servers: dir === undefined ? { temporary: true, settings } : { dir, settings },
      roles: { manager: 0, worker: 0, api: 0 },
      port: 0,
      env: { CARILLON_WHEELS: String(options.wheels) },
      log,
    });
    const installation = new Installation(cluster, options, log);
    process.once('exit', installation.#end);
    return installation;
  }

  /** A run that is cut short leaves neither processes nor its folder, which may hold many GB. */
  readonly #end = (): void => {
    for (const { pid } of this.watched()) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It has ended already.
      }
    }
    rmSync(this.servers.dir, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  };

  get broker(): string {
    return this.#cluster.servers.kafka.brokers[0]!;
  }

  get servers(): Cluster['servers'] {
    return this.#cluster.servers;
  }

  get processes(): readonly ClusterProcess[] {
    return this.#cluster.processes;
  }

  /** The trigger topic as it is asked for; raw measurements take the same plan with another name. */
  topicPlan(retentionBytes: number | null = null): TopicPlan {
    const { partitions, delivery, compression } = this.#options;
    return { name: TOPIC, partitions, brokerTime: delivery === 'at-least-once', compression, retentionBytes };
  }

  /** Manager, API and workers of an installation whose logical cluster is there already. */
  async resumeRoles(): Promise<CarillonClient> {
    await this.#cluster.start('manager');
    this.url = (await this.#cluster.start('api')).url ?? '';
    for (let i = 0; i < this.#options.workers; i += 1) await this.startWorker();
    this.log(`1 manager, 1 api, ${this.#options.workers} worker(s) ready`);
    return new CarillonClient({ url: this.url, cluster: CLUSTER });
  }

  /** Manager, API and workers, and the logical cluster of the benchmark with its topic. */
  async startRoles(retentionBytes: number | null = null): Promise<CarillonClient> {
    const client = await this.resumeRoles();
    const { partitions, envelope, delivery } = this.#options;
    await makeTopic(this.broker, this.topicPlan(retentionBytes));
    await client.clusters.create({ name: CLUSTER, topic: TOPIC, partitions, envelope, delivery });
    return client;
  }

  /** One more logical cluster with a topic of its own; answers its client. */
  async createCluster(name: string): Promise<CarillonClient> {
    const client = new CarillonClient({ url: this.url, cluster: name });
    const { partitions, envelope, delivery } = this.#options;
    const topic = `carillon.triggers.${name}`;
    await makeTopic(this.broker, { ...this.topicPlan(), name: topic });
    await client.clusters.create({ name, topic, partitions, envelope, delivery });
    return client;
  }

  async startWorker(): Promise<ClusterProcess> {
    const port = await freePort(ADMIN_PORTS_FROM + this.#workerUrls.length * 20);
    const worker = await this.#cluster.start('worker', { CARILLON_ADMIN_PORT: String(port) });
    this.#workerUrls.push(`http://127.0.0.1:${port}`);
    return worker;
  }

  /** Registers jobs by the bulk API; ends when all of them are applied. */
  async register(client: CarillonClient, lines: () => Iterable<BulkItem>): Promise<Registered> {
    const begun = performance.now();
    const operation = await client.jobs.bulk(lines);
    const taken = (performance.now() - begun) / 1_000;
    const done = await client.operations.wait(operation.key);
    const seconds = (performance.now() - begun) / 1_000;
    const { counts } = done;
    const total = Object.values(counts).reduce((sum, n) => sum + n, 0);
    if (counts.failed > 0) throw new Error(`jobs were refused: ${JSON.stringify(done.errors?.slice(0, 3))}`);
    this.log(
      `${total} jobs registered in ${seconds.toFixed(1)} s (in the topic after ${taken.toFixed(1)} s), ${Math.round(total / seconds)}/s`,
    );
    return { seconds, per_s: Math.round(total / seconds), counts: { ...counts } };
  }

  async workerMetrics(): Promise<WorkerMetrics> {
    return workerMetrics(this.#workerUrls);
  }

  /** Every process of the installation by name. */
  watched(): Watched[] {
    const servers = runningServers({ dir: this.servers.dir }).map(({ server, process }) => ({
      name: server,
      pid: process.pid,
    }));
    const seen: Record<Role, number> = { api: 0, manager: 0, worker: 0 };
    const roles = this.processes.map(({ role, identity }) => ({ name: `${role}-${seen[role]++}`, pid: identity.pid }));
    return [...servers, ...roles];
  }

  /** Ends the workers: what is in the log then stays as it is. */
  async stopWorkers(): Promise<void> {
    const workers = this.processes.filter(({ role }) => role === 'worker');
    await Promise.all(workers.map(({ identity }) => stopProcess(identity, WORKER_STOP_MS)));
  }

  /** Ends everything and removes its folder; tells what the processes warned of. */
  async stop(): Promise<void> {
    for (const { logFile } of this.processes) this.#tellWarnings(logFile);
    await this.#cluster.stop();
    process.off('exit', this.#end);
  }

  /** Each thing that a process warned of, once, with how often. */
  #tellWarnings(logFile: string): void {
    const lines = readFileSync(logFile, 'utf8').split('\n');
    const counts = new Map<string, { first: string; times: number }>();
    for (const line of lines) {
      if (line === '' || /"level":"(info|debug)"/.test(line)) continue;
      const what = /"msg":"([^"]*)"/.exec(line)?.[1] ?? line;
      const known = counts.get(what);
      if (known === undefined) counts.set(what, { first: line, times: 1 });
      else known.times += 1;
    }
    for (const { first, times } of counts.values()) {
      this.log(`${basename(logFile)}${times > 1 ? `, ${times} of` : ''}: ${first}`);
    }
  }
}

/** Jobs of the logical cluster by state, as the API answers them. */
export async function jobCounts(client: CarillonClient): Promise<Record<JobState, number>> {
  const view = (await client.clusters.get(CLUSTER)) as unknown as { jobs: Record<JobState, number> };
  return view.jobs;
}

async function freePort(from: number): Promise<number> {
  for (let port = from; port < from + 1_000; port += 1) if (await isFree(port)) return port;
  throw new Error(`no free port from ${from} on`);
}
