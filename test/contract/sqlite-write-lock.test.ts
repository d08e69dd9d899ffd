import { once } from 'node:events';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { WriteLock } from '../../src/adapters/sqlite/write-lock.ts';

const TIMES = 100_000;

test('threads take turns: no two are in at once, and everybody gets in', async () => {
  const lock = new WriteLock();
  const sum = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT);
  const workerData = { lock: lock.buffer, sum, times: TIMES };
  const file = join(import.meta.dirname, 'sqlite-lock-thread.ts');
  const threads = [1, 2, 3].map(() => new Worker(file, { workerData }));
  const ended = threads.map((thread) => once(thread, 'exit'));
  const number = new Float64Array(sum);
  for (let i = 0; i < TIMES; i += 1) {
    lock.acquire();
    number[0]! += 1;
    lock.release();
  }
  await Promise.all(ended);
  expect(number[0]).toBe(4 * TIMES);
});
