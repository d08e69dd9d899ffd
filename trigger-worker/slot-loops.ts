import { LIMITS } from '../src/core/limits.ts';
import type { SlotRunner } from '../src/engine/firing/slot.ts';
import type { Clock } from '../src/ports/clock.ts';
import type { Telemetry } from '../src/ports/telemetry.ts';
import { inOrder, loop, type Service } from '../src/runtime/service.ts';

/** How long a read of the fast path waits for a message, in ms: also how long a stop may wait for it. */
const FAST_WAIT_MS = 250;
/** How often horizons are looked at, in ms: far below the margin between the two scan limits. */
const SCAN_EVERY_MS = 250;
/** How often new shards, finished jobs and missing topics are looked at, in ms: a new shard takes jobs so much later. */
const UPKEEP_EVERY_MS = 250;

/**
 * The loops of one slot beside firing, which is the wheel's: changes, scans, write-backs, progress, upkeep. Each is apart
 * from the others, so that a store that stands still holds up nothing that does not need it.
 */
export function slotLoops(runner: SlotRunner, clock: Clock, telemetry: Telemetry): Service {
  const one = (name: string, round: () => Promise<number>): Service =>
    loop({ name: `slot-${name}`, clock, telemetry, retryMs: 50, retryMaxMs: 1_000, round });
  return inOrder(`slot ${runner.name}`, telemetry, [
    one('fast-path', async () => {
      const read = await runner.readFast(FAST_WAIT_MS);
      // Nothing may be read while many changes wait for triggers on the way.
      return read > 0 ? 0 : 5;
    }),
    one('scan', async () => {
      await runner.scan(clock.wallMs());
      return SCAN_EVERY_MS;
    }),
    one('write-back', async () => {
      const written = await runner.flushWriteBacks();
      return written > 0 ? LIMITS.writeBackAgeMs / 2 : LIMITS.writeBackAgeMs;
    }),
    one('progress', async () => {
      const moved = await runner.commitProgress();
      await runner.flushAnswers();
      // An idle slot looks half as often: wake-ups are most of what it costs.
      return moved ? LIMITS.progressEveryMs : 2 * LIMITS.progressEveryMs;
    }),
    one('upkeep', async () => {
      await runner.syncShards(clock.wallMs());
      await runner.checkTopics();
      await runner.recordFinished();
      runner.reportGauges(clock.wallMs());
      return UPKEEP_EVERY_MS;
    }),
  ]);
}
