import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { clockContract } from './clock.contract.ts';

clockContract('system', () => ({ clock: systemClock(), async pass() {}, close() {} }));

afterEach(() => {
  vi.useRealTimers();
});

test('waits above 2^31 - 1 ms are cut into pieces that Node can wait for, and end on time (O-IV-01)', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] });
  const clock = systemClock();
  const day = 86_400_000;
  const startMs = clock.monotonicMs();
  const waits = [2_147_483_647, 2_147_483_648, 30 * day, 400 * day];
  const fired: number[] = [];
  for (const ms of waits) clock.after(ms, () => fired.push(clock.monotonicMs() - startMs));
  await vi.advanceTimersByTimeAsync(2_147_483_646);
  expect(fired).toEqual([]);
  await vi.advanceTimersByTimeAsync(400 * day);
  expect(fired).toEqual(waits);
});

test('no wait makes Node warn of a time-out that is too long, or below 0 since the thread stood still', async () => {
  const warnings: string[] = [];
  const warned = (warning: Error): void => void warnings.push(warning.name);
  process.on('warning', warned);
  const clock = systemClock();
  const nowMs = performance.now();
  vi.spyOn(performance, 'now').mockReturnValueOnce(nowMs - 50);
  await clock.sleep(10);
  vi.restoreAllMocks();
  const cancels = [2 ** 31, 400 * 86_400_000, Number.POSITIVE_INFINITY].map((ms) => clock.after(ms, () => {}));
  await clock.sleep(5);
  for (const cancel of cancels) cancel();
  process.off('warning', warned);
  expect(warnings).toEqual([]);
});

test('a clock that is stepped on purpose reads its step while the process runs; other processes keep their time', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'carillon-clocks-'));
  vi.stubEnv('CARILLON_TEST_CLOCKS', folder);
  try {
    const clock = systemClock(10);
    const aheadMs = (): number => Math.round((clock.wallMs() - Date.now()) / 1_000) * 1_000;
    expect(aheadMs()).toBe(0);
    writeFileSync(join(folder, '1'), '7200000');
    writeFileSync(join(folder, String(process.pid)), '-3600000');
    await expect.poll(aheadMs).toBe(-3_600_000);
    rmSync(join(folder, String(process.pid)));
    await expect.poll(aheadMs).toBe(0);
  } finally {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  }
});
