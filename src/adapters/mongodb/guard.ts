import { carillonError } from '../../core/errors.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import { mongoError } from './errors.ts';

/** Calls on the way at one time, those that wait for a connection of the pool included. */
const CALLS_IN_FLIGHT = 1_000;

export type Guard = <S extends object>(store: S) => S;

/** Wraps every method of a store: failures become errors of the table and are counted, calls on the way are bounded. */
export function guardOf(telemetry: Telemetry): Guard {
  let inFlight = 0;

  async function guarded(name: string, call: () => Promise<unknown>): Promise<unknown> {
    if (inFlight >= CALLS_IN_FLIGHT) {
      telemetry.count('mongodb_calls_refused_total');
      throw carillonError('unavailable', `MongoDB has ${CALLS_IN_FLIGHT} calls not yet answered`);
    }
    inFlight += 1;
    telemetry.gauge('mongodb_calls_in_flight', inFlight);
    try {
      return await call();
    } catch (error) {
      const told = mongoError(error);
      telemetry.count('mongodb_errors_total', { call: name, code: told.code });
      throw told;
    } finally {
      inFlight -= 1;
      telemetry.gauge('mongodb_calls_in_flight', inFlight);
    }
  }

  return <S extends object>(store: S): S => {
    const methods = Object.entries(store) as [string, (...args: unknown[]) => Promise<unknown>][];
    const wrapped = methods.map(([name, method]) => [
      name,
      (...args: unknown[]) => guarded(name, () => method.apply(store, args)),
    ]);
    return Object.fromEntries(wrapped) as S;
  };
}
