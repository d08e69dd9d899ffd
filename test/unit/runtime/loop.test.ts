import { describe, expect, it } from 'vitest';
import { manualClock } from '../../../src/adapters/memory/clock.ts';
import { silentTelemetry, type Telemetry } from '../../../src/ports/telemetry.ts';
import { loop } from '../../../src/runtime/service.ts';

type Step = number | Error;

/** A loop that goes through steps: a wait in ms, or an error; then it waits for a minute each time. */
function scripted(steps: Step[], telemetry: Telemetry = silentTelemetry) {
  const clock = manualClock(0);
  const rounds: number[] = [];
  const one = loop({
    name: 'scripted',
    clock,
    telemetry,
    round: async () => {
      rounds.push(clock.monotonicMs());
      const step = steps.shift() ?? 60_000;
      if (step instanceof Error) throw step;
      return step;
    },
  });
  return { one, clock, rounds };
}

describe('loop', () => {
  it('runs at once, then after the wait that each round answers', async () => {
    const { one, clock, rounds } = scripted([100, 20]);
    await one.start();
    await clock.advance(119);
    expect(rounds).toEqual([0, 100]);
    await clock.advance(1);
    expect(rounds).toEqual([0, 100, 120]);
    await one.stop();
  });

  it('a wake-up ends the present wait', async () => {
    const { one, clock, rounds } = scripted([]);
    await one.start();
    await clock.advance(7);
    one.wake();
    await clock.advance(0);
    expect(rounds).toEqual([0, 7]);
    await one.stop();
  });

  it('a wake-up during a round is not lost, and several make one round', async () => {
    const clock = manualClock(0);
    const held = Promise.withResolvers<void>();
    let rounds = 0;
    const one = loop({
      name: 'held',
      clock,
      telemetry: silentTelemetry,
      round: async () => {
        rounds += 1;
        if (rounds === 1) await held.promise;
        return 60_000;
      },
    });
    await one.start();
    one.wake();
    one.wake();
    held.resolve();
    await clock.advance(0);
    await clock.advance(0);
    expect(rounds).toBe(2);
    await one.stop();
  });

  it('goes on after errors, with a growing pause that starts anew after a success, and counts and tells each', async () => {
    const told: string[] = [];
    const counted: string[] = [];
    const telemetry: Telemetry = {
      ...silentTelemetry,
      count: (name, labels) => void counted.push(`${name} ${labels?.['loop']}`),
      event: (level, message) => void told.push(`${level} ${message}`),
    };
    const fault = new Error('away');
    const { one, clock, rounds } = scripted([fault, fault, fault, 10, fault], telemetry);
    await one.start();
    await clock.advance(1_000);
    // 50, 100 and 200 ms, then 10 ms as answered, then 50 ms again.
    expect(rounds).toEqual([0, 50, 150, 350, 360, 410]);
    expect(counted).toEqual(Array(4).fill('loop_errors_total scripted'));
    expect(told).toEqual(Array(4).fill('error a loop failed and goes on'));
    await one.stop();
  });

  it('a wake-up does not cut the pause after an error short, and is not forgotten over it', async () => {
    const { one, clock, rounds } = scripted([new Error('away'), 60_000]);
    await one.start();
    await clock.advance(1);
    one.wake();
    await clock.advance(48);
    expect(rounds).toEqual([0]);
    await clock.advance(1);
    await clock.advance(0);
    expect(rounds).toEqual([0, 50, 50]);
    await one.stop();
  });

  it('the pause after errors is bounded', async () => {
    const { one, clock, rounds } = scripted(Array.from({ length: 30 }, () => new Error('away')));
    await one.start();
    await clock.advance(40_000);
    const pauses = rounds.map((at, n) => at - (rounds[n - 1] ?? 0));
    expect(Math.max(...pauses)).toBe(2_000);
    await one.stop();
  });

  it.each([
    ['a wait', [60_000]],
    ['the pause after an error', [new Error('away')]],
  ])('stop ends %s at once', async (_, steps: Step[]) => {
    const { one, clock, rounds } = scripted(steps);
    await one.start();
    await clock.advance(1);
    await one.stop();
    await clock.advance(120_000);
    expect(rounds).toEqual([0]);
  });

  it('stop lets a running round finish, tells it to hurry, and starts no other', async () => {
    const clock = manualClock(0);
    const held = Promise.withResolvers<void>();
    let signalled = false;
    let finished = 0;
    const one = loop({
      name: 'held',
      clock,
      telemetry: silentTelemetry,
      round: async (signal) => {
        signal.addEventListener('abort', () => {
          signalled = true;
        });
        await held.promise;
        finished += 1;
        return 0;
      },
    });
    await one.start();
    const stop = one.stop();
    await clock.advance(1);
    expect([signalled, finished]).toEqual([true, 0]);
    held.resolve();
    await stop;
    expect(finished).toBe(1);
  });

  it('rounds that never wait leave the event loop its turns, so that a stop gets through', async () => {
    const { one } = scripted(Array(1_000_000).fill(0));
    await one.start();
    await new Promise((resolve) => setImmediate(resolve));
    await one.stop();
  });

  it('runs again after a restart', async () => {
    const { one, clock, rounds } = scripted([]);
    await one.start();
    await one.stop();
    await one.start();
    await clock.advance(0);
    expect(rounds).toHaveLength(2);
    await one.stop();
  });
});
