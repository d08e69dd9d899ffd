import type { Delivery } from '../../core/job.ts';
import { laneId } from '../../core/topics.ts';
import type { Bus } from '../../ports/bus.ts';
import type { Installation } from '../../ports/catalog-store.ts';

/** Lanes that are opened at the same time: opening one costs the broker a few ms. */
const AT_ONCE = 16;

/**
 * Fences slots of a dead owner: each lane is opened once, which aborts what the dead has open and refuses what it would
 * still commit, and closed again. Throws the first error after trying all.
 */
export async function fenceSlots(
  bus: Pick<Bus, 'lane'>,
  installation: Pick<Installation, 'id' | 'lanesPerSlot'>,
  slots: readonly { delivery: Delivery; slot: number }[],
): Promise<void> {
  const ids = slots.flatMap(({ delivery, slot }) =>
    Array.from({ length: installation.lanesPerSlot }, (_, lane) => laneId(installation.id, delivery, slot, lane)),
  );
  const errors: unknown[] = [];
  const work = async (): Promise<void> => {
    for (let id = ids.shift(); id !== undefined; id = ids.shift()) {
      try {
        const lane = await bus.lane(id);
        await lane.close();
      } catch (error) {
        errors.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  if (errors.length > 0) throw errors[0];
}
