import { isCode } from '../core/errors.ts';
import { APPLIER_GROUP, applierLaneId, TOPICS } from '../core/topics.ts';
import { Applier, type ApplierDeps } from '../engine/apply.ts';
import type { GroupMember } from '../ports/bus.ts';
import type { Clock } from '../ports/clock.ts';
import type { Stores } from '../ports/stores.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import { inOrder, type Service, service } from '../runtime/service.ts';
import { housekeeping } from './housekeeping.ts';

export interface ApplierProcessDeps {
  stores: Stores;
  clock: Clock;
  telemetry: Telemetry;
  installation: { id: string; slotsPerSet: number };
}

/** Records of one batch: bounds the memory of a batch and the time until its first answer. */
const BATCH_RECORDS = 2_000;

/**
 * Appliers of the changes partitions that the group gives to this process, each with the lane of its partition: opening it
 * fences whoever applied the partition before. Beside them runs the housekeeping.
 */
export function applierService(deps: ApplierProcessDeps): Service {
  return inOrder('applier', deps.telemetry, [appliers(deps), housekeeping(deps)]);
}

function appliers({ stores, clock, telemetry, installation }: ApplierProcessDeps): Service {
  return service('appliers', telemetry, async () => {
    const deps: ApplierDeps = {
      ...stores,
      clock,
      telemetry,
      slotsPerSet: installation.slotsPerSet,
      answersPartitions: await stores.bus.partitions(TOPICS.answers),
    };
    const appliers = new Map<number, Applier>();
    const open = async (partition: number): Promise<Applier> => {
      const lane = await stores.bus.lane(applierLaneId(installation.id, partition));
      const applier = new Applier(deps, partition, lane);
      appliers.set(partition, applier);
      telemetry.gauge('applier_partitions', appliers.size);
      return applier;
    };
    const close = async (partition: number): Promise<void> => {
      const applier = appliers.get(partition);
      appliers.delete(partition);
      telemetry.gauge('applier_partitions', appliers.size);
      try {
        await applier?.close();
      } catch (error) {
        telemetry.event('warn', 'an applier did not close cleanly', { partition, error: String(error) });
      }
    };

    const member: GroupMember = await stores.bus.join(APPLIER_GROUP, TOPICS.changes, {
      async assigned({ partition }) {
        await open(partition);
      },
      async batch({ partition, signal }, records) {
        const applier = appliers.get(partition) ?? (await open(partition));
        try {
          for (let from = 0; from < records.length; from += BATCH_RECORDS) {
            await applier.apply(records.slice(from, from + BATCH_RECORDS), signal);
          }
        } catch (error) {
          // Somebody else has the partition, or had it for a moment: only a lane that is opened anew can tell.
          if (isCode(error, 'lane-fenced')) await close(partition);
          throw error;
        }
      },
      async revoked({ partition }) {
        await close(partition);
      },
    });
    return async () => {
      await member.close();
      for (const partition of [...appliers.keys()]) await close(partition);
    };
  });
}
