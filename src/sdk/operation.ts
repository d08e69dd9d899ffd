import { setTimeout as delay } from 'node:timers/promises';
import { ApiError } from './api-error.ts';

/** A bulk operation: what was sent under its key, and what became of it. */
export interface OperationView {
  key: string;
  /** `receiving`: the upload runs or broke off; `accepted`: every line is in the topic; `done`: every line is counted. */
  state: 'receiving' | 'accepted' | 'done';
  startedAt: string;
  acceptedAt: string | null;
  /** Lines that are in the topic or refused. */
  lines: number;
  counts: { created: number; updated: number; unchanged: number; failed: number };
  /** Of the failed lines, at most 1,000. */
  errors: { line: number; jobKey?: string; code: string; detail: string; field?: string }[];
}

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_000;

/** Asks until the operation is done, with pauses that grow. */
export async function waitForOperation(
  get: (signal: AbortSignal | undefined) => Promise<OperationView>,
  { signal, timeoutMs }: { signal?: AbortSignal; timeoutMs?: number },
): Promise<OperationView> {
  const deadline = timeoutMs === undefined ? Number.POSITIVE_INFINITY : performance.now() + timeoutMs;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 1.5)) {
    const operation = await get(signal);
    if (operation.state === 'done') return operation;
    if (performance.now() + pauseMs > deadline) {
      throw new ApiError({ code: 'timeout', status: 0, detail: `operation ${operation.key} is ${operation.state}` });
    }
    await delay(pauseMs, undefined, { signal });
  }
}
