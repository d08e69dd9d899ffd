import { Readable } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import { carillonError } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { formatInstant } from '../../core/schedule/iso.ts';
import type { Operation } from '../../ports/operation-store.ts';
import { putArray } from '../bulk/array.ts';
import { LineThreads } from '../bulk/threads.ts';
import { Uploads } from '../bulk/upload.ts';
import type { ApiDeps } from '../deps.ts';
import type { JobService } from '../job-service.ts';
import { OPERATIONS_QUERY } from '../queries.ts';
import { bodyOf, idempotencyKey, readQuery, TAKES_LINES } from '../requests.ts';
import { clusterOf } from './jobs.ts';

const OPERATIONS_DEFAULT = 50;

/** Bulk registration and its operations. */
export function bulkRoutes(app: FastifyInstance, deps: ApiDeps, service: JobService): void {
  const { operations } = deps.stores;
  const threads = new LineThreads(deps.options.bulkThreads);
  const uploads = new Uploads(deps, threads);
  app.addHook('onClose', () => threads.close());
  const tags = ['bulk'];

  const bulk = {
    schema: {
      tags,
      summary:
        'Put many jobs: a stream of lines (application/x-ndjson), or an array of at most 1,000 that is answered item by item',
    },
    bodyLimit: LIMITS.bulkArrayBytes,
    config: TAKES_LINES,
  };
  app.post('/v1/clusters/:cluster/jobs::bulk', bulk, async (request, reply) => {
    const cluster = await clusterOf(request, service);
    const named = idempotencyKey(request);
    const body = bodyOf<unknown>(request);
    if (Array.isArray(body)) {
      const calendars = await service.calendars([[]]);
      return reply.send(await putArray(deps, cluster, body, calendars, named));
    }
    if (!(body instanceof Readable)) {
      throw carillonError('request-invalid', 'the body must be an array of jobs, or a stream of lines', {
        field: 'body',
      });
    }
    try {
      const operation = await uploads.run(cluster, named ?? deps.newRequestKey(), body);
      return reply.code(202).header('location', operationUrl(operation)).send(show(operation));
    } catch (error) {
      // The rest of the stream is not read: the connection cannot be used again.
      reply.header('connection', 'close');
      throw error;
    }
  });

  const list = '/v1/clusters/:cluster/operations';
  app.get(list, { schema: { tags, summary: 'List bulk operations, newest first' } }, async (request) => {
    const cluster = await clusterOf(request, service);
    const { limit = OPERATIONS_DEFAULT } = readQuery(request, OPERATIONS_QUERY);
    return { operations: (await operations.list(cluster, limit)).map(show) };
  });

  app.get(
    `${list}/:key`,
    { schema: { tags, summary: 'Progress, counts and errors of a bulk operation' } },
    async (request) => {
      const cluster = await clusterOf(request, service);
      readQuery(request, {});
      const { key } = request.params as { key: string };
      const operation = await operations.get(cluster, key);
      if (operation === null) throw carillonError('operation-not-found', `"${key.slice(0, 80)}"`, { field: 'key' });
      return show(operation);
    },
  );
}

function operationUrl({ cluster, key }: Operation): string {
  return `/v1/clusters/${encodeURIComponent(cluster)}/operations/${encodeURIComponent(key)}`;
}

/** `done` = every line is in the topic and every one has its result. */
function show(operation: Operation) {
  const { cluster, key, state, startedMs, acceptedMs, lines, counts } = operation;
  const results = counts.created + counts.updated + counts.unchanged + counts.failed;
  return {
    cluster,
    key,
    state: state === 'accepted' && results >= lines ? 'done' : state,
    startedAt: formatInstant(startedMs),
    acceptedAt: acceptedMs === null ? null : formatInstant(acceptedMs),
    lines,
    counts,
    errors: operation.errors.toSorted((a, b) => a.line - b.line),
  };
}
