import { Faults } from './faults.ts';
import { Fleet } from './fleet.ts';
import { guarded } from './guarded.ts';
import { install, type Shape, shapeOf, topicsOf } from './installation.ts';
import { nextOwed } from './model.ts';
import { Oracle } from './oracle.ts';
import type { SimProcess } from './process.ts';
import { Random } from './random.ts';
import { takeOver } from './reproducible.ts';
import { Trace } from './trace.ts';
import { Trouble } from './trouble.ts';
import { Users } from './users.ts';
import { VirtualTime } from './virtual-time.ts';

export interface RunOptions {
  seed: number;
  /** Simulated time, the quiet end included. */
  minutes: number;
  /** Mean time between two faults and between two acts of users, in ms. */
  faultEveryMs: number;
  actEveryMs: number;
  /** Jobs at one time. */
  jobsMost: number;
  /** Whether Redis may lose shards, and a replica that lacks writes take its place. */
  redisForgets: boolean;
}

export interface SeedResult {
  seed: number;
  failure: { invariant: string; detail: string; atMs: number } | null;
  published: number;
  repeated: number;
  moved: number;
  steps: number;
  trace: string[];
}

/** Faults begin after this, in ms: the installation comes up in order. */
const BEGIN_MS = 4_000;
/** At the end nothing goes wrong for this long, in ms, so that everything comes to rest. */
const QUIET_MS = 60_000;
/** When nothing was wrong for this long, in ms, waits become long. */
const CALM_AFTER_MS = 4_000;
/** The firing loop waits so long when nothing is due, in ms: the one wait that may last until something is. */
const IDLE_MS = 50;
/** Sessions are renewed so often, in ms: they are not to be lost. */
const SESSION_MS = 500;
/** How long short waits may last while all is calm, in ms, but those of sessions. */
const CALM_WAIT_MS = 1_800;
const BUSY_WAIT_MS = 900;
const BUSY_IDLE_MS = 300;

/** One seed: an installation, its users, and everything that goes wrong. */
export class Simulation {
  readonly time = new VirtualTime();
  readonly #options: RunOptions;
  readonly #random: Random;
  readonly #shape: Shape;
  readonly #trace = new Trace();
  readonly #oracle: Oracle;
  readonly #faults: Faults;
  #failure: SeedResult['failure'] = null;
  #disturbedMs = 0;
  #calm = false;

  constructor(options: RunOptions) {
    this.#options = options;
    this.#random = new Random(options.seed);
    this.#shape = shapeOf(this.#random);
    if (!options.redisForgets) Object.assign(this.#shape, { losesRedis: false, failovers: 0 });
    takeOver(this.#random, this.time);
    const { startMs, skewMs, slotsPerSet, deliveries } = this.#shape;
    const fail = (invariant: string, detail: string): void => this.#fail(invariant, detail);
    const oracle = new Oracle({
      slotsPerSet,
      deliveries: new Map(deliveries.map((delivery) => [delivery, delivery])),
      topics: topicsOf(this.#shape),
      startMs,
      skewMs,
      nowMs: () => this.time.nowMs,
      disturbedMs: () => this.#disturbedMs,
      fail,
    });
    this.#oracle = guarded(oracle, fail);
    this.#faults = new Faults({
      time: this.time,
      random: this.#random,
      trace: (text) => this.#note(text),
      disturbed: () => this.#disturbed(),
    });
  }

  async run(): Promise<SeedResult> {
    const uncaught = (error: unknown): void => this.#fail('uncaught', String(error));
    process.on('unhandledRejection', uncaught);
    try {
      return await this.#run();
    } finally {
      process.off('unhandledRejection', uncaught);
    }
  }

  async #run(): Promise<SeedResult> {
    const { seed, minutes, faultEveryMs, actEveryMs, jobsMost } = this.#options;
    const endMs = minutes * 60_000;
    const { stores, installation, redis } = await install(this.#shape, this.time, this.#oracle);
    const base = {
      time: this.time,
      random: this.#random,
      faults: this.#faults,
      oracle: this.#oracle,
      stores,
      shape: this.#shape,
      trace: (text: string) => this.#note(text),
      disturbed: (ms?: number) => this.#disturbed(ms),
      fail: (invariant: string, detail: string) => this.#fail(invariant, detail),
    };
    const fleet = new Fleet({ ...base, installation, stretch: (ms, process) => this.#stretch(ms, process) });
    const users = new Users({ ...base, fleet, deliveries: this.#shape.deliveries, startMs: this.#shape.startMs });
    const trouble = new Trouble({ ...base, fleet, redis });
    this.#note(`seed ${seed}: ${JSON.stringify(this.#shape)}`);
    fleet.startAll();
    this.#again(actEveryMs, endMs - QUIET_MS, () => users.act(jobsMost));
    this.#again(faultEveryMs, endMs - QUIET_MS, () => trouble.strike());
    this.time.after(BEGIN_MS, () => this.#watchCalm());
    await this.time.runTo(endMs - QUIET_MS, () => this.#failure !== null);
    this.#note('nothing goes wrong from now on');
    this.#faults.end();
    this.#disturbed();
    await trouble.mend();
    await this.time.runTo(endMs, () => this.#failure !== null);
    if (this.#failure === null) {
      if (users.open > 0) this.#fail('I11', `${users.open} changes were never answered`);
      this.#oracle.atEnd();
    }
    const { published, repeated, moved } = this.#oracle;
    return {
      seed,
      failure: this.#failure,
      published,
      repeated,
      moved,
      steps: this.time.steps,
      trace: this.#trace.lines(),
    };
  }

  #again(everyMs: number, untilMs: number, run: () => void): void {
    const next = (): void => {
      const ms = this.#random.wait(everyMs);
      if (this.time.nowMs + ms < untilMs) {
        this.time.after(ms, () => {
          this.#hurry();
          run();
          next();
        });
      }
    };
    this.time.after(BEGIN_MS, next);
  }

  #fail(invariant: string, detail: string): void {
    this.#note(`BROKEN ${invariant}: ${detail}`);
    this.#failure ??= { invariant, detail, atMs: this.time.nowMs };
  }

  #note(text: string): void {
    this.#trace.note(this.time.nowMs, text);
  }

  #disturbed(ms = 0): void {
    this.#disturbedMs = Math.max(this.#disturbedMs, this.time.nowMs + ms);
    this.#hurry();
  }

  #hurry(): void {
    if (!this.#calm) return;
    this.#calm = false;
    this.time.hurry();
    this.time.after(CALM_AFTER_MS, () => this.#watchCalm());
  }

  /** While nothing is wrong, waits are long: that is what makes a day cheap. */
  #watchCalm(): void {
    this.#calm = this.time.nowMs - this.#disturbedMs > CALM_AFTER_MS;
    if (!this.#calm) this.time.after(1_000, () => this.#watchCalm());
  }

  #stretch(ms: number, process: SimProcess): number {
    if (ms > 500) return ms;
    if (ms === IDLE_MS) return Math.min(this.#untilDue(process), this.#calm ? CALM_WAIT_MS : BUSY_IDLE_MS);
    if (ms < 50) return this.#calm ? ms : 2 * ms;
    if (ms === SESSION_MS) return this.#calm ? 900 : 500 + 400 * this.#random.next();
    return this.#calm ? CALM_WAIT_MS : Math.min(BUSY_WAIT_MS, ms * (2 + 6 * this.#random.next()));
  }

  /** Until something falls due by the clock of a process, as a loop with nothing to do may sleep. */
  #untilDue(process: SimProcess): number {
    const { model } = this.#oracle;
    const wallMs = this.#shape.startMs + this.time.nowMs + process.skewMs;
    if (process.due.atMs <= wallMs || process.due.changes !== model.changes) {
      let atMs = Number.POSITIVE_INFINITY;
      for (const life of model.lives) if (life.endedMs > wallMs) atMs = Math.min(atMs, nextOwed(life, wallMs));
      process.due = { atMs, changes: model.changes };
    }
    return process.due.atMs - wallMs;
  }
}
