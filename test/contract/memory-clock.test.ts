import { expect, test } from 'vitest';
import { manualClock } from '../../src/adapters/memory/clock.ts';
import { clockContract } from './clock.contract.ts';

const start = Date.UTC(2026, 10, 30, 12);

clockContract('moved by hand', () => {
  const clock = manualClock(start);
  return { clock, pass: (ms) => clock.advance(ms), close() {} };
});

test('waits of up to 400 days end once, each at its exact millisecond (O-IV-01)', async () => {
  const clock = manualClock(start);
  const day = 86_400_000;
  const waits = [2_147_483_647, 2_147_483_648, 30 * day, 40 * day, 300 * day, 400 * day];
  const fired: number[] = [];
  for (const ms of waits) clock.after(ms, () => fired.push(clock.wallMs() - start));
  for (const ms of waits) {
    await clock.advance(start + ms - 1 - clock.wallMs());
    const before = fired.length;
    await clock.advance(1);
    expect(fired.length).toBe(before + 1);
  }
  expect(fired).toEqual(waits);
  await clock.advance(400 * day);
  expect(fired).toEqual(waits);
});

test('what a wait sets going is settled before the next one ends, and may wait again within the same time', async () => {
  const clock = manualClock(start);
  const seen: string[] = [];
  const worker = async (name: string, everyMs: number): Promise<void> => {
    for (let i = 0; i < 3; i += 1) {
      await clock.sleep(everyMs);
      await Promise.resolve();
      seen.push(`${name}@${clock.monotonicMs()}`);
    }
  };
  const workers = [worker('a', 10), worker('b', 15)];
  await clock.advance(100);
  await Promise.all(workers);
  expect(seen).toEqual(['a@10', 'b@15', 'a@20', 'b@30', 'a@30', 'b@45']);
});

test('a jump of the wall clock moves no wait, and monotonic time does not see it', async () => {
  const clock = manualClock(start);
  let ended = 0;
  clock.after(1_000, () => {
    ended += 1;
  });
  clock.setWall(start + 3_600_000);
  await clock.advance(999);
  expect([ended, clock.monotonicMs(), clock.wallMs()]).toEqual([0, 999, start + 3_600_999]);
  clock.setWall(start - 3_600_000);
  await clock.advance(1);
  expect([ended, clock.monotonicMs(), clock.wallMs()]).toEqual([1, 1_000, start - 3_599_999]);
});

test('a skewed clock differs in wall time only and moves with its own', async () => {
  const clock = manualClock(start);
  const ahead = clock.skewed(400);
  const slept = ahead.sleep(50).then(() => ahead.wallMs());
  await clock.advance(50);
  expect(await slept).toBe(start + 450);
  expect(ahead.monotonicMs()).toBe(clock.monotonicMs());
});
