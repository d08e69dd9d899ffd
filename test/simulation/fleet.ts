import { randomUUID } from 'node:crypto';
import { startManager } from '../../shard-manager/manager.ts';
import { applierService } from '../../src/management/applier-process.ts';
import { Changes } from '../../src/management/changes.ts';
import type { Installation } from '../../src/ports/catalog-store.ts';
import type { Stores } from '../../src/ports/stores.ts';
import { silentTelemetry, type Telemetry } from '../../src/ports/telemetry.ts';
import { inOrder, type Service } from '../../src/runtime/service.ts';
import { startWorker } from '../../trigger-worker/worker.ts';
import { type FaultyContext, faultyStores } from './faulty-stores.ts';
import type { Shape } from './installation.ts';
import { type Role, SimProcess } from './process.ts';

export interface FleetContext extends FaultyContext {
  shape: Shape;
  stores: Stores;
  installation: Installation;
  stretch(ms: number, process: SimProcess): number;
  trace(text: string): void;
  disturbed(): void;
}

export interface Running {
  process: SimProcess;
  service: Service;
  changes: Changes | null;
  /** It takes part: its start has ended. */
  started: boolean;
}

/** How long a process may take to end in order, in ms, before it is killed. */
const STOP_MS = 10_000;

/** The processes of an installation: each runs the real roles over its own view of the stores; who dies is replaced. */
export class Fleet {
  readonly running = new Set<Running>();
  /** How many of a role there are to be. */
  readonly wanted: Record<Role, number>;
  readonly #context: FleetContext;
  #pids = 1;

  constructor(context: FleetContext) {
    this.#context = context;
    this.wanted = { manager: context.shape.managers, worker: context.shape.workers, api: context.shape.apis };
  }

  of(role: Role): Running[] {
    return [...this.running].filter(({ process }) => process.role === role);
  }

  startAll(): void {
    for (const role of ['manager', 'api', 'worker'] as const)
      while (this.of(role).length < this.wanted[role]) this.start(role);
  }

  start(role: Role): void {
    const { random, shape, time, stretch, trace } = this.#context;
    const pid = this.#pids++;
    const process: SimProcess = new SimProcess({
      name: `${role}-${pid}`,
      role,
      pid,
      skewMs: random.int(-shape.skewMs, shape.skewMs),
      startMs: shape.startMs,
      time,
      stretch,
      died: (_, reason) => this.#died(one, reason),
    });
    const one: Running = { process, ...this.#roles(process), started: false };
    this.running.add(one);
    trace(`${process.name} starts, its clock is ${process.skewMs} ms ahead`);
    one.service.start().then(
      () => {
        one.started = true;
      },
      (error: unknown) => process.crash(`its start failed: ${String(error)}`),
    );
  }

  #roles(process: SimProcess): Pick<Running, 'service' | 'changes'> {
    const { stores: all, installation, shape } = this.#context;
    const stores = faultyStores(all, process, this.#context);
    const telemetry = this.#telemetry();
    const { clock, pid } = process;
    const deps = { stores, clock, telemetry, installation };
    const place = { host: 'sim', pid };
    if (process.role === 'manager') {
      return { service: startManager({ ...deps, deliveries: shape.deliveries }, place), changes: null };
    }
    if (process.role === 'worker') {
      const options = {
        ...place,
        wheels: 0,
        misfireAfterMs: 10_000,
        clockOffsetMs: 0,
        threadStores: { module: '', config: null },
      };
      return { service: startWorker(deps, options), changes: null };
    }
    const { changesPartitions } = installation;
    const changes = new Changes({ bus: stores.bus, clock, telemetry, changesPartitions, incarnation: randomUUID() });
    return { service: inOrder('api', telemetry, [changes, applierService({ ...deps, changes })]), changes };
  }

  /** Queues report how full they are and what they may hold. */
  #telemetry(): Telemetry {
    const depths = new Map<string, number>();
    return {
      ...silentTelemetry,
      gauge: (name, value, labels) => {
        if (name === 'queue_depth') depths.set(labels?.['queue'] ?? '', value);
        else if (name === 'queue_bound')
          this.#context.oracle.queue(labels?.['queue'] ?? '', depths.get(labels?.['queue'] ?? '') ?? 0, value);
      },
      event: (level, message, fields) => {
        if (level !== 'info') this.#context.trace(`${level}: ${message} ${JSON.stringify(fields ?? {})}`);
      },
    };
  }

  #died(one: Running, reason: string): void {
    const { trace, disturbed, random, time } = this.#context;
    trace(`${one.process.name} is dead: ${reason}`);
    disturbed();
    this.running.delete(one);
    time.after(random.pick([50, 500, 2_000, 6_000]), () => this.#replace(one.process.role));
  }

  #replace(role: Role): void {
    if (this.of(role).length < this.wanted[role]) this.start(role);
  }

  /** SIGTERM: it ends in order and is replaced; one that takes too long is killed. */
  stop(one: Running): void {
    const { trace, disturbed, time } = this.#context;
    trace(`${one.process.name} is asked to stop`);
    disturbed();
    const kill = time.after(STOP_MS, () => one.process.crash('it did not stop in time'));
    const ended = (): void => {
      kill();
      one.process.crash('it has stopped');
    };
    one.service.stop().then(ended, ended);
  }
}
