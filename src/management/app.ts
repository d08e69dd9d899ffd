import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { CarillonError, carillonError } from '../core/errors.ts';
import { LIMITS } from '../core/limits.ts';
import { keyCheck } from './auth.ts';
import { answerBrokenRequest, answerExpectation } from './broken-request.ts';
import type { ApiDeps } from './deps.ts';
import { JobService } from './job-service.ts';
import { addDocumentation } from './openapi/document.ts';
import { INTERNAL, knownError, PROBLEM_TYPE, type Problem, problemOf } from './problem.ts';
import { addBodyParsers, checkEnvelope, noQuery } from './requests.ts';
import { bulkRoutes } from './routes/bulk.ts';
import { calendarRoutes } from './routes/calendars.ts';
import { clusterRoutes } from './routes/clusters.ts';
import { jobActionRoutes, jobRoutes } from './routes/jobs.ts';
import { previewRoute } from './routes/preview.ts';
import { systemRoutes } from './routes/system.ts';
import { triggerRoutes } from './routes/triggers.ts';

/** A socket without traffic is closed after this, in ms; an upload that waits for the bus may be repeated then. */
const SOCKET_IDLE_MS = 120_000;
/** Longest part of a URL: a key of 255 bytes has at most 765 characters; longer ones are refused by the key's own check. */
const PARAMETER_CHARACTERS = 16_384;

/** The management API, apart from listening; `inject` reaches every route without a socket. */
export async function buildApi(deps: ApiDeps): Promise<FastifyInstance> {
  const checkKey = keyCheck(deps.options.apiKey);
  const app = fastify({
    bodyLimit: LIMITS.bodyBytes,
    connectionTimeout: SOCKET_IDLE_MS,
    // A bulk upload has no end that could be told before; what is idle is closed by the line above.
    requestTimeout: 0,
    forceCloseConnections: true,
    return503OnClosing: true,
    routerOptions: { maxParamLength: PARAMETER_CHARACTERS },
    clientErrorHandler: answerBrokenRequest,
    // A request without one is refused by checkEnvelope, as a problem like any other.
    http: { requireHostHeader: false },
    // These come before all hooks: whoever has no key learns nothing of the URL.
    frameworkErrors: (error, request, reply) => {
      sendError(keyFault(checkKey, request) ?? error, reply, deps);
    },
  });
  app.server.on('checkExpectation', answerExpectation);
  app.addHook('onRequest', async (request) => {
    checkKey(request);
    checkEnvelope(request);
  });
  app.setErrorHandler((error, request, reply) => {
    // What Fastify finds wrong with a request for a route that is not there is no matter.
    const unmatched = request.is404 && !(error instanceof CarillonError);
    return sendError(unmatched ? noRoute(request) : error, reply, deps);
  });
  app.setNotFoundHandler((request, reply) => sendError(noRoute(request), reply, deps));
  // Bodies are checked by the routes, with words of our own; the schemas of routes are for the documentation.
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => JSON.stringify);
  addBodyParsers(app);
  const routes = collectRoutes(app);
  await addDocumentation(app, { version: deps.options.version, keyed: deps.options.apiKey !== null });
  // In a plugin: routes are seen by swagger when they come after it.
  await app.register(async (api) => {
    const service = new JobService(deps);
    api.addHook('preHandler', noQuery);
    systemRoutes(api, deps);
    api.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger());
    clusterRoutes(api, deps, service);
    jobRoutes(api, deps, service);
    jobActionRoutes(api, deps, service);
    bulkRoutes(api, deps, service);
    calendarRoutes(api, deps);
    previewRoute(api, deps, service);
    triggerRoutes(api, deps, service);
    refuseOtherMethods(api, routes);
  });
  await app.ready();
  return app;
}

function keyFault(checkKey: (request: FastifyRequest) => void, request: FastifyRequest): unknown {
  try {
    checkKey(request);
    return null;
  } catch (error) {
    return error;
  }
}

function noRoute({ method, url }: FastifyRequest): Error {
  return carillonError('route-not-found', `${method} ${url.split('?', 1)[0]!.slice(0, 200)}`, { field: 'url' });
}

/** The methods of every route, by its path. */
function collectRoutes(app: FastifyInstance): Map<string, Set<string>> {
  const routes = new Map<string, Set<string>>();
  app.addHook('onRoute', ({ url, method }) => {
    const methods = routes.get(url) ?? new Set();
    for (const one of [method].flat()) methods.add(one);
    if (methods.has('GET')) methods.add('HEAD');
    routes.set(url, methods);
  });
  return routes;
}

/** A known path with a method that it does not take is 405 with `Allow`, not 404. */
function refuseOtherMethods(app: FastifyInstance, routes: ReadonlyMap<string, ReadonlySet<string>>): void {
  for (const [url, taken] of [...routes]) {
    const allow = [...taken].sort().join(', ');
    const method = app.supportedMethods.filter((one) => !taken.has(one));
    app.route({
      url,
      method,
      schema: { hide: true },
      // Refused before the body is read.
      onRequest: async (_request, reply) => {
        reply.header('allow', allow);
        throw carillonError('method-not-allowed', `it takes ${allow}`, { field: 'method' });
      },
      handler: async () => {},
    });
  }
}

function sendError(error: unknown, reply: FastifyReply, deps: ApiDeps): FastifyReply {
  const known = knownError(error);
  if (known === null)
    deps.telemetry.event('error', 'a request failed', { error: String((error as Error)?.stack ?? error) });
  const problem: Problem = known === null ? INTERNAL : problemOf(known);
  deps.telemetry.count('api_problems_total', { code: problem.code });
  if (problem.status === 401) reply.header('www-authenticate', 'Bearer');
  if (problem.status === 429 || problem.status === 503) reply.header('retry-after', '1');
  return reply
    .code(problem.status)
    .type(PROBLEM_TYPE)
    .send(Buffer.from(JSON.stringify(problem)));
}
