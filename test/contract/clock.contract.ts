import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Clock } from '../../src/ports/clock.ts';
import { happening } from './bus-reading.ts';

export interface ClockOpening {
  clock: Clock;
  /** Lets this much time pass for a clock that is moved by hand; real clocks move by themselves and do nothing here. */
  pass(ms: number): Promise<void>;
  close(): void;
}

function waitStatements(opened: () => ClockOpening): void {
  test('a sleep ends when its time has passed by the monotonic clock, never before', async () => {
    const { clock, pass } = opened();
    for (const ms of [0, 1, 3, 20]) {
      const start = clock.monotonicMs();
      const slept = clock.sleep(ms);
      await pass(ms);
      await slept;
      expect(clock.monotonicMs() - start).toBeGreaterThanOrEqual(ms);
    }
  });

  test('waits end in the order of their times', async () => {
    const { clock, pass } = opened();
    const order: number[] = [];
    const sleeps = [30, 10, 20, 0].map((ms) => clock.sleep(ms).then(() => order.push(ms)));
    await pass(30);
    await Promise.all(sleeps);
    expect(order).toEqual([0, 10, 20, 30]);
  });

  test('an aborted sleep ends at once and does not throw', async () => {
    const { clock } = opened();
    const abort = new AbortController();
    const slept = clock.sleep(400 * 86_400_000, abort.signal);
    abort.abort(new Error('enough'));
    await slept;
    await clock.sleep(400 * 86_400_000, abort.signal);
    await clock.sleep(Number.POSITIVE_INFINITY, abort.signal);
  });

  test('after runs once when its time has passed', async () => {
    const { clock, pass } = opened();
    const { happened, tell } = happening<number>();
    const start = clock.monotonicMs();
    let runs = 0;
    clock.after(5, () => {
      runs += 1;
      tell(clock.monotonicMs());
    });
    expect(runs).toBe(0);
    await pass(5);
    expect((await happened) - start).toBeGreaterThanOrEqual(5);
    const later = clock.sleep(10);
    await pass(10);
    await later;
    expect(runs).toBe(1);
  });

  test('a cancelled run does not happen, and cancelling late or twice is no error', async () => {
    const { clock, pass } = opened();
    const runs: string[] = [];
    const cancel = clock.after(5, () => runs.push('cancelled'));
    const cancelLate = clock.after(0, () => runs.push('run'));
    cancel();
    cancel();
    const later = clock.sleep(15);
    await pass(15);
    await later;
    cancelLate();
    expect(runs).toEqual(['run']);
  });

  test('a time below 0 is now; what is no number is a fault of the caller', async () => {
    const { clock, pass } = opened();
    const slept = clock.sleep(-5);
    await pass(0);
    await slept;
    expect(() => clock.after(Number.NaN, () => {})).toThrow(RangeError);
    await expect(clock.sleep(Number.NaN)).rejects.toThrow(RangeError);
  });

  test('waits of more than 2^31 - 1 ms do not end early (O-IV-01)', async () => {
    const { clock, pass } = opened();
    const abort = new AbortController();
    const ended: number[] = [];
    const day = 86_400_000;
    const long = [2 ** 31 - 1, 2 ** 31, 30 * day, 40 * day, 300 * day, 400 * day, Number.POSITIVE_INFINITY];
    const cancels = long.map((ms) => clock.after(ms, () => ended.push(ms)));
    const sleeps = long.map((ms) => clock.sleep(ms, abort.signal).then(() => ended.push(ms)));
    const short = clock.sleep(25);
    await pass(25);
    await short;
    expect(ended).toEqual([]);
    for (const cancel of cancels) cancel();
    abort.abort();
    await Promise.all(sleeps);
    expect(ended).toEqual(long);
  });
}

/** Every statement of `src/ports/clock.ts` as a test. */
export function clockContract(name: string, open: () => ClockOpening): void {
  describe(`clock: ${name}`, () => {
    let opening: ClockOpening;
    beforeEach(() => {
      opening = open();
    });
    afterEach(() => opening.close());

    test('monotonic time never goes back; wall time is in ms since 1970', () => {
      const { clock } = opening;
      let last = clock.monotonicMs();
      for (let i = 0; i < 1_000; i += 1) {
        const now = clock.monotonicMs();
        expect(now).toBeGreaterThanOrEqual(last);
        last = now;
      }
      expect(Number.isInteger(clock.wallMs())).toBe(true);
      expect(clock.wallMs()).toBeGreaterThan(Date.UTC(2020, 0, 1));
    });

    waitStatements(() => opening);
  });
}
