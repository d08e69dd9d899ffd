import swagger from '@fastify/swagger';
import type { FastifyInstance, FastifySchema, RouteOptions } from 'fastify';
import { ERRORS, type ErrorCode } from '../../core/errors.ts';
import { PROBLEM_TYPE } from '../problem.ts';
import type { QueryKind, QuerySpec } from '../queries.ts';
import { ANSWER_HEADERS, OPERATIONS, type Operation, REQUEST_HEADERS } from './operations.ts';
import { ANSWERS, refTo } from './schemas.ts';

/** Routes that need no key. */
const OPEN = ['/healthz', '/readyz'];
/** What every route may give, whatever it does. */
const COMMON: readonly ErrorCode[] = ['request-malformed', 'request-invalid', 'internal', 'unavailable'];

/**
 * Describes every route that is added from now on, for `app.swagger()`. A route that `OPERATIONS` does not know is refused at
 * start: nothing is served that is not described.
 */
export async function addDocumentation(app: FastifyInstance, { version, keyed }: { version: string; keyed: boolean }) {
  for (const [name, schema] of Object.entries(ANSWERS)) app.addSchema({ $id: name, ...schema });
  app.addHook('onRoute', (route) => {
    if (route.method === 'HEAD' || route.schema?.hide) return;
    route.schema = described(route, keyed);
  });
  await app.register(swagger, {
    refResolver: { buildLocalReference: (json, _base, _fragment, i) => String(json['$id'] ?? `def-${i}`) },
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Carillon', version, description: 'Jobs and their schedules' },
      components: { securitySchemes: { key: { type: 'http', scheme: 'bearer' } } },
    },
  });
}

function described({ method, url, schema = {} }: RouteOptions, keyed: boolean): FastifySchema {
  const operation = OPERATIONS[`${String(method)} ${url}`];
  if (operation === undefined)
    throw new Error(`the route ${String(method)} ${url} is not described in openapi/operations.ts`);
  const { query, headers, body } = operation;
  const needsKey = keyed && !OPEN.includes(url);
  return {
    ...schema,
    ...(query && { querystring: querySchema(query) }),
    ...(headers && { headers: { type: 'object', properties: texts(REQUEST_HEADERS, headers) } }),
    ...(body && { body: { content: content(body) } }),
    ...(needsKey && { security: [{ key: [] }] }),
    response: { ...answersOf(operation), ...problemsOf(operation, needsKey) },
  };
}

function answersOf({ answers }: Operation): Record<string, object> {
  const described = Object.entries(answers).map(([status, answer]) => [
    status,
    {
      description: answer.description,
      ...(answer.headers && { headers: texts(ANSWER_HEADERS, answer.headers) }),
      // Without a body there is no type; null is how the library is told so.
      ...(answer.content ? { content: content(answer.content) } : { type: 'null' }),
    },
  ]);
  return Object.fromEntries(described);
}

/** The problems of a route by status, with the codes that they may have. A status that is an answer too stays that. */
function problemsOf({ answers, problems = [] }: Operation, needsKey: boolean): Record<string, object> {
  const codes = [...new Set<ErrorCode>([...COMMON, ...(needsKey ? (['unauthorized'] as const) : []), ...problems])];
  const statuses = new Set(codes.map((code) => ERRORS[code].status).filter((status) => !(status in answers)));
  const described = [...statuses].sort().map((status) => {
    const ofStatus = codes.filter((code) => ERRORS[code].status === status);
    const description = ofStatus.map((code) => `${code}: ${ERRORS[code].title}`).join('; ');
    return [status, { description, content: { [PROBLEM_TYPE]: { schema: refTo('Problem') } } }];
  });
  return Object.fromEntries(described);
}

function content(bodies: Readonly<Record<string, object>>): Record<string, { schema: object }> {
  return Object.fromEntries(Object.entries(bodies).map(([type, schema]) => [type, { schema }]));
}

function texts<T extends Readonly<Record<string, string>>>(
  all: T,
  names: readonly (keyof T)[],
): Record<string, object> {
  return Object.fromEntries(names.map((name) => [name, { type: 'string', description: all[name] }]));
}

function querySchema(spec: QuerySpec): object {
  const properties = Object.entries(spec).map(([name, kind]) => [name, parameterSchema(kind)]);
  return { type: 'object', properties: Object.fromEntries(properties) };
}

function parameterSchema(kind: QueryKind): object {
  if (kind === 'text') return { type: 'string', minLength: 1 };
  return 'min' in kind ? { type: 'integer', minimum: kind.min, maximum: kind.max } : { enum: kind };
}
