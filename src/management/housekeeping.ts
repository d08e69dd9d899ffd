import type { Clock } from '../ports/clock.ts';
import type { Stores } from '../ports/stores.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import { loop, type Service } from '../runtime/service.ts';

/** Ended operations are kept this long after their end, in ms: a week, to look back. */
const OPERATION_KEPT_MS = 7 * 86_400_000;
/** Tombstones of the trigger store are kept this long, in ms: longer than an applier that was fenced can still be at work. */
const TOMBSTONE_KEPT_MS = 3_600_000;
const EVERY_MS = 600_000;
const AT_ONCE = 1_000;

/** Takes away what nobody needs any more. Several processes may do it at once. */
export function housekeeping({
  stores,
  clock,
  telemetry,
}: {
  stores: Stores;
  clock: Clock;
  telemetry: Telemetry;
}): Service {
  const { operations, shards, triggers } = stores;
  return loop({
    name: 'housekeeping',
    clock,
    telemetry,
    async round(signal) {
      const beforeMs = clock.wallMs() - OPERATION_KEPT_MS;
      await whileFull(signal, () => operations.sweep(beforeMs, AT_ONCE));
      const tombstonesBeforeMs = (await triggers.timeMs()) - TOMBSTONE_KEPT_MS;
      for (const { id } of await shards.shards()) {
        await whileFull(signal, () => triggers.sweep(id, tombstonesBeforeMs, AT_ONCE));
      }
      return EVERY_MS;
    },
  });
}

/** Sweeps piece by piece, so that no store is held up for long. */
async function whileFull(signal: AbortSignal, sweep: () => Promise<number>): Promise<void> {
  while (!signal.aborted && (await sweep()) >= AT_ONCE);
}
