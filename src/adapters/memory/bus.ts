import type { Bus } from '../../ports/bus.ts';
import type { Clock } from '../../ports/clock.ts';
import { silentTelemetry, type Telemetry } from '../../ports/telemetry.ts';
import { localBus } from '../local/bus.ts';
import { MemoryLog } from './log.ts';

/** A bus in memory; waits and times are those of the clock, so a clock moved by hand moves it. */
export function memoryBus(clock: Clock, telemetry: Telemetry = silentTelemetry): Bus {
  return localBus(new MemoryLog(clock), clock, telemetry);
}
