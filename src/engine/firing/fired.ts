import type { Cursor } from '../../core/messages.ts';
import { NO_OCCURRENCE } from '../../core/schedule/schedule.ts';
import type { Live } from './entries.ts';
import type { Fired } from './plan.ts';

type Named = NonNullable<Cursor['fired']>;

/** Times that a cursor names at most: those of 100 s at the shortest period. */
const TIMES_MOST = 1_000;

/**
 * What a version before had published after its cut, since its owner heard late of the change, stands in the message as long as
 * that is not covered. A cursor that covers it names the times beyond `fromMs` one by one: a new owner has no other way to know
 * them. Null: they are too many, so the cursor does not cover the message.
 */
export function firedBeyond({ segments }: Live, fromMs: number): Named | null {
  const all: Named = [];
  let room = TIMES_MOST;
  for (const fired of segments.at(-1)?.fired ?? []) {
    const times = timesOf(fired, fromMs, room);
    if (times === null) return null;
    if (times.length > 0) all.push({ offsetMs: fired.schedule.offsetMs, times });
    room -= times.length;
  }
  return all;
}

function timesOf({ schedule, fromMs, toMs }: Fired, beyondMs: number, most: number): number[] | null {
  const { offsetMs } = schedule;
  const times: number[] = [];
  let at = schedule.next(Math.max(fromMs - 1, beyondMs) - offsetMs);
  for (; at !== NO_OCCURRENCE && at + offsetMs <= toMs; at = schedule.next(at)) {
    if (times.length === most) return null;
    times.push(at);
  }
  return times;
}

/** The same as the segments of an entry have it. */
export function firedAsNamed(named: Named): Fired[] {
  return named.map(({ offsetMs, times }) => ({
    schedule: {
      offsetMs,
      next: (afterMs) => times.find((at) => at > afterMs) ?? NO_OCCURRENCE,
      last: (upToMs, afterMs) => times.findLast((at) => at <= upToMs && at > afterMs) ?? NO_OCCURRENCE,
    },
    fromMs: 0,
    toMs: (times.at(-1) ?? 0) + offsetMs,
  }));
}
