/** Adds 1 to a number that is not atomic, again and again, in its turns. */
import { workerData } from 'node:worker_threads';
import { WriteLock } from '../../src/adapters/sqlite/write-lock.ts';

const { lock: buffer, sum, times } = workerData as { lock: SharedArrayBuffer; sum: SharedArrayBuffer; times: number };
const lock = new WriteLock(buffer);
const number = new Float64Array(sum);
for (let i = 0; i < times; i += 1) {
  lock.acquire();
  number[0]! += 1;
  lock.release();
}
