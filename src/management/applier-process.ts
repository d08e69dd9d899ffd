import { changesIn } from '../core/lines.ts';
import { APPLIER_GROUP, applierLaneId, TOPICS } from '../core/topics.ts';
import { Applier, type ApplierDeps } from '../engine/apply.ts';
import { Flow } from '../engine/change/flow.ts';
import type { AnswersHere } from '../engine/change/tell.ts';
import type { BusRecord, GroupMember, GroupPartition } from '../ports/bus.ts';
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
  /** Whoever asks for changes in this process. */
  changes: AnswersHere;
}

/** Changes of one batch, but one record at least: bounds the memory of a batch and the time until its first answer. */
const BATCH_CHANGES = 2_000;

/**
 * The applier of the changes partitions that the group gives to this process, each with its lane: opening it fences whoever
 * applied the partition before. Beside it runs the housekeeping.
 */
export function applierService(deps: ApplierProcessDeps): Service {
  return inOrder('applier', deps.telemetry, [appliers(deps), housekeeping(deps)]);
}

function appliers({ stores, clock, telemetry, installation, changes }: ApplierProcessDeps): Service {
  return service('appliers', telemetry, async () => {
    const deps: ApplierDeps = {
      ...stores,
      clock,
      telemetry,
      slotsPerSet: installation.slotsPerSet,
      answersPartitions: await stores.bus.partitions(TOPICS.answers),
      answersHere: changes,
    };
    const applier = new Applier(deps);
    const flows = new Map<number, Flow>();
    const open = async (partition: number): Promise<void> => {
      applier.open(partition, await stores.bus.lane(applierLaneId(installation.id, partition)));
    };
    const close = async (partition: number): Promise<void> => {
      const flow = flows.get(partition);
      flows.delete(partition);
      try {
        await flow?.close();
        await applier.close(partition);
      } catch (error) {
        telemetry.event('warn', 'an applier did not close cleanly', { partition, error: String(error) });
      }
    };
    const begin = (given: GroupPartition): Flow => {
      const { partition } = given;
      const flow = new Flow({ applier, clock, telemetry, open: () => open(partition) }, given);
      flows.set(partition, flow);
      return flow;
    };

    const member: GroupMember = await stores.bus.join(APPLIER_GROUP, TOPICS.changes, {
      async assigned(given) {
        await open(given.partition);
      },
      async batch(given, records) {
        const flow = flows.get(given.partition) ?? begin(given);
        for (const part of parts(records)) {
          await flow.give(part);
        }
      },
      async revoked({ partition }) {
        await close(partition);
      },
    });
    return async () => {
      await member.close();
      for (const partition of flows.keys()) await close(partition);
    };
  });
}

function* parts(records: readonly BusRecord[]): Generator<readonly BusRecord[]> {
  let from = 0;
  let changes = 0;
  for (const [index, { value }] of records.entries()) {
    changes += changesIn(value);
    if (changes < BATCH_CHANGES) continue;
    yield records.slice(from, index + 1);
    from = index + 1;
    changes = 0;
  }
  if (from < records.length) yield records.slice(from);
}
