import { type TriggerHead, triggerHead } from '../../core/envelope.ts';
import type { Cluster, JobRecord, MisfirePolicy } from '../../core/job.ts';
import { Calendar } from '../../core/schedule/calendar.ts';
import { type CompiledSchedule, compileSchedule, NO_OCCURRENCE } from '../../core/schedule/schedule.ts';

/** Where the triggers of one version of a job go, and what is constant in them. */
export interface Target {
  cluster: string;
  topic: string;
  head: TriggerHead;
}

/** One version of a job, ready to fire. */
export interface Plan extends Target {
  /** Occurrences after this instant belong to this version, UTC ms. */
  cutMs: number;
  schedule: CompiledSchedule;
  /** As in the schedule: constant spread offset, and the period of a rate without bounds (0: ask the schedule), in ms. */
  offsetMs: number;
  everyMs: number;
  misfire: MisfirePolicy;
  /** Whether its schedule names one time. */
  once: boolean;
}

/** Effective times of a schedule in [fromMs, toMs] that were published, UTC ms. */
export interface Fired {
  schedule: Pick<CompiledSchedule, 'offsetMs' | 'next' | 'last'>;
  fromMs: number;
  toMs: number;
}

/**
 * A stretch of a job's life in which one version rules: its occurrences with nominal time above `afterMs` and effective
 * time up to `untilMs` (Infinity: the version in force) are owed, except those that another version has `fired`.
 */
export interface Segment {
  plan: Plan;
  afterMs: number;
  untilMs: number;
  fired: Fired[];
}

export function targetOf(record: JobRecord, cluster: Cluster, epoch: number): Target {
  return { cluster: cluster.name, topic: cluster.topic, head: triggerHead(cluster, record, epoch) };
}

/** @throws CarillonError when the schedule cannot be compiled: that job goes into the error state, others go on. */
export function planOf(record: JobRecord, cluster: Cluster, epoch: number): Plan {
  const { key, createdMs, calendars = {}, schedule, bounds, misfire } = record;
  const calendar = (name: string): Calendar | undefined => {
    const definition = calendars[name];
    return definition === undefined ? undefined : new Calendar(definition);
  };
  const compiled = compileSchedule(schedule, bounds, { key, createdMs, calendar });
  const { topic, head, cluster: name } = targetOf(record, cluster, epoch);
  const { offsetMs, everyMs } = compiled;
  const once = schedule.kind === 'once';
  return { cluster: name, topic, head, cutMs: record.cutMs, schedule: compiled, offsetMs, everyMs, misfire, once };
}

/** The first owed nominal time of a segment after a nominal time, or NO_OCCURRENCE. */
export function nextIn(segment: Segment, afterMs: number): number {
  const { schedule } = segment.plan;
  let at = schedule.next(afterMs);
  while (at !== NO_OCCURRENCE && segment.fired.length > 0 && wasFired(segment, at)) at = schedule.next(at);
  return at !== NO_OCCURRENCE && at + schedule.offsetMs <= segment.untilMs ? at : NO_OCCURRENCE;
}

function wasFired(segment: Segment, nominalMs: number): boolean {
  return segment.fired.some(({ schedule, fromMs, toMs }) => {
    const effective = nominalMs + schedule.offsetMs;
    return effective >= fromMs && effective <= toMs && schedule.next(nominalMs - 1) === nominalMs;
  });
}

/** Where a job stands: the next owed occurrence and the segment that it lies in. */
export interface Position {
  segment: number;
  nominalMs: number;
  effectiveMs: number;
}

/** The first owed occurrence after a nominal time of the first segment (absent: from its beginning), or null: none is left. */
export function positionAfter(segments: readonly Segment[], nominalMs?: number): Position | null {
  for (const [index, segment] of segments.entries()) {
    const after = index === 0 && nominalMs !== undefined ? nominalMs : segment.afterMs;
    const next = nextIn(segment, after);
    if (next !== NO_OCCURRENCE) {
      return { segment: index, nominalMs: next, effectiveMs: next + segment.plan.schedule.offsetMs };
    }
  }
  return null;
}
