import { isDeepStrictEqual } from 'node:util';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { carillonError } from '../../core/errors.ts';
import { CALENDAR_SCHEMA } from '../../core/form/job-schema.ts';
import { checkKey } from '../../core/form/read.ts';
import { Calendar } from '../../core/schedule/calendar.ts';
import type { CalendarDefinition } from '../../core/schedule/types.ts';
import type { StoredCalendar } from '../../ports/catalog-store.ts';
import type { ApiDeps } from '../deps.ts';
import { recompute } from '../recompute.ts';
import { bodyOf, ifMatch, noBody, readQuery } from '../requests.ts';
import { checkBy } from '../validate.ts';

const checkCalendar = checkBy(CALENDAR_SCHEMA);

/** Exclusion calendars: named, shared by jobs. */
export function calendarRoutes(app: FastifyInstance, deps: ApiDeps): void {
  const { catalog, jobs } = deps.stores;
  const tags = ['calendars'];

  app.get('/v1/calendars', { schema: { tags, summary: 'List exclusion calendars' } }, async (request) => {
    readQuery(request, {});
    return { calendars: (await catalog.calendars()).map(show) };
  });

  const one = '/v1/calendars/:name';
  app.get(one, { schema: { tags, summary: 'Read an exclusion calendar' } }, async (request, reply) => {
    readQuery(request, {});
    const calendar = await found(deps, nameOf(request));
    return reply.header('etag', `"${calendar.version}"`).send(show(calendar));
  });

  const put = {
    schema: { tags, summary: 'Create or replace a calendar; its jobs are timed anew', body: CALENDAR_SCHEMA },
  };
  app.put(one, put, async (request, reply) => {
    const name = nameOf(request);
    const definition = bodyOf<CalendarDefinition>(request);
    checkCalendar(definition);
    new Calendar(definition);
    const stored = await catalog.calendar(name);
    checkVersion(request, stored);
    // The same again is not a new version, but its jobs are told again: the first time may have ended half way.
    const same = stored !== null && isDeepStrictEqual(stored.definition, definition);
    const calendar = same ? stored : { name, version: (stored?.version ?? 0) + 1, definition };
    if (!same && !(await catalog.putCalendar(calendar))) throw changedMeanwhile();
    const recomputed = await recompute(deps, { calendar: name }, `calendar/${name}/${calendar.version}`);
    reply.code(stored === null ? 201 : 200).header('etag', `"${calendar.version}"`);
    if (stored === null) reply.header('location', `/v1/calendars/${encodeURIComponent(name)}`);
    return { ...show(calendar), recomputed };
  });

  app.delete(one, { schema: { tags, summary: 'Delete a calendar that no job uses' } }, async (request, reply) => {
    const name = nameOf(request);
    noBody(request);
    const stored = await found(deps, name);
    checkVersion(request, stored);
    const [user] = await jobs.using({ calendar: name }, null, 1);
    if (user !== undefined) {
      throw carillonError('calendar-in-use', `for one by "${user.key}" in cluster "${user.cluster}"`, {
        field: 'name',
      });
    }
    if (!(await catalog.deleteCalendar(name, stored.version))) throw changedMeanwhile();
    return reply.code(204).send();
  });
}

function nameOf(request: FastifyRequest): string {
  const { name } = request.params as { name: string };
  checkKey(name, 'name');
  return name;
}

async function found({ stores }: ApiDeps, name: string): Promise<StoredCalendar> {
  const calendar = await stores.catalog.calendar(name);
  if (calendar === null) throw carillonError('calendar-not-found', `"${name}"`, { field: 'name' });
  return calendar;
}

function checkVersion(request: FastifyRequest, stored: StoredCalendar | null): void {
  const wanted = ifMatch(request);
  if (wanted === undefined || (wanted === '*' && stored !== null) || wanted === stored?.version) return;
  throw carillonError('version-mismatch', `the calendar has version ${stored?.version ?? 'none'}`, {
    field: 'if-match',
  });
}

function changedMeanwhile(): Error {
  return carillonError('version-mismatch', 'the calendar was changed at the same time; read it again');
}

function show({ name, version, definition }: StoredCalendar) {
  return { name, version, definition };
}
