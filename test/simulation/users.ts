import type { Delivery } from '../../src/core/job.ts';
import type { ChangeAction } from '../../src/core/messages.ts';
import type { Fleet } from './fleet.ts';
import type { Definition } from './forms.ts';
import type { Oracle } from './oracle.ts';
import type { Random } from './random.ts';
import type { VirtualTime } from './virtual-time.ts';

export interface UsersContext {
  random: Random;
  time: VirtualTime;
  oracle: Oracle;
  fleet: Fleet;
  deliveries: readonly Delivery[];
  startMs: number;
  trace(text: string): void;
  fail(invariant: string, detail: string): void;
}

/** A user asks again when no answer came for this long, in ms. */
const PATIENCE_MS = 8_000;
const RATES_MS = [3_000, 7_000, 20_000, 45_000, 90_000, 170_000];
/** Shares of what users do, beside new jobs. */
const KINDS = [
  'save',
  'save',
  'repeat',
  'reschedule',
  'reschedule',
  'pause',
  'resume',
  'resume',
  'delete',
  'fire',
] as const;

interface Known {
  cluster: Delivery;
  key: string;
  definition: Definition;
  /** It may be paused: it never comes to its end. */
  endless: boolean;
  paused: boolean;
}

/** Users who make and change jobs. Each change is repeated with the same id until it is answered; of one job one at a time. */
export class Users {
  /** Changes without an answer so far. */
  open = 0;
  readonly #context: UsersContext;
  readonly #jobs = new Map<string, Known>();
  readonly #busy = new Set<string>();
  #ids = 0;
  #keys = 0;

  constructor(context: UsersContext) {
    this.#context = context;
  }

  /** One user does something. */
  act(jobsMost: number): void {
    const { random } = this.#context;
    const idle = [...this.#jobs.values()].filter((job) => !this.#busy.has(job.key));
    const room = this.#jobs.size < jobsMost;
    if (idle.length === 0 || (room && random.chance(0.5))) {
      if (room) this.#make();
      return;
    }
    const job = random.pick(idle);
    // What has come to its end is only in the way.
    if (!job.endless) this.#send(job, { kind: 'delete' });
    else this.#change(job, room ? random.pick(KINDS) : 'delete');
  }

  #nowMs(): number {
    return this.#context.startMs + this.#context.time.nowMs;
  }

  #make(): void {
    const { random } = this.#context;
    const gone = this.#keys > 0 && random.chance(0.2) ? `k${random.int(0, this.#keys - 1)}` : null;
    const key = gone !== null && !this.#jobs.has(gone) && !this.#busy.has(gone) ? gone : `k${this.#keys++}`;
    const cluster = this.#context.deliveries[Number(key.slice(1)) % this.#context.deliveries.length]!;
    const { definition, endless } = this.#definition();
    const job: Known = { cluster, key, definition, endless, paused: false };
    this.#jobs.set(key, job);
    this.#send(job, { kind: 'put', definition });
  }

  #definition(): { definition: Definition; endless: boolean } {
    const { random } = this.#context;
    const misfire = { mode: random.pick(['all', 'all', 'all', 'once', 'skip'] as const) };
    const rest = { bounds: {}, misfire, payload: `p${random.int(0, 999)}`, contentType: 'text/plain' };
    const chance = random.next();
    if (chance < 0.35) {
      const atMs = this.#nowMs() + random.pick([2_000, 9_000, 18_000, 60_000]) + random.int(0, 5_000);
      return { definition: { ...rest, schedule: { kind: 'once', atMs } }, endless: false };
    }
    if (chance < 0.5) {
      const expression = `*/${random.pick([5, 10, 15, 20, 30])} * * * * *`;
      return { definition: { ...rest, schedule: { kind: 'cron', expression } }, endless: true };
    }
    const schedule = this.#rate();
    if (chance > 0.9) {
      const endMs = schedule.anchorMs + random.int(1, 8) * schedule.everyMs;
      return { definition: { ...rest, schedule, bounds: { endMs } }, endless: false };
    }
    return { definition: { ...rest, schedule }, endless: true };
  }

  #rate(): { kind: 'rate'; everyMs: number; anchorMs: number } {
    const { random } = this.#context;
    return { kind: 'rate', everyMs: random.pick(RATES_MS), anchorMs: this.#nowMs() + random.int(-2_000, 12_000) };
  }

  #change(job: Known, kind: (typeof KINDS)[number]): void {
    const { random } = this.#context;
    if (kind === 'pause' || kind === 'resume') {
      if (job.paused === (kind === 'pause')) return;
      job.paused = kind === 'pause';
      this.#send(job, { kind });
    } else if (kind === 'delete') {
      if (random.chance(0.5)) this.#send(job, { kind });
    } else if (kind === 'fire') {
      this.#send(job, { kind, requestKey: `r${this.#ids}` });
    } else {
      if (kind === 'reschedule') job.definition = { ...job.definition, schedule: this.#rate() };
      if (kind === 'save') job.definition = { ...job.definition, payload: `p${random.int(0, 999)}` };
      this.#send(job, { kind: 'put', definition: job.definition });
    }
  }

  #send(job: Known, action: ChangeAction): void {
    const id = `u${this.#ids++}`;
    this.#busy.add(job.key);
    this.open += 1;
    void this.#untilAnswered(job, action, id).then((gone) => {
      this.open -= 1;
      this.#busy.delete(job.key);
      if (gone) this.#jobs.delete(job.key);
    });
  }

  /** Answers whether the job is gone. */
  async #untilAnswered({ cluster, key }: Known, action: ChangeAction, id: string): Promise<boolean> {
    const { random, time, fleet, oracle, trace } = this.#context;
    for (;;) {
      const apis = fleet.of('api').filter(({ changes, started }) => started && changes?.ready);
      if (apis.length > 0) {
        const { changes, process } = random.pick(apis);
        const atMs = process.clock.wallMs();
        const asked = (async () => await changes!.submit({ cluster, key, atMs, action, id }))().catch(() => null);
        const applied = await Promise.race([asked, time.wait(PATIENCE_MS).then(() => null)]);
        if (applied !== null) {
          const { outcome } = applied;
          trace(`${action.kind} of ${cluster}/${key} was answered: ${JSON.stringify(outcome)}`);
          if (outcome.ok) oracle.answered(cluster, key, id);
          return this.#judge(action, outcome);
        }
      }
      await time.wait(random.int(100, 1_000));
    }
  }

  #judge(action: ChangeAction, outcome: { ok: boolean; code?: string }): boolean {
    if (outcome.ok) return action.kind === 'delete';
    const { code = '' } = outcome;
    // A first time that passed while the change was repeated, and a deletion that had worked before.
    if (code === 'schedule-impossible') return true;
    if (code === 'job-not-found' && action.kind === 'delete') return true;
    if (code !== 'capacity-exhausted') this.#context.fail('I11', `${action.kind} was refused: ${code}`);
    return true;
  }
}
