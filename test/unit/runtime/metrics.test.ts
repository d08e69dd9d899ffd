import { MessageChannel } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { manualClock } from '../../../src/adapters/memory/clock.ts';
import type { Telemetry } from '../../../src/ports/telemetry.ts';
import { createLog } from '../../../src/runtime/log.ts';
import { createMetrics } from '../../../src/runtime/metrics.ts';
import { receiveTelemetry, threadTelemetry } from '../../../src/runtime/thread-telemetry.ts';

function metrics() {
  const written: Record<string, unknown>[] = [];
  const log = createLog({
    level: 'debug',
    destination: { write: (line: string) => void written.push(JSON.parse(line)) },
  });
  const made = createMetrics(log);
  const carillon = async (): Promise<string[]> =>
    (await made.text()).split('\n').filter((line) => line.startsWith('carillon_'));
  return { ...made, written, carillon };
}

describe('metrics', () => {
  it('counts and gauges by labels, with the help of the table', async () => {
    const { telemetry, carillon, text } = metrics();
    telemetry.count('loop_errors_total', { loop: 'a' });
    telemetry.count('loop_errors_total', { loop: 'a' }, 2);
    telemetry.count('loop_errors_total', { loop: 'b' });
    telemetry.gauge('manager_leading', 1);
    telemetry.gauge('manager_leading', 0);
    expect(await carillon()).toEqual([
      'carillon_loop_errors_total{loop="a"} 3',
      'carillon_loop_errors_total{loop="b"} 1',
      'carillon_manager_leading 0',
    ]);
    expect(await text()).toContain('# HELP carillon_loop_errors_total Rounds of a loop that failed');
  });

  it('takes a name that is not in the table, and never throws for what the registry refuses', async () => {
    const { telemetry, carillon } = metrics();
    telemetry.count('quite_new_total');
    telemetry.count('quite_new_total', { label: 'unknown before' });
    telemetry.gauge('bad name', 1);
    expect(await carillon()).toEqual([
      'carillon_quite_new_total 1',
      'carillon_telemetry_dropped_total{what="sample"} 2',
    ]);
  });

  it('shows lateness as a histogram: cumulative buckets, sum and count', async () => {
    const { telemetry, carillon, text } = metrics();
    const labels = { cluster: 'default', slot: 'a0' };
    for (const ms of [-3, 0, 1, 1.2, 2, 5, 5.5, 10_000, 10_000.5]) telemetry.lateness(ms, 1, labels);
    telemetry.lateness(50, 1_000, { cluster: 'default', slot: 'a0' });
    const buckets = (await carillon())
      .map((line) => /le="([^"]+)".* (\d+)$/.exec(line))
      .filter((match) => match !== null);
    expect(Object.fromEntries(buckets.map((match) => [match[1], Number(match[2])]))).toEqual({
      1: 3,
      2: 5,
      5: 6,
      10: 7,
      20: 7,
      50: 1_007,
      100: 1_007,
      200: 1_007,
      500: 1_007,
      1000: 1_007,
      2000: 1_007,
      5000: 1_007,
      10000: 1_008,
      '+Inf': 1_009,
    });
    expect(await carillon()).toContain(
      'carillon_trigger_lateness_milliseconds_count{cluster="default",slot="a0"} 1009',
    );
    expect(await carillon()).toContain(
      'carillon_trigger_lateness_milliseconds_sum{cluster="default",slot="a0"} 70012.2',
    );
    expect(await text()).toContain('# TYPE carillon_trigger_lateness_milliseconds histogram');
  });

  it('keeps clusters and slots apart', async () => {
    const { telemetry, carillon } = metrics();
    for (const cluster of ['x', 'y']) for (const slot of ['a0', 'a1']) telemetry.lateness(1, 2, { cluster, slot });
    const counts = (await carillon()).filter((line) => line.includes('_count'));
    expect(counts).toHaveLength(4);
    expect(counts.every((line) => line.endsWith(' 2'))).toBe(true);
  });

  it('events are lines of the log', () => {
    const { telemetry, written } = metrics();
    telemetry.event('warn', 'fenced', { slot: 'a1' });
    expect(written).toMatchObject([{ level: 'warn', msg: 'fenced', slot: 'a1' }]);
  });
});

describe('telemetry of a thread', () => {
  /** A thread's telemetry whose messages pass through a real port into metrics, in order. */
  function threaded() {
    const { port1, port2 } = new MessageChannel();
    const clock = manualClock(0);
    const received: unknown[] = [];
    const main = metrics();
    const telemetry = threadTelemetry(port1, clock);
    port2.on('message', (message) => {
      received.push(message);
      receiveTelemetry(message, main.telemetry);
    });
    /** Waits until everything that was posted so far has come through. */
    const arrived = async (): Promise<void> => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const last = (message: unknown): void => {
        if (message === 'last') resolve();
      };
      port2.on('message', last);
      port1.postMessage('last');
      await promise;
      port2.off('message', last);
      received.pop();
    };
    return { telemetry, clock, main, received, arrived, close: () => port1.close() };
  }
  const use = (telemetry: Telemetry): void => {
    for (let n = 0; n < 1_000; n++) {
      telemetry.count('loop_errors_total', { loop: 'a' });
      telemetry.gauge('sessions', n, { role: 'worker' });
      telemetry.lateness(n % 7, 1, { cluster: 'default', slot: 'a0' });
    }
  };

  it('gives the same as telemetry of the main thread, in one message per interval', async () => {
    const thread = threaded();
    const direct = metrics();
    for (let round = 0; round < 3; round++) {
      use(thread.telemetry);
      use(direct.telemetry);
      await thread.clock.advance(250);
    }
    await thread.arrived();
    expect(thread.received).toHaveLength(3);
    expect(await thread.main.carillon()).toEqual(await direct.carillon());
    thread.close();
  });

  it('sends events at once, the rest at the end, and nothing when there is nothing', async () => {
    const thread = threaded();
    await thread.clock.advance(1_000);
    thread.telemetry.event('error', 'fenced', { slot: 'a0', error: new Error('no'), at: 5n });
    thread.telemetry.count('loop_errors_total', { loop: 'a' });
    await thread.arrived();
    expect(thread.received).toHaveLength(1);
    expect(thread.main.written).toMatchObject([
      { level: 'error', msg: 'fenced', slot: 'a0', error: 'Error: no', at: '5' },
    ]);
    thread.telemetry.close();
    await thread.arrived();
    expect(await thread.main.carillon()).toEqual(['carillon_loop_errors_total{loop="a"} 1']);
    thread.close();
  });

  it('bounds events of an interval and counts the rest', async () => {
    const thread = threaded();
    for (let n = 0; n < 1_500; n++) thread.telemetry.event('warn', 'again');
    thread.telemetry.flush();
    await thread.arrived();
    expect(thread.main.written).toHaveLength(1_000);
    expect(await thread.main.carillon()).toEqual(['carillon_telemetry_dropped_total{what="thread"} 500']);
    thread.close();
  });

  it('never throws for fields that no message can carry', async () => {
    const thread = threaded();
    const circle: Record<string, unknown> = {};
    circle['self'] = circle;
    thread.telemetry.event('warn', 'odd', { circle, run: () => 1 });
    await thread.arrived();
    expect(thread.main.written).toMatchObject([{ msg: 'odd' }]);
    thread.close();
  });

  it('leaves messages of others to others', () => {
    const { telemetry } = metrics();
    for (const message of [null, 'x', 5, { kind: 'wheel' }]) expect(receiveTelemetry(message, telemetry)).toBe(false);
  });
});
