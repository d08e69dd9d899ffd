import { carillonError } from '../../src/core/errors.ts';
import { never, type SimProcess } from './process.ts';
import type { Random } from './random.ts';
import type { VirtualTime } from './virtual-time.ts';

export type Server = 'mongodb' | 'redis' | 'kafka';

/** How well a process reaches a server. */
interface Link {
  cutUntilMs: number;
  /** What a cut loses: requests, answers, or now this and now that. */
  loses: 'request' | 'answer' | 'either';
  slowUntilMs: number;
  slowMs: number;
}

export interface FaultsOptions {
  time: VirtualTime;
  random: Random;
  trace(text: string): void;
  disturbed(): void;
}

export interface Call<T> {
  server: Server;
  method: string;
  run(): Promise<T>;
  /** An error says for certain that nothing was done: a commit's outcome is found out by the adapter. */
  certain?: boolean;
  /** Does a part of it: what a request to several partitions may come to. */
  part?: () => Promise<unknown>;
}

/**
 * The network and the servers, as every call of a port goes through them: it may take time on the way there and back, fail
 * before or after it took effect, and its process may die at any of these points.
 */
export class Faults {
  /** Part of all calls that fail, and that take time. */
  failing = 0;
  slow = 0.05;
  /** Most that a call takes when it takes time, in ms. */
  slowMostMs = 5;
  /** Rises when Redis may be another one than before. */
  connections = 1;
  readonly downUntilMs: Record<Server, number> = { mongodb: 0, redis: 0, kafka: 0 };
  readonly #links = new Map<SimProcess, Map<Server, Link>>();
  readonly #options: FaultsOptions;

  constructor(options: FaultsOptions) {
    this.#options = options;
  }

  cut(process: SimProcess, server: Server, ms: number, loses: Link['loses']): void {
    Object.assign(this.#link(process, server), { cutUntilMs: this.#options.time.nowMs + ms, loses });
  }

  slowDown(process: SimProcess, server: Server, ms: number, slowMs: number): void {
    Object.assign(this.#link(process, server), { slowUntilMs: this.#options.time.nowMs + ms, slowMs });
  }

  /** Everything is well from now on. */
  end(): void {
    this.failing = 0;
    this.#links.clear();
    for (const server of ['mongodb', 'redis', 'kafka'] as const) this.downUntilMs[server] = 0;
  }

  #link(process: SimProcess, server: Server): Link {
    const links = this.#links.get(process) ?? new Map<Server, Link>();
    this.#links.set(process, links);
    let link = links.get(server);
    if (link === undefined) {
      link = { cutUntilMs: 0, loses: 'either', slowUntilMs: 0, slowMs: 0 };
      links.set(server, link);
    }
    return link;
  }

  async call<T>(process: SimProcess, call: Call<T>): Promise<T> {
    const { time, random } = this.#options;
    if (process.dead) return never();
    const { server, method } = call;
    const crash = process.armed === null ? null : process.crashAt(method);
    if (crash !== null) this.#options.trace(`${process.name} dies ${crash} ${method}`);
    if (crash === 'before') return this.#die(process, crash, method);
    const thereMs = this.#delay(process, server);
    if (crash === 'sent') {
      // What was sent arrives all the same, a little later.
      time.after(thereMs + random.int(0, 20), () => void call.run().catch(() => {}));
      return this.#die(process, crash, method);
    }
    if (thereMs > 0) {
      await time.wait(thereMs);
      // The connection of a dead process may be closed before what is in it is read.
      if (process.dead && random.chance(0.5)) return never();
    }
    const fault = this.#fault(process, server);
    if (fault !== null) return this.#failed(process, call, fault);
    let result: T;
    try {
      result = await call.run();
    } catch (error) {
      if (process.dead || process.frozenUntilMs > time.nowMs) await process.running();
      throw error;
    }
    if (crash === 'after') return this.#die(process, crash, method);
    const backMs = this.#delay(process, server);
    if (backMs > 0) await time.wait(backMs);
    if (process.dead || process.frozenUntilMs > time.nowMs) await process.running();
    return result;
  }

  /** Whether a process reaches nothing of a server now. */
  isOff(process: SimProcess, server: Server): boolean {
    const { nowMs } = this.#options.time;
    const link = this.#links.get(process)?.get(server);
    return this.downUntilMs[server] > nowMs || (link !== undefined && link.cutUntilMs > nowMs);
  }

  #die(process: SimProcess, when: string, method: string): Promise<never> {
    process.crash(`${when} ${method}`);
    return never();
  }

  #delay(process: SimProcess, server: Server): number {
    const { time, random } = this.#options;
    const link = this.#links.get(process)?.get(server);
    if (link !== undefined && link.slowUntilMs > time.nowMs) return random.int(0, link.slowMs);
    return random.chance(this.slow) ? random.int(1, this.slowMostMs) : 0;
  }

  #fault(process: SimProcess, server: Server): 'request' | 'answer' | null {
    const { time, random } = this.#options;
    if (this.downUntilMs[server] > time.nowMs) return 'request';
    const link = this.#links.get(process)?.get(server);
    if (link !== undefined && link.cutUntilMs > time.nowMs) {
      return link.loses === 'either' ? random.pick(['request', 'answer']) : link.loses;
    }
    if (this.failing > 0 && random.chance(this.failing)) return random.pick(['request', 'answer']);
    return null;
  }

  async #failed<T>(process: SimProcess, call: Call<T>, fault: 'request' | 'answer'): Promise<never> {
    const { time, random, trace, disturbed } = this.#options;
    const { server, method, run, certain = false, part } = call;
    disturbed();
    trace(`${process.name} ${method} at ${server}: no ${certain ? 'request' : fault}`);
    if (fault === 'answer' && !certain) await (part !== undefined && random.chance(0.5) ? part() : run());
    await time.wait(random.pick([1, 10, 50, 200, 1_000]));
    await process.running();
    throw carillonError('unavailable', `${server} did not answer (simulated)`);
  }
}
