import { describe, expect, test } from 'vitest';
import { manualClock } from '../../../src/adapters/memory/clock.ts';
import type { OtherClock } from '../../../src/ports/clock.ts';
import { steadyClock } from '../../../src/runtime/steady-clock.ts';
import { T0, Told } from '../engine/world.ts';

const HOUR_MS = 3_600_000;

/** A machine whose clock can be set, and another one whose clock is right, is off, or does not answer. */
function machines(others = 1) {
  const machine = manualClock(T0);
  const told = new Told();
  const state = { offMs: 0, answers: true };
  const other: OtherClock = async () => {
    if (!state.answers) throw new Error('no answer');
    return T0 + machine.monotonicMs() + state.offMs;
  };
  const clock = steadyClock(machine, Array(others).fill(other), told);
  return { machine, told, state, clock, rightMs: () => T0 + machine.monotonicMs() };
}

describe('a wall clock that jumps', () => {
  test.each([1, -1, 1 / 12, -1 / 12])('by %f hours alone: time goes on as before, and that is told', async (hours) => {
    const { machine, told, clock, rightMs } = machines();
    await machine.advance(5_000);
    machine.setWall(clock.wallMs() + hours * HOUR_MS);
    for (let i = 0; i < 50; i += 1) {
      expect(clock.wallMs()).toBe(rightMs());
      await machine.advance(100);
    }
    expect(told.of('clock_jumps_total/held')).toBe(1);
    expect(told.events.filter(({ level }) => level === 'error')).toHaveLength(1);
    machine.setWall(rightMs());
    await machine.advance(2_000);
    machine.setWall(rightMs() + 100);
    expect(clock.wallMs()).toBe(rightMs() + 100);
    expect(told.of('clock_jumps_total/believed')).toBe(0);
  });

  test('with the others: it is believed as soon as they have said so, as after the machine was suspended', async () => {
    const { machine, told, state, clock, rightMs } = machines(2);
    machine.setWall(T0 + HOUR_MS);
    state.offMs = HOUR_MS;
    expect(clock.wallMs()).toBe(T0);
    await machine.advance(0);
    expect(clock.wallMs()).toBe(rightMs() + HOUR_MS);
    expect(told.of('clock_jumps_total/believed')).toBe(1);
    expect(told.of('clock_jumps_total/held')).toBe(0);
  });

  test('while nobody answers it is not believed; then the first answer decides', async () => {
    const { machine, state, clock, rightMs } = machines();
    state.answers = false;
    state.offMs = HOUR_MS;
    machine.setWall(T0 + HOUR_MS);
    for (let i = 0; i < 30; i += 1) {
      expect(clock.wallMs()).toBe(rightMs());
      await machine.advance(1_000);
    }
    state.answers = true;
    expect(clock.wallMs()).toBe(rightMs());
    await machine.advance(0);
    expect(clock.wallMs()).toBe(rightMs() + HOUR_MS);
  });

  test('by what NTP mends, or again and again by so little, it is followed', async () => {
    const { machine, told, clock } = machines();
    for (const stepMs of [250, -250, 120, 120, 120, 120]) {
      machine.setWall(clock.wallMs() + stepMs);
      const before = clock.wallMs();
      await machine.advance(1_000);
      expect(clock.wallMs()).toBe(before + 1_000);
      expect(clock.wallMs()).toBe(machine.wallMs());
    }
    expect(told.counts.size).toBe(0);
  });

  test('where there is no other clock it counts, for whoever asks', () => {
    const machine = manualClock(T0);
    expect(steadyClock(machine, [], new Told())).toBe(machine);
  });
});
