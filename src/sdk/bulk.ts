import { setTimeout as delay } from 'node:timers/promises';
import type { JobForm } from '../core/form/job-form.ts';
import { ApiError } from './api-error.ts';
import type { Http } from './http.ts';

/** A job, or one line of NDJSON that is sent as it is, so that its payload stays byte for byte. */
export type BulkItem = JobForm | string;
type Items = Iterable<BulkItem> | AsyncIterable<BulkItem>;
/** Jobs to send; a function (or an array) can begin anew, which a resume needs. */
export type BulkSource = Items | (() => Items);

export interface BulkOptions {
  /** Names the operation; made up when absent. 1 to 64 letters, digits, `-`, `_` or `.`. */
  key?: string;
  /** Further uploads after one that broke. Default 5. */
  retries?: number;
  signal?: AbortSignal;
  /** Told the number of lines that were handed to the connection, after each chunk. */
  onProgress?: (lines: number) => void;
}

/** Characters that are gathered before they are written. */
const CHUNK_CHARS = 64 * 1024;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;

export async function bulkUpload(
  http: Http,
  path: string,
  source: BulkSource,
  { key = crypto.randomUUID(), retries = 5, signal, onProgress }: BulkOptions,
): Promise<{ key: string }> {
  const again = repeatable(source);
  for (let tried = 0; ; tried++) {
    let fault: unknown;
    const body = lineStream(again(), onProgress, (error) => {
      fault = error;
    });
    const init = {
      method: 'POST',
      headers: { 'content-type': 'application/x-ndjson', 'idempotency-key': key },
      body,
      duplex: 'half',
    };
    try {
      const response = await http.fetch(path, init as RequestInit, signal, 0);
      await response.body?.cancel();
      return { key };
    } catch (error) {
      // An error of the caller's own iterable is the caller's: it is not repeated.
      if (fault !== undefined) throw fault;
      const mayResume = error instanceof ApiError && error.retryable;
      if (!mayResume || tried >= retries || !canRestart(source)) throw error;
    }
    const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** tried);
    await delay(pauseMs / 2 + Math.random() * (pauseMs / 2), undefined, { signal });
  }
}

/** Whether the jobs can be had from the beginning a second time: an iterator that is its own iterable cannot. */
function canRestart(source: BulkSource): boolean {
  if (typeof source === 'function') return true;
  return Symbol.iterator in source && (source[Symbol.iterator]() as unknown) !== source;
}

function repeatable(source: BulkSource): () => Items {
  return typeof source === 'function' ? source : () => source;
}

/** Lines of NDJSON, made as fast as the connection takes them. */
function lineStream(
  items: Items,
  onProgress: ((lines: number) => void) | undefined,
  onFault: (error: unknown) => void,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const iterator = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
  let lines = 0;
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      let chunk = '';
      try {
        while (chunk.length < CHUNK_CHARS) {
          const { done, value } = await iterator.next();
          if (done) break;
          chunk += `${typeof value === 'string' ? oneLine(value) : JSON.stringify(value)}\n`;
          lines += 1;
        }
      } catch (error) {
        onFault(error);
        throw error;
      }
      if (chunk === '') controller.close();
      else controller.enqueue(encoder.encode(chunk));
      onProgress?.(lines);
    },
    async cancel() {
      await iterator.return?.();
    },
  });
}

/** In JSON a line break stands between tokens only, where a blank does as well. */
function oneLine(text: string): string {
  return text.trim().replace(/[\r\n]+/g, ' ');
}
