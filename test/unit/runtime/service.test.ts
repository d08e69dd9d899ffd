import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { silentTelemetry, type Telemetry } from '../../../src/ports/telemetry.ts';
import { inOrder, type Service, service } from '../../../src/runtime/service.ts';

/** A service whose starts and stops are told apart and can be held up or made to fail. */
function probe(telemetry: Telemetry = silentTelemetry) {
  const log: string[] = [];
  const gates: { start: Promise<void>[]; stop: Promise<void>[] } = { start: [], stop: [] };
  const failures: string[] = [];
  const one = service('probe', telemetry, async () => {
    log.push('start');
    await gates.start.shift();
    const failure = failures.shift();
    if (failure !== undefined) {
      log.push('failed');
      throw new Error(failure);
    }
    log.push('started');
    return async () => {
      log.push('stop');
      await gates.stop.shift();
      log.push('stopped');
    };
  });
  return { one, log, gates, failures };
}

function gate(): { wait: Promise<void>; open: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { wait: promise, open: resolve };
}

describe('service', () => {
  it('starts once for two starts at the same time, and not again for a later one', async () => {
    const { one, log } = probe();
    await Promise.all([one.start(), one.start()]);
    await one.start();
    expect(log).toEqual(['start', 'started']);
  });

  it('stops once for two stops, and a stop before any start does nothing', async () => {
    const { one, log } = probe();
    await one.stop();
    await one.start();
    await Promise.all([one.stop(), one.stop()]);
    await one.stop();
    expect(log).toEqual(['start', 'started', 'stop', 'stopped']);
  });

  it('tells every caller of a failed start, is stopped then, and may be started again', async () => {
    const { one, log, failures } = probe();
    failures.push('no');
    const starts = await Promise.allSettled([one.start(), one.start()]);
    expect(starts.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    await one.stop();
    await one.start();
    await one.stop();
    expect(log).toEqual(['start', 'failed', 'start', 'started', 'stop', 'stopped']);
  });

  it('lets a start end before it stops', async () => {
    const { one, log, gates } = probe();
    const held = gate();
    gates.start.push(held.wait);
    const start = one.start();
    const stop = one.stop();
    held.open();
    await Promise.all([start, stop]);
    expect(log).toEqual(['start', 'started', 'stop', 'stopped']);
  });

  it('stops quietly when the start that it waited for failed', async () => {
    const { one, log, failures } = probe();
    failures.push('no');
    const start = one.start();
    await Promise.all([expect(start).rejects.toThrow('no'), one.stop()]);
    expect(log).toEqual(['start', 'failed']);
  });

  it('starts again only when the stop before it has ended', async () => {
    const { one, log, gates } = probe();
    await one.start();
    const held = gate();
    gates.stop.push(held.wait);
    const stop = one.stop();
    const start = one.start();
    held.open();
    await Promise.all([stop, start]);
    expect(log).toEqual(['start', 'started', 'stop', 'stopped', 'start', 'started']);
  });

  it('ends stopped when stop was asked for last, though an earlier stop was still running', async () => {
    const { one, log, gates } = probe();
    await one.start();
    const held = gate();
    gates.stop.push(held.wait);
    const calls = [one.stop(), one.start(), one.stop()];
    held.open();
    await Promise.all(calls);
    expect(log.at(-1)).toBe('stopped');
  });

  it('answers a stop that fails, tells of it, and is stopped all the same', async () => {
    const events: string[] = [];
    const telemetry = { ...silentTelemetry, event: (_: string, message: string) => void events.push(message) };
    const one = service('bad', telemetry, async () => async () => {
      throw new Error('stuck');
    });
    await one.start();
    await one.stop();
    await one.stop();
    expect(events).toEqual(['a service did not stop cleanly']);
  });

  it('in any order of calls: starts and stops alternate, all calls answer, and the last call decides', async () => {
    const call = fc.record({
      kind: fc.constantFrom('start' as const, 'stop' as const),
      /** Turns of the event loop before the next call. */
      turns: fc.nat(3),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(call, { minLength: 1, maxLength: 20 }),
        fc.array(fc.boolean()),
        async (calls, fails) => {
          const log: string[] = [];
          const failing = [...fails];
          const one = service('any', silentTelemetry, async () => {
            log.push('start');
            await turn();
            if (failing.shift() === true) {
              log.push('stopped');
              throw new Error('no');
            }
            await turn();
            return async () => {
              log.push('stop');
              await turn();
              log.push('stopped');
            };
          });
          const answers: Promise<boolean>[] = [];
          for (const { kind, turns } of calls) {
            const answer = kind === 'start' ? one.start() : one.stop();
            answers.push(
              answer.then(
                () => true,
                () => false,
              ),
            );
            for (let n = 0; n < turns; n++) await turn();
          }
          const ok = await Promise.all(answers);
          // One life after the other: start, then (unless it failed) stop, then stopped.
          expect(log.join(' ')).toMatch(/^(start( stop)? stopped ?)*(start)?$/);
          const last = calls.at(-1)?.kind;
          const runs = log.at(-1) === 'start';
          expect(runs).toBe(last === 'start' && ok.at(-1) === true);
        },
      ),
      { numRuns: 300 },
    );
  });
});

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('services in order', () => {
  const parts = (log: string[], failing?: string): Service[] =>
    ['a', 'b', 'c'].map((name) =>
      service(name, silentTelemetry, async () => {
        if (name === failing) throw new Error(`${name} fails`);
        log.push(`+${name}`);
        return async () => void log.push(`-${name}`);
      }),
    );

  it('start in order and stop in reverse order, again and again', async () => {
    const log: string[] = [];
    const all = inOrder('all', silentTelemetry, parts(log));
    await all.start();
    await all.stop();
    await all.start();
    await all.stop();
    const once = ['+a', '+b', '+c', '-c', '-b', '-a'];
    expect(log).toEqual([...once, ...once]);
  });

  it('take back what was started when one fails', async () => {
    const log: string[] = [];
    await expect(inOrder('all', silentTelemetry, parts(log, 'c')).start()).rejects.toThrow('c fails');
    expect(log).toEqual(['+a', '+b', '-b', '-a']);
  });
});
