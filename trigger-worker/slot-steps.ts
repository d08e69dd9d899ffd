import { LIMITS } from '../src/core/limits.ts';
import type { SlotRunner } from '../src/engine/firing/slot.ts';
import type { Clock } from '../src/ports/clock.ts';
import type { Telemetry } from '../src/ports/telemetry.ts';
import { loop, type Service } from '../src/runtime/service.ts';

/**
 * How long a read of the fast path waits for a message, in ms. A message ends it at once, and so does the end of the slot; it
 * is what a request of an idle slot costs the broker that speaks for a long wait.
 */
const FAST_WAIT_MS = 2_000;
/** How often horizons are looked at, in ms: far below the margin between the two scan limits. */
const SCAN_EVERY_MS = 250;
/** How often finished jobs are recorded, in ms: what ended since goes with one call to the job store. */
const RECORD_EVERY_MS = 500;
/** How often missing topics and gauges are looked at, in ms. */
const UPKEEP_EVERY_MS = 1_000;
/** How often it is looked for shards that the trigger store has lost, in ms. */
const REBUILD_EVERY_MS = 250;
/** How often it is looked whether jobs are to be compared, in ms. */
const RECONCILE_EVERY_MS = 1_000;
/** Pauses after failures in a row, in ms: doubled from the first to the second. */
const RETRY_MS = 50;
const RETRY_MAX_MS = 1_000;

interface Step {
  name: string;
  /** When it is due next, monotonic ms. */
  dueMs: number;
  running: Promise<void> | null;
  failures: number;
  /** Answers how long to wait for the next round, in ms. */
  round(): Promise<number>;
}

export interface SlotStepsContext {
  clock: Clock;
  telemetry: Telemetry;
  /** There may be something to fire sooner than was known. */
  wake(): void;
}

/**
 * What one slot does beside firing: changes, scans, write-backs, progress, upkeep. Each goes on apart from the others, so that
 * a store that stands still holds up nothing that does not need it. Only the fast path waits by itself; for all else the
 * firing loop of the wheel is the clock (`begin`), so a slot has no timers, and what several slots do at the same time
 * reaches a store together.
 */
export class SlotSteps {
  private readonly runner: SlotRunner;
  private readonly context: SlotStepsContext;
  private readonly fastPath: Service;
  private readonly steps: readonly Step[];
  private started = false;

  constructor(runner: SlotRunner, context: SlotStepsContext) {
    this.runner = runner;
    this.context = context;
    const { clock, telemetry } = context;
    this.fastPath = loop({
      name: 'slot-fast-path',
      clock,
      telemetry,
      retryMs: RETRY_MS,
      retryMaxMs: RETRY_MAX_MS,
      round: () => this.readFast(),
    });
    const step = (name: string, round: () => Promise<number>): Step => {
      return { name, dueMs: Number.NEGATIVE_INFINITY, running: null, failures: 0, round };
    };
    this.steps = [
      step('scan', () => this.scan()),
      step('write-back', () => this.writeBack()),
      step('progress', () => this.commitProgress()),
      step('record', () => this.record()),
      step('upkeep', () => this.keepUp()),
      step('rebuild', () => this.rebuild()),
      step('reconcile', () => this.reconcile()),
    ];
  }

  async start(): Promise<void> {
    await this.fastPath.start();
    this.started = true;
  }

  /** No step begins any more; ends when none runs. */
  async stop(): Promise<void> {
    this.started = false;
    await this.fastPath.stop();
    await Promise.all(this.steps.flatMap(({ running }) => running ?? []));
  }

  /** Begins what is due and does not run. */
  begin(): void {
    if (!this.started) return;
    const nowMs = this.context.clock.monotonicMs();
    for (const step of this.steps) {
      if (step.running === null && nowMs >= step.dueMs) step.running = this.run(step);
    }
  }

  private async run(step: Step): Promise<void> {
    const { clock, telemetry } = this.context;
    try {
      const waitMs = await step.round();
      step.failures = 0;
      step.dueMs = clock.monotonicMs() + waitMs;
    } catch (error) {
      const waitMs = Math.min(RETRY_MAX_MS, RETRY_MS * 2 ** Math.min(step.failures, 20));
      step.failures += 1;
      step.dueMs = clock.monotonicMs() + waitMs;
      telemetry.count('loop_errors_total', { loop: `slot-${step.name}` });
      telemetry.event('error', 'a step of a slot failed and is taken again', {
        slot: this.runner.name,
        step: step.name,
        error: String(error),
        waitMs,
      });
    }
    step.running = null;
  }

  private async readFast(): Promise<number> {
    const read = await this.runner.readFast(FAST_WAIT_MS);
    // Nothing may be read while many changes wait for triggers on the way.
    if (read === 0) return 5;
    this.context.wake();
    return 0;
  }

  private async scan(): Promise<number> {
    if ((await this.runner.scan(this.context.clock.wallMs())) > 0) this.context.wake();
    return SCAN_EVERY_MS;
  }

  /** All slots at the same instants, so that their calls reach the store together. */
  private async writeBack(): Promise<number> {
    await this.runner.flushWriteBacks();
    return LIMITS.writeBackAgeMs - (this.context.clock.monotonicMs() % LIMITS.writeBackAgeMs);
  }

  private async commitProgress(): Promise<number> {
    const moved = await this.runner.commitProgress();
    await this.runner.flushAnswers();
    // An idle slot looks half as often.
    return moved ? LIMITS.progressEveryMs : 2 * LIMITS.progressEveryMs;
  }

  private async rebuild(): Promise<number> {
    return (await this.runner.rebuild()) ? 0 : REBUILD_EVERY_MS;
  }

  private async reconcile(): Promise<number> {
    return (await this.runner.reconcile()) ? 0 : RECONCILE_EVERY_MS;
  }

  private async record(): Promise<number> {
    await this.runner.recordFinished();
    return RECORD_EVERY_MS;
  }

  private async keepUp(): Promise<number> {
    await this.runner.checkTopics();
    this.runner.reportGauges(this.context.clock.wallMs());
    return UPKEEP_EVERY_MS;
  }
}
