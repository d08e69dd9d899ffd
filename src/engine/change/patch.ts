import { carillonError } from '../../core/errors.ts';
import type { Job, JobDefinition } from '../../core/job.ts';
import { LIMITS } from '../../core/limits.ts';
import type { DefinitionPatch } from '../../core/messages.ts';
import type { Schedule } from '../../core/schedule/types.ts';

const DEFAULT_PAYLOAD = { payload: 'null', contentType: 'application/json' };

/** Members of a schedule by its kind: a patch may have left one over that the new kind does not have. */
const MEMBERS: Readonly<Record<Schedule['kind'], readonly string[]>> = {
  cron: ['kind', 'expression', 'zone', 'gap', 'overlap'],
  rate: ['kind', 'everyMs', 'anchorMs'],
  once: ['kind', 'atMs'],
};

/**
 * The definition of a job after a merge patch. The stored job is in normal form: its end may come from a maximum count, and
 * goes when that count is taken away or replaced.
 *
 * @throws CarillonError `request-invalid` for a member that the schedule's kind does not have
 */
export function patched(job: Job, patch: DefinitionPatch): JobDefinition {
  const bounds: Record<string, unknown> = { ...job.bounds };
  const recounts = patch.bounds?.maxCount !== undefined && job.counted !== undefined;
  if (recounts && patch.bounds?.endMs === undefined) delete bounds['endMs'];
  const definition: Record<string, unknown> = {
    schedule: patchedSchedule(job.schedule, patch.schedule),
    bounds: merged(bounds, patch.bounds),
    misfire: patch.misfire === null ? { mode: 'once' } : { mode: 'once', ...merged({ ...job.misfire }, patch.misfire) },
    payload: patch.payload ?? job.payload,
    contentType: patch.contentType === null ? DEFAULT_PAYLOAD.contentType : (patch.contentType ?? job.contentType),
  };
  const description = patch.description === undefined ? job.description : patch.description;
  if (description !== undefined && description !== null) definition['description'] = description;
  const labels = patch.labels === null ? {} : merged({ ...job.labels }, patch.labels);
  const { length } = Object.keys(labels);
  if (length > LIMITS.labelsPerJob) {
    throw carillonError('request-invalid', `labels: the job would have ${length}, at most ${LIMITS.labelsPerJob}`, {
      field: 'labels',
    });
  }
  if (length > 0) definition['labels'] = labels;
  return definition as unknown as JobDefinition;
}

/** The member that each kind needs. */
const NEEDED = { cron: 'expression', rate: 'everyMs', once: 'atMs' } as const;

/**
 * The schedule that a patch names with its kind and all that this kind needs; null where it changes only parts of the stored
 * one. What it leaves out may still be kept of a stored one of the same kind.
 *
 * @throws as `patched`
 */
export function wholeSchedule(patch: Record<string, unknown>): Schedule | null {
  const needed = NEEDED[patch['kind'] as Schedule['kind']] as string | undefined;
  if (needed === undefined || patch[needed] === undefined || Object.values(patch).includes(null)) return null;
  return checkedMembers({ ...patch } as unknown as Schedule);
}

function patchedSchedule(schedule: Schedule, patch: Record<string, unknown> | undefined): Schedule {
  if (patch === undefined) return schedule;
  const otherKind = patch['kind'] !== undefined && patch['kind'] !== schedule.kind;
  return checkedMembers(merged(otherKind ? {} : { ...schedule }, patch) as unknown as Schedule);
}

function checkedMembers(result: Schedule): Schedule {
  const members = MEMBERS[result.kind];
  const stranger = Object.keys(result).find((member) => !members?.includes(member));
  if (stranger !== undefined) {
    throw carillonError('request-invalid', `a schedule of kind "${result.kind}" has no ${stranger}`, {
      field: `schedule.${stranger}`,
      token: stranger,
    });
  }
  return result;
}

/** Sets members and takes those away that are null. */
function merged(target: Record<string, unknown>, patch: object | undefined): Record<string, unknown> {
  for (const [member, value] of Object.entries(patch ?? {})) {
    if (value === null) delete target[member];
    else target[member] = value;
  }
  return target;
}
