import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { CarillonError, carillonError } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Calendars } from '../../engine/change/calendars.ts';
import type { OperationCounts, OperationError } from '../../ports/operation-store.ts';
import type { ApiDeps } from '../deps.ts';
import { pathText } from '../json-source.ts';
import { INTERNAL, knownError, problemOf } from '../problem.ts';
import { readJob } from './check-lines.ts';
import { newOperation } from './upload.ts';

/** Result of one item, in the order of the array. `accepted`: it is in the topic and was not answered in time. */
export type ItemResult =
  | { key: string; result: 'created' | 'updated' | 'unchanged'; version: number }
  | { key: string; result: 'accepted' }
  | { key: string | null; result: 'error'; code: string; detail: string; field?: string };

/** Items that are read before the event loop gets its turn. */
const READ_AT_ONCE = 50;
const ARRAY_PARTITION = -1;

/**
 * Puts each job of an array and answers one result an item. Items are independent: a bad one is an error of its own. The
 * second use of a key inside one array is `line-repeated`: which of the two was meant is not known.
 */
export async function putArray(
  deps: ApiDeps,
  cluster: string,
  items: readonly unknown[],
  calendars: Calendars,
  idempotencyKey: string | undefined,
): Promise<ItemResult[]> {
  if (items.length > LIMITS.bulkArrayItems) {
    throw carillonError(
      'request-too-large',
      `${items.length} jobs; an array may have ${LIMITS.bulkArrayItems}: send application/x-ndjson for more`,
      { field: 'body' },
    );
  }
  if (idempotencyKey === undefined) return putItems(deps, cluster, items, calendars);

  const { operations } = deps.stores;
  const hash = createHash('sha256').update(JSON.stringify(items)).digest('hex');
  const fresh = { ...newOperation(cluster, idempotencyKey, deps.clock.wallMs()), lines: items.length, hash };
  const { operation } = await operations.start(fresh);
  if (operation.hash !== hash || operation.lines !== items.length) {
    throw carillonError('operation-conflict', 'this Idempotency-Key was used with other content', {
      field: 'idempotency-key',
    });
  }
  const results = await putItems(deps, cluster, items, calendars);
  // Only the first time counts; a repeat answers anew and changes nothing.
  const counted = { cluster, key: idempotencyKey, partition: ARRAY_PARTITION, fromOffset: -1, toOffset: items.length };
  await operations.count({ ...counted, ...summary(results) });
  if (operation.state === 'receiving') await operations.accepted(cluster, idempotencyKey, items.length, hash);
  return results;
}

async function putItems(
  deps: ApiDeps,
  cluster: string,
  items: readonly unknown[],
  calendars: Calendars,
): Promise<ItemResult[]> {
  const seen = new Set<string>();
  const results: Promise<ItemResult>[] = [];
  for (const [index, item] of items.entries()) {
    if (index % READ_AT_ONCE === READ_AT_ONCE - 1) await setImmediate();
    results.push(putItem(deps, cluster, item, index, calendars, seen));
  }
  return Promise.all(results);
}

async function putItem(
  { changes, clock }: ApiDeps,
  cluster: string,
  item: unknown,
  index: number,
  calendars: Calendars,
  seen: Set<string>,
): Promise<ItemResult> {
  try {
    const atMs = clock.wallMs();
    const { key, definition, paused } = readJob(item, atMs, calendars);
    if (seen.has(key)) {
      throw carillonError('line-repeated', `"${key}" stands earlier in this array`, { field: 'key' });
    }
    seen.add(key);
    const action = { kind: 'put', definition, ...(paused === undefined ? {} : { paused }) } as const;
    const applied = await changes.submit({ cluster, key, atMs, action });
    if (applied === null) return { key, result: 'accepted' };
    const { outcome } = applied;
    if (!outcome.ok) throw new CarillonError(outcome.code, outcome.detail, placeOf(outcome.field));
    return { key, result: outcome.result as 'created' | 'updated' | 'unchanged', version: outcome.version };
  } catch (error) {
    const known = knownError(error);
    const { code, detail, field } = known === null ? INTERNAL : problemOf(known);
    const path = field === undefined || field === 'body' ? pathText([index]) : `${pathText([index])}.${field}`;
    return { key: keyIn(item), result: 'error', code, detail, field: path };
  }
}

function placeOf(field: string | undefined) {
  return field === undefined ? {} : { field };
}

function keyIn(item: unknown): string | null {
  const key = (item as { key?: unknown } | null)?.key;
  return typeof key === 'string' ? key.slice(0, LIMITS.jobKeyBytes) : null;
}

function summary(results: readonly ItemResult[]): { counts: OperationCounts; errors: OperationError[] } {
  const counts: OperationCounts = { created: 0, updated: 0, unchanged: 0, failed: 0 };
  const errors: OperationError[] = [];
  for (const [index, one] of results.entries()) {
    if (one.result === 'error') {
      counts.failed += 1;
      const { code, detail, field, key } = one;
      const place = field === undefined ? {} : { field };
      errors.push({ line: index + 1, ...(key === null ? {} : { jobKey: key }), code, detail, ...place });
    } else if (one.result !== 'accepted') counts[one.result] += 1;
  }
  return { counts, errors };
}
