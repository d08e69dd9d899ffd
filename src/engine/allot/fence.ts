import type { Delivery } from '../../core/job.ts';
import { laneId } from '../../core/topics.ts';
import type { Bus } from '../../ports/bus.ts';
import type { Installation } from '../../ports/catalog-store.ts';
import { sideBySide } from './side-by-side.ts';

/**
 * Fences slots of a dead owner: each lane is opened once, which aborts what the dead has open and refuses what it would
 * still commit, and closed again. Throws the first error after trying all. After an abort no further lane is opened, since
 * the slots may have their next owner by then.
 */
export async function fenceSlots(
  bus: Pick<Bus, 'lane'>,
  installation: Pick<Installation, 'id' | 'lanesPerSlot'>,
  slots: readonly { delivery: Delivery; slot: number }[],
  signal: AbortSignal,
): Promise<void> {
  const ids = slots.flatMap(({ delivery, slot }) =>
    Array.from({ length: installation.lanesPerSlot }, (_, lane) => laneId(installation.id, delivery, slot, lane)),
  );
  await sideBySide(ids, async (id) => {
    if (signal.aborted) return;
    const lane = await bus.lane(id);
    await lane.close();
  });
}
