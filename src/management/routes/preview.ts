import type { FastifyInstance } from 'fastify';
import type { PreviewForm } from '../../core/form/job-form.ts';
import { PREVIEW_SCHEMA } from '../../core/form/job-schema.ts';
import { checkKey, readBounds, readSchedule } from '../../core/form/read.ts';
import { LIMITS } from '../../core/limits.ts';
import { formatInstant, parseInstant } from '../../core/schedule/iso.ts';
import { compileSchedule, firstOccurrence, nominalTimes, normalSchedule } from '../../core/schedule/schedule.ts';
import type { ApiDeps } from '../deps.ts';
import type { JobService } from '../job-service.ts';
import { bodyOf } from '../requests.ts';
import { checkBy } from '../validate.ts';

const checkPreview = checkBy(PREVIEW_SCHEMA);
const COUNT_DEFAULT = 10;

/** The next occurrences of any schedule, by the code that fires them. */
export function previewRoute(app: FastifyInstance, { clock }: ApiDeps, service: JobService): void {
  const schema = { tags: ['schedules'], summary: 'Next occurrences of a schedule', body: PREVIEW_SCHEMA };
  app.post('/v1/preview', { schema }, async (request) => {
    const form = bodyOf<PreviewForm>(request);
    checkPreview(form);
    if (form.key !== undefined) checkKey(form.key);
    const nowMs = clock.wallMs();
    const afterMs = form.after === undefined ? nowMs : parseInstant(form.after, 'after');
    const bounds = readBounds(form);
    const calendars = await service.calendars([bounds.calendars]);
    // As if the job were made at `after`: a rate without an anchor and a maximum count are counted from there.
    const context = {
      ...(form.key === undefined ? {} : { key: form.key }),
      createdMs: afterMs,
      calendar: calendars.named,
    };
    const normal = normalSchedule(readSchedule(form.schedule, nowMs), bounds, context);
    const compiled = compileSchedule(normal.schedule, normal.bounds, context);
    firstOccurrence(compiled, normal.schedule, afterMs);
    const times = nominalTimes(compiled, afterMs, LIMITS.timeMaxMs, form.count ?? COUNT_DEFAULT);
    const occurrences = times.map((at) => ({
      nominal: formatInstant(at),
      effective: formatInstant(at + compiled.offsetMs),
    }));
    return { occurrences };
  });
}
