import type { Job, JobDefinition } from '../../../src/core/job.ts';
import type { Change, ChangeAction } from '../../../src/core/messages.ts';
import { Calendars } from '../../../src/engine/change/calendars.ts';
import { decide } from '../../../src/engine/change/decide.ts';
import type { Decision } from '../../../src/engine/change/writing.ts';

/** 2027-01-01T12:00:00Z, a Friday. */
export const NOON = Date.UTC(2027, 0, 1, 12);

export function definition(fields: Partial<JobDefinition> = {}): JobDefinition {
  return {
    schedule: { kind: 'rate', everyMs: 5_000 },
    bounds: {},
    misfire: { mode: 'once' },
    payload: '{"a":1}',
    contentType: 'application/json',
    ...fields,
  };
}

export function put(
  fields: Partial<JobDefinition> = {},
  more: { paused?: boolean; onlyIf?: 'absent' | 'present' } = {},
): ChangeAction {
  return { kind: 'put', definition: definition(fields), ...more };
}

let ids = 0;

export function change(action: ChangeAction, fields: Partial<Change> = {}): Change {
  ids += 1;
  return { v: 1, id: `c${ids}`, cluster: 'team', key: 'job', atMs: NOON, action, ...fields };
}

/** Applies changes one after the other to no job, and answers the last decision with the job that stands then. */
export function decided(...changes: Change[]): Decision & { job: Job | null } {
  let job: Job | null = null;
  let decision: Decision = { outcome: { ok: false, code: 'internal', detail: '' }, next: null };
  for (const [offset, one] of changes.entries()) {
    decision = step(job, one, offset);
    job = decision.next ?? job;
  }
  return { ...decision, job };
}

export function step(
  job: Job | null,
  one: Change,
  offset = 1_000,
  calendars = new Calendars(),
  nowMs = one.atMs,
): Decision {
  return decide(job, one, {
    position: { partition: 0, offset },
    calendars,
    takePlace: () => ({ shard: 7, number: 1_000 + offset }),
    uncommittedFrom: offset,
    nowMs,
  });
}
