import type { FastifyInstance, FastifyRequest } from 'fastify';
import { carillonError } from '../core/errors.ts';
import { checkKey } from '../core/form/read.ts';
import { LIMITS } from '../core/limits.ts';
import { readJson, utf8Text } from './json-source.ts';
import type { QueryKind, QuerySpec } from './queries.ts';

/** Media types that are read as JSON and, for the bulk route only, as a stream of lines. */
const JSON_TYPES = ['application/json', 'application/merge-patch+json'];
const LINES_TYPES = ['application/x-ndjson', 'application/ndjson', 'application/jsonl'];

/** Replaces Fastify's own body parsers: strict JSON with the payload's text kept, and lines as a stream. */
export function addBodyParsers(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(JSON_TYPES, { parseAs: 'buffer' }, (request, body, done) => {
    try {
      checkCharset(request);
      done(null, body.length === 0 ? undefined : readJson(utf8Text(body as Buffer)));
    } catch (error) {
      done(error as Error);
    }
  });
  app.addContentTypeParser(LINES_TYPES, (request, stream, done) => {
    try {
      checkTakesLines(request);
      checkCharset(request);
      done(null, stream);
    } catch (error) {
      done(error as Error);
    }
  });
}

/** `config` of a route that takes a stream of lines. */
export const TAKES_LINES = { takesLines: true };

function checkTakesLines({ routeOptions, headers }: FastifyRequest): void {
  if ((routeOptions.config as Partial<typeof TAKES_LINES>).takesLines) return;
  throw carillonError('media-type-unsupported', 'this route takes application/json; lines are for jobs:bulk', {
    field: 'content-type',
    token: headers['content-type'] ?? '',
  });
}

function checkCharset(request: FastifyRequest): void {
  const charset = /;\s*charset\s*=\s*"?([^";\s]*)/i.exec(request.headers['content-type'] ?? '')?.[1];
  if (charset === undefined || /^utf-?8$/i.test(charset)) return;
  throw carillonError('media-type-unsupported', `JSON is UTF-8; charset ${charset} is not taken`, {
    field: 'content-type',
    token: charset,
  });
}

/**
 * What holds for every request before its body is looked at: one Host (RFC 9112, 3.2), and no compression (a small body could
 * unpack to any size).
 */
export function checkEnvelope(request: FastifyRequest): void {
  const { httpVersion, rawHeaders } = request.raw;
  const hosts = rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === 'host').length;
  if (hosts !== 1 && httpVersion === '1.1') {
    throw carillonError('request-malformed', `${hosts} Host headers; a request has one`, { field: 'host' });
  }
  const encoding = request.headers['content-encoding'];
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw carillonError('media-type-unsupported', 'compressed bodies are not taken; send it as it is', {
      field: 'content-encoding',
      token: encoding.slice(0, 40),
    });
  }
}

/** The body of a route that needs one. */
export function bodyOf<T>(request: FastifyRequest): T {
  if (request.body === undefined || request.body === null) {
    throw carillonError('request-malformed', 'JSON: a body is expected and the text ends at character 0', {
      field: 'body',
    });
  }
  return request.body as T;
}

/** The body of a route that takes none: absent or an empty object. */
export function noBody(request: FastifyRequest): void {
  const { body } = request;
  if (body === undefined || body === null) return;
  const members = typeof body === 'object' && !Array.isArray(body) ? Object.keys(body) : ['body'];
  if (members.length === 0) return;
  throw carillonError('request-invalid', `this route takes no fields: ${members.join(', ').slice(0, 200)}`, {
    field: members[0]!,
  });
}

/** Of the routes that change something none has a parameter: one that is given (`?dryRun=true`) would be passed over. */
export async function noQuery(request: FastifyRequest): Promise<void> {
  if (request.method !== 'GET' && request.method !== 'HEAD') readQuery(request, {});
}

export type QueryOf<S> = {
  [N in keyof S]?: S[N] extends 'text' ? string : S[N] extends readonly (infer C)[] ? C : number;
};

/** Reads the query string strictly: unknown, repeated, empty and broken parameters are refused, each with its name. */
export function readQuery<const S extends QuerySpec>(request: FastifyRequest, spec: S): QueryOf<S> {
  const start = request.raw.url!.indexOf('?');
  const result: Record<string, string | number> = {};
  const parts = start < 0 ? [] : request.raw.url!.slice(start + 1).split('&');
  for (const part of parts) {
    if (part === '' && parts.length === 1) continue;
    const equals = part.indexOf('=');
    const name = decoded(equals < 0 ? part : part.slice(0, equals), 'query');
    if (!Object.hasOwn(spec, name)) {
      const known = Object.keys(spec).join(', ') || 'none';
      throw queryFault(name.slice(0, 60) || 'query', `is not a known parameter; known: ${known}`);
    }
    if (Object.hasOwn(result, name)) throw queryFault(name, 'stands twice');
    result[name] = queryValue(name, decoded(equals < 0 ? '' : part.slice(equals + 1), name), spec[name]!);
  }
  return result as QueryOf<S>;
}

function queryValue(name: string, text: string, kind: QueryKind): string | number {
  if (kind === 'text') {
    if (text === '') throw queryFault(name, 'is empty');
    return text;
  }
  if ('min' in kind) {
    const value = /^[0-9]{1,16}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= kind.min && value <= kind.max) return value;
    throw queryFault(name, `must be a whole number of at least ${kind.min} and at most ${kind.max}`, text);
  }
  if (kind.includes(text)) return text;
  throw queryFault(name, `must be one of ${kind.join(', ')}`, text);
}

function queryFault(field: string, reason: string, token?: string): Error {
  const place = token === undefined ? { field } : { field, token: token.slice(0, 40) };
  return carillonError('request-invalid', `${field} ${reason}`, place);
}

function decoded(text: string, field: string): string {
  try {
    const value = decodeURIComponent(text.replaceAll('+', ' '));
    if (!value.includes('\0')) return value;
  } catch {
    // Refused below, together with NUL.
  }
  throw carillonError('request-malformed', `a percent escape of ${field} in the query is broken`, {
    field,
    token: text.slice(0, 40),
  });
}

/** The job key of the URL, checked as at creation, so that an impossible key is 400 and not 404. */
export function keyOf(request: FastifyRequest): string {
  const { key } = request.params as { key: string };
  checkKey(key);
  return key;
}

/** `If-Match: "3"` -> 3; `*` -> any; absent -> undefined. Weak and several tags are refused. */
export function ifMatch(request: FastifyRequest): number | '*' | undefined {
  const header = request.headers['if-match'];
  if (header === undefined) return undefined;
  const text = header.trim();
  if (text === '*') return '*';
  const version = /^"([1-9][0-9]{0,15})"$/.exec(text)?.[1];
  if (version !== undefined) return Number(version);
  throw carillonError('request-invalid', 'If-Match must be one ETag as it was answered, such as "3", or *', {
    field: 'if-match',
    token: text.slice(0, 40),
  });
}

const REQUEST_KEY = new RegExp(`^[A-Za-z0-9_.-]{1,${LIMITS.requestKeyChars}}$`);

/** The Idempotency-Key header; it becomes part of URLs and execution ids, so its characters are few. */
export function idempotencyKey(request: FastifyRequest): string | undefined {
  const header = request.headers['idempotency-key'];
  if (header === undefined) return undefined;
  const text = Array.isArray(header) ? header.join(', ') : header;
  if (REQUEST_KEY.test(text) && text !== '.' && text !== '..') return text;
  throw carillonError(
    'request-invalid',
    `Idempotency-Key must be 1 to ${LIMITS.requestKeyChars} letters, digits, "-", "_" or "."`,
    { field: 'idempotency-key', token: text.slice(0, 40) },
  );
}

/** `?prefix=` of a list is any text that a key may begin with. */
export function checkPrefix(prefix: string): void {
  if (prefix !== '.' && prefix !== '..') checkKey(prefix, 'prefix');
}
