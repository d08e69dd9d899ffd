import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { carillonError } from '../core/errors.ts';
import { isLoopback } from '../runtime/config.ts';

/** Routes that are answered without the key, so that a probe needs none. */
const OPEN_PATHS: ReadonlySet<string> = new Set(['/healthz', '/readyz']);

/**
 * Refuses an address that others can reach without a key that was set on purpose. There is no default key.
 *
 * @throws CarillonError `setup-refused`
 */
export function checkListen(host: string, apiKey: string | null): void {
  if (apiKey !== null && apiKey.trim() === '') {
    throw carillonError('setup-refused', 'the API key is empty or blank: set apiKey to a secret, or leave it out');
  }
  if (apiKey !== null || isLoopback(host)) return;
  throw carillonError(
    'setup-refused',
    `the API would listen on ${host}, where others reach it, without a key: set apiKey (CARILLON_API_KEY) or listen on 127.0.0.1`,
  );
}

/** Checks `Authorization: Bearer KEY`, once, in constant time. A key in the URL counts for nothing. */
export function keyCheck(apiKey: string | null): (request: FastifyRequest) => void {
  if (apiKey === null) return () => {};
  const expected = digest(apiKey);
  return (request) => {
    const path = request.raw.url!.split('?', 1)[0]!;
    if (OPEN_PATHS.has(path) && (request.method === 'GET' || request.method === 'HEAD')) return;
    const given = authorizations(request);
    const key = given.length === 1 ? /^Bearer ([\x21-\x7e]+)$/i.exec(given[0]!)?.[1] : undefined;
    // The digest makes both sides equally long, and nothing is learned of the key from the time it takes.
    if (key !== undefined && timingSafeEqual(digest(key), expected)) return;
    throw carillonError('unauthorized', 'send "Authorization: Bearer KEY", once, with the configured key', {
      field: 'authorization',
    });
  };
}

/** All values of the header: Node keeps only the first of several in `headers`. */
function authorizations(request: FastifyRequest): string[] {
  const { rawHeaders } = request.raw;
  return rawHeaders.filter((_, index) => index % 2 === 1 && rawHeaders[index - 1]!.toLowerCase() === 'authorization');
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
