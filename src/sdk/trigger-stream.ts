import { ApiError } from './api-error.ts';
import type { Http } from './http.ts';

/** First line of a stream of triggers: from here on nothing is missed. `session` is null for a reader without a group. */
export interface StreamOpened {
  session: string | null;
  topic: string;
  partitions: number;
}

/** One trigger on the stream. */
export interface StreamedTrigger {
  partition: number;
  offset: number;
  /** Time of publishing, RFC 3339. */
  at: string;
  key: string;
  /** Execution id. */
  id: string;
  headers: Record<string, string>;
  /** Text of the payload. */
  payload: string;
}

/** Longest time without a line: the server writes an empty one every 10 s. */
const SILENCE_MS = 30_000;
/** Characters of one line at most: a payload in JSON's longest escapes, and headers. */
const LINE_CHARS = 4 * 1024 * 1024;

/**
 * The lines of the API's stream of triggers (`GET /v1/clusters/C/triggers`). Ends when the server ends it.
 *
 * @throws ApiError when the stream is refused, or breaks, or is silent for 30 s
 */
export async function triggerLines(
  http: Http,
  path: string,
  signal: AbortSignal,
): Promise<AsyncGenerator<StreamOpened | { revoked: number } | StreamedTrigger, void, void>> {
  const silent = new AbortController();
  const headers = { accept: 'application/x-ndjson' };
  const connecting = setTimeout(() => silent.abort(), SILENCE_MS);
  const both = AbortSignal.any([signal, silent.signal]);
  try {
    const response = await http.fetch(path, { headers }, both, 0);
    if (response.body === null) throw broken('it has no body');
    return linesOf(response.body, signal, silent);
  } finally {
    clearTimeout(connecting);
  }
}

async function* linesOf(
  body: ReadableStream<Uint8Array>,
  signal: AbortSignal,
  silent: AbortController,
): AsyncGenerator<StreamOpened | { revoked: number } | StreamedTrigger, void, void> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const timer = setTimeout(() => silent.abort(), SILENCE_MS);
      const { done, value } = await reader.read().finally(() => clearTimeout(timer));
      if (done) return;
      rest += value;
      const lines = rest.split('\n');
      rest = lines.pop() ?? '';
      if (rest.length > LINE_CHARS) throw broken('a line is too long');
      for (const line of lines) if (line !== '') yield JSON.parse(line);
    }
  } catch (error) {
    if (signal.aborted) return;
    if (error instanceof ApiError) throw error;
    throw broken(silent.signal.aborted ? `nothing came for ${SILENCE_MS} ms` : String(error), error);
  } finally {
    await reader.cancel().catch(() => {});
  }
}

function broken(reason: string, cause?: unknown): ApiError {
  return new ApiError({ code: 'network', status: 0, detail: `the stream of triggers broke: ${reason}`, cause });
}
