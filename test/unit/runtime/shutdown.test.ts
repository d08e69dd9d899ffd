import { EventEmitter } from 'node:events';
import { describe, expect, it } from 'vitest';
import { manualClock } from '../../../src/adapters/memory/clock.ts';
import { createLog } from '../../../src/runtime/log.ts';
import { stopOnSignals } from '../../../src/runtime/shutdown.ts';

function standIn() {
  const exits: number[] = [];
  const events = Object.assign(new EventEmitter(), { exit: (code: number) => void exits.push(code) });
  const written: Record<string, unknown>[] = [];
  const log = createLog({
    level: 'info',
    destination: { write: (line: string) => void written.push(JSON.parse(line)) },
  });
  const clock = manualClock(0);
  const stop = Promise.withResolvers<void>();
  const stops: number[] = [];
  const service = {
    start: async () => {},
    stop: () => {
      stops.push(clock.monotonicMs());
      return stop.promise;
    },
  };
  const off = stopOnSignals(service, log, clock, events);
  return { events, exits, written, clock, stop, stops, off };
}

describe('shutdown', () => {
  it.each(['SIGTERM', 'SIGINT'])('%s stops the service and then leaves with 0', async (signal) => {
    const { events, exits, clock, stop, stops } = standIn();
    events.emit(signal);
    await clock.advance(10);
    expect([stops, exits]).toEqual([[0], []]);
    stop.resolve();
    await clock.advance(60_000);
    expect([stops, exits]).toEqual([[0], [0]]);
  });

  it('a second signal leaves at once with 1', async () => {
    const { events, exits, stops } = standIn();
    events.emit('SIGTERM');
    events.emit('SIGINT');
    expect([stops, exits]).toEqual([[0], [1]]);
  });

  it('a stop that hangs is given up', async () => {
    const { events, exits, clock, written } = standIn();
    events.emit('SIGTERM');
    await clock.advance(24_999);
    expect(exits).toEqual([]);
    await clock.advance(1);
    expect(exits).toEqual([1]);
    expect(written.at(-1)).toMatchObject({ level: 'error', msg: 'the stop hangs: leaving' });
  });

  it.each(['unhandledRejection', 'uncaughtException'])('%s is logged with its stack and leaves with 1', (event) => {
    const { events, exits, written } = standIn();
    events.emit(event, new Error('lost'));
    expect(exits).toEqual([1]);
    expect(written).toMatchObject([
      { level: 'fatal', err: { message: 'lost', stack: expect.stringContaining('lost') } },
    ]);
  });

  it('takes its listeners off again', () => {
    const { events, off } = standIn();
    off();
    expect(events.eventNames()).toEqual([]);
  });
});
