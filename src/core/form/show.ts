import type { AnsweredJob } from '../messages.ts';
import { formatInstant } from '../schedule/iso.ts';
import type { Schedule } from '../schedule/types.ts';
import type { JobView, ScheduleForm } from './job-form.ts';

/** A job as it is answered, without its payload, whose text is put in as it is (`jobText`). */
function viewOf(job: AnsweredJob, nextFireMs: number | null): Omit<JobView, 'payload'> {
  const { bounds, counted } = job;
  return {
    cluster: job.cluster,
    key: job.key,
    version: job.version,
    state: job.state,
    ...(job.stateReason === undefined ? {} : { stateReason: job.stateReason }),
    schedule: showSchedule(job.schedule),
    ...(bounds.startMs === undefined ? {} : { start: formatInstant(bounds.startMs) }),
    ...(bounds.endMs === undefined ? {} : { end: formatInstant(bounds.endMs) }),
    ...(counted === undefined ? {} : { maxCount: counted.maxCount }),
    ...(bounds.spreadMs === undefined ? {} : { spreadMs: bounds.spreadMs }),
    ...(bounds.calendars === undefined ? {} : { calendars: bounds.calendars }),
    misfire: job.misfire,
    contentType: job.contentType,
    ...(job.description === undefined ? {} : { description: job.description }),
    ...(job.labels === undefined ? {} : { labels: job.labels }),
    nextFireAt: nextFireMs === null ? null : formatInstant(nextFireMs),
    createdAt: formatInstant(job.createdMs),
    updatedAt: formatInstant(job.updatedMs),
    shard: job.shard,
    number: job.number,
  };
}

function showSchedule(schedule: Schedule): ScheduleForm {
  switch (schedule.kind) {
    case 'cron':
      return schedule;
    case 'rate': {
      const { kind, everyMs, anchorMs } = schedule;
      return anchorMs === undefined ? { kind, everyMs } : { kind, everyMs, anchor: formatInstant(anchorMs) };
    }
    case 'once':
      return { kind: 'once', at: formatInstant(schedule.atMs) };
  }
}

/** JSON text of a job's answer; `more` are further members of this answer. The payload stands in it byte for byte. */
export function jobText(job: AnsweredJob, nextFireMs: number | null, more: Record<string, unknown> = {}): string {
  const head = JSON.stringify({ ...more, ...viewOf(job, nextFireMs) });
  return `${head.slice(0, -1)},"payload":${job.payload}}`;
}
