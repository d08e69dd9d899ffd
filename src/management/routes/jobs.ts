import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { carillonError } from '../../core/errors.ts';
import type { JobForm, JobPatch } from '../../core/form/job-form.ts';
import { JOB_PATCH_SCHEMA, JOB_PUT_SCHEMA, JOB_SCHEMA } from '../../core/form/job-schema.ts';
import { checkKey, type Read } from '../../core/form/read.ts';
import { jobText } from '../../core/form/show.ts';
import { firedExecutionId, type JobState } from '../../core/job.ts';
import { decodeCursor, encodeCursor } from '../cursor.ts';
import type { ApiDeps } from '../deps.ts';
import type { JobService, Written } from '../job-service.ts';
import { JOB_LIST_QUERY } from '../queries.ts';
import { bodyOf, checkPrefix, idempotencyKey, ifMatch, keyOf, noBody, readQuery } from '../requests.ts';
import { checkBy } from '../validate.ts';

const LIST_DEFAULT = 100;
const JSON_TYPE = 'application/json; charset=utf-8';

const checkJob = checkBy(JOB_SCHEMA);
const checkPut = checkBy(JOB_PUT_SCHEMA);
const checkPatch = checkBy(JOB_PATCH_SCHEMA);

/** Jobs of a logical cluster: create, list, read, replace, patch, delete. */
export function jobRoutes(app: FastifyInstance, deps: ApiDeps, service: JobService): void {
  const jobs = '/v1/clusters/:cluster/jobs';
  const tags = ['jobs'];

  app.post(jobs, { schema: { tags, summary: 'Create a job', body: JOB_SCHEMA } }, async (request, reply) => {
    const cluster = await clusterOf(request, service);
    const { key, ...form } = checked<Read<JobForm>>(request, checkJob);
    checkKey(key);
    return answer(reply, service, cluster, key, await service.put(cluster, key, form, { onlyIf: 'absent' }));
  });

  app.get(jobs, { schema: { tags, summary: 'List jobs by key' } }, async (request, reply) => {
    const cluster = await clusterOf(request, service);
    const query = readQuery(request, JOB_LIST_QUERY);
    return list(deps, service, cluster, query, reply);
  });

  app.get(`${jobs}/:key`, { schema: { tags, summary: 'Read a job' } }, async (request, reply) => {
    const cluster = await clusterOf(request, service);
    readQuery(request, {});
    const job = await service.job(cluster, keyOf(request));
    return reply
      .type(JSON_TYPE)
      .header('etag', etag(job.version))
      .send(await service.text(job));
  });

  const put = { schema: { tags, summary: 'Create or replace a job', body: JOB_PUT_SCHEMA } };
  app.put(`${jobs}/:key`, put, async (request, reply) => {
    const cluster = await clusterOf(request, service);
    const key = keyOf(request);
    const { key: named, ...form } = checked<Read<Partial<JobForm> & Omit<JobForm, 'key'>>>(request, checkPut);
    if (named !== undefined && named !== key) {
      throw carillonError('request-invalid', 'the key of the body is not that of the URL', { field: 'key' });
    }
    const options = { ifMatch: ifMatch(request), ...onlyIfAbsent(request) };
    return answer(reply, service, cluster, key, await service.put(cluster, key, form, options));
  });

  const patch = { schema: { tags, summary: 'Change fields of a job', body: JOB_PATCH_SCHEMA } };
  app.patch(`${jobs}/:key`, patch, async (request, reply) => {
    const cluster = await clusterOf(request, service);
    const key = keyOf(request);
    const form = checked<Read<JobPatch>>(request, checkPatch);
    const written = await service.patch(cluster, key, form, { ifMatch: ifMatch(request) });
    return answer(reply, service, cluster, key, written);
  });

  app.delete(`${jobs}/:key`, { schema: { tags, summary: 'Delete a job' } }, async (request, reply) => {
    const cluster = await clusterOf(request, service);
    const key = keyOf(request);
    noBody(request);
    const written = await service.act(cluster, key, { kind: 'delete' }, { ifMatch: ifMatch(request) });
    return written === null ? accepted(reply, cluster, key) : reply.code(204).send();
  });
}

/** What people do to a job: pause, resume, terminate, fire. */
export function jobActionRoutes(app: FastifyInstance, deps: ApiDeps, service: JobService): void {
  const job = '/v1/clusters/:cluster/jobs/:key';
  const tags = ['jobs'];
  for (const kind of ['pause', 'resume', 'terminate'] as const) {
    app.post(`${job}/${kind}`, { schema: { tags, summary: `${kind} a job` } }, async (request, reply) => {
      const cluster = await clusterOf(request, service);
      const key = keyOf(request);
      noBody(request);
      const written = await service.act(cluster, key, { kind }, { ifMatch: ifMatch(request) });
      return answer(reply, service, cluster, key, written);
    });
  }

  const summary = 'Run a job once at once; a repeat with the same Idempotency-Key runs nothing again';
  app.post(`${job}/fire`, { schema: { tags, summary } }, async (request, reply) => {
    const cluster = await clusterOf(request, service);
    const key = keyOf(request);
    noBody(request);
    const named = idempotencyKey(request);
    const requestKey = named ?? deps.newRequestKey();
    const id = `fire/${cluster}/${key}/${requestKey}`;
    const written = await service.act(cluster, key, { kind: 'fire', requestKey }, { ifMatch: ifMatch(request), id });
    if (written?.job == null) return answer(reply, service, cluster, key, written);
    const { shard, number, fired = [] } = written.job;
    const first = fired.find((run) => run.id === id)?.atMs ?? written.atMs;
    const run = { id: firedExecutionId(shard, number, first, requestKey) };
    return answer(reply, service, cluster, key, written, run);
  });
}

export async function clusterOf(request: FastifyRequest, service: JobService): Promise<string> {
  return (await service.cluster((request.params as { cluster: string }).cluster)).name;
}

function checked<T>(request: FastifyRequest, check: (value: unknown) => void): T {
  const body = bodyOf<T>(request);
  check(body);
  return body;
}

function onlyIfAbsent(request: FastifyRequest): { onlyIf?: 'absent' } {
  const header = request.headers['if-none-match'];
  if (header === undefined) return {};
  if (header.trim() === '*') return { onlyIf: 'absent' };
  throw carillonError('request-invalid', 'If-None-Match takes * only: create, do not replace', {
    field: 'if-none-match',
  });
}

/** 201 for a new job, 200 else, both with the job as it now is; 202 where the change is in the topic and not yet applied. */
async function answer(
  reply: FastifyReply,
  service: JobService,
  cluster: string,
  key: string,
  written: Written,
  more: Record<string, unknown> = {},
): Promise<FastifyReply> {
  if (written === null) return accepted(reply, cluster, key);
  const { outcome, job } = written;
  reply.code(outcome.result === 'created' ? 201 : 200).type(JSON_TYPE);
  if (outcome.result === 'created') reply.header('location', jobUrl(cluster, key));
  // Somebody else was faster and deleted it: what was answered is what this request did.
  if (job === null) {
    const { result, version, state } = outcome;
    return reply.header('etag', etag(version)).send(JSON.stringify({ result, cluster, key, version, state, ...more }));
  }
  return reply.header('etag', etag(job.version)).send(await service.text(job, { result: outcome.result, ...more }));
}

function accepted(reply: FastifyReply, cluster: string, key: string): FastifyReply {
  const body = { result: 'accepted', cluster, key };
  return reply.code(202).header('location', jobUrl(cluster, key)).type(JSON_TYPE).send(JSON.stringify(body));
}

function jobUrl(cluster: string, key: string): string {
  return `/v1/clusters/${encodeURIComponent(cluster)}/jobs/${encodeURIComponent(key)}`;
}

function etag(version: number): string {
  return `"${version}"`;
}

interface ListQuery {
  limit?: number;
  cursor?: string;
  prefix?: string;
  state?: JobState;
}

async function list(
  deps: ApiDeps,
  service: JobService,
  cluster: string,
  { limit = LIST_DEFAULT, cursor, prefix, state }: ListQuery,
  reply: FastifyReply,
): Promise<FastifyReply> {
  if (prefix !== undefined) checkPrefix(prefix);
  const filter = { cluster, ...(prefix === undefined ? {} : { prefix }), ...(state === undefined ? {} : { state }) };
  const afterKey = cursor === undefined ? {} : { afterKey: decodeCursor(cursor, filter) };
  const page = await deps.stores.jobs.list({ ...filter, ...afterKey, limit });
  const calendars = await service.calendars(page.jobs.map(({ bounds }) => bounds.calendars));
  const jobs = page.jobs.map((job) => jobText(job, service.nextFireMs(job, calendars)));
  const next = page.next === null ? null : encodeCursor(page.next, filter);
  return reply.type(JSON_TYPE).send(`{"jobs":[${jobs.join(',')}],"next":${JSON.stringify(next)}}`);
}
