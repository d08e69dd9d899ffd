import type { Job } from '../../core/job.ts';
import { recordOf } from '../../core/record.ts';
import { NO_OCCURRENCE } from '../../core/schedule/schedule.ts';
import type { RestoredJob } from '../../ports/rebuild-store.ts';
import { Calendars } from '../change/calendars.ts';
import { encodedRecord } from '../change/encoded.ts';
import { sidesOf } from '../change/sides.ts';
import { nextEffective } from '../change/timing.ts';
import { applyChange, firedToMs } from '../firing/change.ts';
import type { Live } from '../firing/entries.ts';
import { planOrFail } from '../firing/fast-path.ts';
import { failJob } from '../firing/finish.ts';
import type { ShardRun } from '../firing/shard-run.ts';
import type { SlotState } from '../firing/slot-state.ts';

/** More moves than ever are under way at the same time (see `allot/move.ts`). */
export const MOVING_MOST = 10_000;
/** Jobs that are timed and encoded in one turn of the event loop: about 5 ms. */
const RESTORED_AT_ONCE = 100;

export async function readCalendars(slot: SlotState): Promise<Calendars> {
  return new Calendars(await slot.options.stores.catalog.calendars());
}

/** What of a job stands in this shard: all of it, one of the two sides of a move, or nothing. */
export function sidesIn(shard: number, job: Job): Job[] {
  return sidesOf(job).filter((side) => side.shard === shard);
}

/**
 * Brings jobs, as the job store has them, into the trigger store and the wheel where these lack them or have an older version.
 * Answers how many the trigger store lacked; null: the slot is lost.
 *
 * A change whose applier has not committed yet may be among them: then its message comes later, since the trigger store tells
 * the applier that a restored version reaches its owner, and finds its version as if a scan had found it.
 */
export async function restoreJobs(
  slot: SlotState,
  shard: ShardRun,
  jobs: readonly Job[],
  calendars: Calendars,
): Promise<number | null> {
  let lacking = 0;
  for (let from = 0; from < jobs.length; from += RESTORED_AT_ONCE) {
    if (from > 0) await slot.options.clock.sleep(0);
    if (!slot.running) return null;
    const part = jobs.slice(from, from + RESTORED_AT_ONCE);
    const results = await slot.options.stores.triggers.restore(
      shard.id,
      slot.options.epoch,
      part.flatMap((job) => restored(slot, job, calendars) ?? []),
    );
    if ('status' in results) {
      slot.lose(`epoch ${results.epoch} holds shard ${shard.id}`);
      return null;
    }
    for (const { outcome, reachesOwner } of results) {
      if (outcome !== 'applied') continue;
      lacking += 1;
      // In a shard that is whole no scan would find it.
      if (reachesOwner) shard.doubted = true;
    }
    for (const job of part) await takeUpNewer(slot, job, calendars);
  }
  return lacking;
}

/** What the trigger store must hold of a job; null: nothing (the recorder takes finished jobs away), or the wheel knows better. */
function restored(slot: SlotState, job: Job, calendars: Calendars): RestoredJob | null {
  const { number, version, state } = job;
  const live = liveOf(slot, job);
  if (state === 'finished' || (live !== null && live.version > version)) return null;
  try {
    return { number, version, score: scoreOf(slot, job, live, calendars), record: encodedRecord(job, calendars) };
  } catch (error) {
    failJob(slot, {
      shard: job.shard,
      number,
      version,
      reason: error instanceof Error ? error.message : String(error),
    });
    return null;
  }
}

function liveOf(slot: SlotState, { shard, number }: Job): Live | null {
  const entry = slot.entries.find(shard, number);
  return entry < 0 ? null : slot.entries.live[entry]!;
}

/**
 * The next effective time that is not known to be published: where the wheel has this version, what stands there; else the
 * first one after its cut and after all that was fired. 0: there is none, which the recorder then takes for the end.
 */
function scoreOf(slot: SlotState, job: Job, live: Live | null, calendars: Calendars): number | null {
  if (job.state !== 'enabled') return null;
  const { shard, number, version, cutMs } = job;
  if (live?.version === version && (live.segments.length === 0 || live.segments[0]!.plan === live.current)) {
    const entry = slot.entries.find(shard, number);
    return slot.entries.nominalMs[entry] === NO_OCCURRENCE ? 0 : slot.entries.effectiveMs[entry]!;
  }
  return nextEffective(job, Math.max(cutMs, firedToMs(slot, shard, number)), calendars) ?? 0;
}

/** A version that the wheel should have had, and has not heard of: what told the applier whom to tell was lost. */
async function takeUpNewer(slot: SlotState, job: Job, calendars: Calendars): Promise<void> {
  const { shard, number, version, cutMs, state } = job;
  const live = liveOf(slot, job);
  if (live === null || live.version >= version || state === 'finished') return;
  const record = recordOf(job, state === 'error' ? undefined : calendars.of(job.bounds));
  const plan = await planOrFail(slot, shard, number, record);
  if (!slot.running) return;
  slot.count('changes_untold_total');
  applyChange(slot, { shard, number, version, cutMs, plan, former: null, offset: -1, hold: null, done: null });
}

/** A job that the job store does not have here any more ends now, if it still stands as it did (`version`). */
export function endUntold(slot: SlotState, shard: number, number: number, version: number): void {
  const entry = slot.entries.find(shard, number);
  if (entry < 0 || slot.entries.live[entry]!.version !== version) return;
  slot.count('changes_untold_total');
  const cutMs = slot.options.clock.wallMs();
  const ended = { plan: null, former: null, offset: -1, hold: null, done: null };
  applyChange(slot, { shard, number, version: version + 1, cutMs, ...ended });
}
