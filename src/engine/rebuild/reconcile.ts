import { LIMITS } from '../../core/limits.ts';
import type { JobVersion } from '../../ports/job-store.ts';
import { queueScore } from '../firing/movement.ts';
import { alone, type ShardRun } from '../firing/shard-run.ts';
import type { SlotState } from '../firing/slot-state.ts';
import { knowLineages } from './lineage.ts';
import { loseShard } from './lost.ts';
import { endUntold, MOVING_MOST, readCalendars, restoreJobs, sidesIn } from './restore.ts';

/** Jobs of one comparison: 5 to 10 ms of all processes together. */
const PAGE_JOBS = 500;
/** At rest every shard is compared once in so long, in ms: 1,000,000 jobs cost about 1 % of a core. */
const ROUND_MS = 900_000;
/** A change is left in peace for so long, in ms: it is in the job store before it is in the trigger store. */
const YOUNG_MS = 10_000;
/** Jobs that are looked at one by one in one step. */
const DOUBTFUL_AT_ONCE = 100;

/** One comparison of a shard, page by page. A hurried one clears a suspicion when it ends. */
interface Pass {
  shard: ShardRun;
  /** The store may have gone back: at once and without pauses, young changes too. */
  hurried: boolean;
  begunMs: number;
  /** Connections of the trigger store that it was begun with: after a later one it says nothing. */
  connections: number;
  /** Number of the last job that was compared. */
  after: number;
  /** Living members when it began, jobs that had theirs, and members that it added. */
  members: number;
  present: number;
  added: number;
  /** Whether a job was changed since it began. */
  quiet: boolean;
  /** Versions of the jobs in the wheel that the job store has not shown yet. */
  untold: Map<number, number>;
}

/**
 * Compares what the job store says with what the trigger store and the wheel have, shard after shard, all the time, and mends
 * what differs. It runs in the owner of the slot: only an owner may write scores, only it knows what was fired, and the work
 * is spread over the workers by itself. A shard is compared without delay when the store may have gone back, and single jobs
 * when a write-back did not find them.
 */
export class Reconciler {
  readonly #slot: SlotState;
  #pass: Pass | null = null;
  /** When each shard was compared last, monotonic ms. */
  readonly #compared = new Map<number, number>();
  /** Jobs that may be compared now, so that the whole goes round in `ROUND_MS`. */
  #credit = 0;
  #creditMs: number;

  constructor(slot: SlotState) {
    this.#slot = slot;
    this.#creditMs = slot.options.clock.monotonicMs();
  }

  /** One step: at most a page. Answers whether the next one is due at once. */
  async step(): Promise<boolean> {
    const slot = this.#slot;
    for (const shard of slot.shards.values()) {
      if (shard.doubtful.size > 0 && !shard.lost) await this.#lookAt(shard);
    }
    if (!slot.running) return false;
    if (this.#pass !== null && slot.shards.get(this.#pass.shard.id) !== this.#pass.shard) this.#pass = null;
    const urgent = [...slot.shards.values()].find((shard) => shard.suspect && !shard.lost);
    if (urgent !== undefined && this.#pass?.hurried !== true) {
      if (!(await this.#isWhole(urgent))) return true;
      this.#pass = await this.#begin(urgent, true);
    }
    if (this.#pass?.hurried !== true && !this.#mayCompare()) return false;
    this.#pass ??= await this.#beginNext();
    if (this.#pass === null) return false;
    const { shard, hurried, connections } = this.#pass;
    await this.#page(this.#pass);
    if (!hurried) return false;
    if (this.#pass === null && slot.connections === connections) {
      shard.suspect = false;
      knowLineages(slot);
    }
    return true;
  }

  #mayCompare(): boolean {
    const nowMs = this.#slot.options.clock.monotonicMs();
    const jobs = this.#slot.shards.size * LIMITS.shardJobs;
    this.#credit = Math.min(PAGE_JOBS, this.#credit + ((nowMs - this.#creditMs) * jobs) / ROUND_MS);
    this.#creditMs = nowMs;
    if (this.#credit < PAGE_JOBS) return false;
    this.#credit -= PAGE_JOBS;
    return true;
  }

  async #beginNext(): Promise<Pass | null> {
    const shards = [...this.#slot.shards.values()].filter(({ lost }) => !lost);
    const last = ({ id }: ShardRun): number => this.#compared.get(id) ?? Number.NEGATIVE_INFINITY;
    const [next] = shards.sort((a, b) => last(a) - last(b));
    return next === undefined ? null : await this.#begin(next, false);
  }

  /** Whether the store has the shard and its H where they were left: nothing of a lost one is worth a comparison. */
  async #isWhole(shard: ShardRun): Promise<boolean> {
    const slot = this.#slot;
    const { connections } = slot;
    return await alone(shard, async () => {
      const claimed = await slot.options.stores.triggers.claim(shard.id, slot.options.epoch);
      if (claimed.status === 'stale') {
        slot.lose(`epoch ${claimed.epoch} holds shard ${shard.id}`);
        return false;
      }
      const { whole, horizonMs, lineage } = claimed;
      shard.lineage = lineage;
      if (!whole) loseShard(slot, shard, 'not-whole');
      else if (horizonMs !== shard.storedMs && horizonMs !== shard.triedMs) loseShard(slot, shard, 'horizon');
      // With a new connection since then it says nothing.
      return !shard.lost && slot.connections === connections;
    });
  }

  async #begin(shard: ShardRun, hurried: boolean): Promise<Pass> {
    const { entries, options } = this.#slot;
    const begunMs = options.clock.wallMs();
    const untold = new Map<number, number>();
    for (const entry of entries.ofShard(shard.id)) untold.set(entries.number[entry]!, entries.live[entry]!.version);
    const { members, finished } = await options.stores.triggers.count(shard.id);
    const living = members - finished;
    const { connections } = this.#slot;
    return {
      shard,
      hurried,
      begunMs,
      connections,
      after: -1,
      members: living,
      present: 0,
      added: 0,
      quiet: true,
      untold,
    };
  }

  async #page(pass: Pass): Promise<void> {
    const slot = this.#slot;
    const { shard } = pass;
    const { jobs } = slot.options.stores;
    const { after } = pass;
    const page = await jobs.versions(shard.id, after, PAGE_JOBS);
    const differing = await this.#differing(pass, page);
    pass.present += page.filter(({ number, state }) => state === 'enabled' && !differing.has(number)).length;
    slot.count('jobs_compared_total', {}, page.length);
    if (differing.size > 0 && !shard.lost) {
      const found = (await jobs.byShard(shard.id, after, page.length)).filter(({ number }) => differing.has(number));
      const here = found.flatMap((job) => sidesIn(shard.id, job));
      const lacking = await restoreJobs(slot, shard, here, await readCalendars(slot));
      if (lacking !== null && lacking > 0) this.#tell('lacking', shard, lacking);
      pass.added += here.filter(({ state }) => state === 'enabled').length;
    }
    pass.after = page.at(-1)?.number ?? after;
    if (page.length === PAGE_JOBS && slot.running && !shard.lost) return;
    this.#pass = null;
    this.#compared.set(shard.id, slot.options.clock.monotonicMs());
    if (slot.running && !shard.lost) await this.#end(pass);
  }

  /** Numbers of the jobs of a page that the trigger store or the wheel does not have as they are. */
  async #differing(pass: Pass, page: readonly JobVersion[]): Promise<Set<number>> {
    const slot = this.#slot;
    const { shard, untold } = pass;
    const nowMs = slot.options.clock.wallMs();
    for (const { number, updatedMs } of page) {
      untold.delete(number);
      if (updatedMs >= pass.begunMs - YOUNG_MS) pass.quiet = false;
    }
    // Of finished and failed jobs the recorder leaves nothing in the trigger store.
    const old = page.filter(
      ({ state, updatedMs }) =>
        state !== 'finished' && state !== 'error' && (pass.hurried || updatedMs < nowMs - YOUNG_MS),
    );
    const expected = old.map(({ number, version, state }) => ({ number, version, member: state === 'enabled' }));
    const differ = await slot.options.stores.triggers.compare(shard.id, expected);
    const numbers = new Set(differ.map((index) => old[index]!.number));
    for (const { number, version } of old) {
      const entry = slot.entries.find(shard.id, number);
      if (entry >= 0 && slot.entries.live[entry]!.version < version) numbers.add(number);
    }
    return numbers;
  }

  /** What only the wheel or only the trigger store has. */
  async #end(pass: Pass): Promise<void> {
    const slot = this.#slot;
    const { shard, untold } = pass;
    const { stores } = slot.options;
    const leaving = (await stores.jobs.using({ moving: true }, null, MOVING_MOST)).filter(
      (job) => job.move?.from?.shard === shard.id,
    );
    for (const job of leaving) untold.delete(job.move!.from!.number);
    if (pass.hurried) await this.#endGone(shard, [...untold]);
    const { members, finished } = await stores.triggers.count(shard.id);
    const living = members - finished;
    // Scores that were not written, or written in vain, are found again.
    if (pass.hurried) shard.doubted = true;
    // Jobs come and go meanwhile: those that have come are in the later count, those that have gone in the earlier one.
    const surplus = Math.min(pass.members, living - pass.added) - pass.present - leaving.length;
    const certain = pass.hurried || (pass.quiet && living === pass.members);
    if (surplus <= 0 || !certain || shard.lost || !slot.running) return;
    this.#tell('surplus', shard, surplus);
    // Only a rebuild knows which ones: it begins with nothing.
    await alone(shard, async () => loseShard(slot, shard, 'surplus'));
  }

  /** Jobs that the wheel has and the job store has not: they end in the wheel, and in the trigger store for good. */
  async #endGone(shard: ShardRun, gone: readonly [number: number, version: number][]): Promise<void> {
    if (gone.length === 0) return;
    for (const [number, version] of gone) endUntold(this.#slot, shard.id, number, version);
    const tombs = gone.map(([number, version]) => ({ number, version: version + 1, score: null, record: null }));
    await this.#slot.options.stores.triggers.add(shard.id, tombs);
  }

  /** Jobs whose member a write-back did not find. What the wheel has of them is written again. */
  async #lookAt(shard: ShardRun): Promise<void> {
    const slot = this.#slot;
    const numbers = [...shard.doubtful].slice(0, DOUBTFUL_AT_ONCE);
    const calendars = await readCalendars(slot);
    for (const number of numbers) {
      const entry = slot.entries.find(shard.id, number);
      const version = entry < 0 ? 0 : slot.entries.live[entry]!.version;
      const [job] = await slot.options.stores.jobs.byShard(shard.id, number - 1, 1);
      if (job?.number === number) {
        const lacking = await restoreJobs(slot, shard, sidesIn(shard.id, job), calendars);
        if (lacking !== null && lacking > 0) this.#tell('lacking', shard, lacking);
      } else if (!(await this.#leaves(shard.id, number))) {
        await this.#endGone(shard, [[number, version]]);
      }
      shard.doubtful.delete(number);
      const stands = slot.entries.find(shard.id, number);
      if (stands >= 0) queueScore(slot, stands);
    }
  }

  async #leaves(shard: number, number: number): Promise<boolean> {
    const moving = await this.#slot.options.stores.jobs.using({ moving: true }, null, MOVING_MOST);
    return moving.some(({ move }) => move?.from?.shard === shard && move.from.number === number);
  }

  #tell(kind: 'lacking' | 'surplus', shard: ShardRun, jobs: number): void {
    this.#slot.count('drift_total', { kind }, jobs);
    this.#slot.event('warn', 'the trigger store differed from the job store', { shard: shard.id, kind, jobs });
  }
}
