import { parentPort, workerData } from 'node:worker_threads';
import { systemClock } from '../src/adapters/system/clock.ts';
import { steadyClock } from '../src/runtime/steady-clock.ts';
import { threadTelemetry } from '../src/runtime/thread-telemetry.ts';
import { LocalWheel } from './wheel.ts';
import { type FromWheel, monotonicNs, type StoresModule, type ToWheel, type WheelSetup } from './wheel-messages.ts';

/** How often the thread tells of its slots, in ms. */
const REPORT_EVERY_MS = 100;

/**
 * One wheel in a thread of its own: it opens its own connections, owns its slots and shares nothing with other threads but
 * the instant up to which the session is trusted, which the main thread writes.
 */
const setup = workerData as WheelSetup;
const port = parentPort!;
const machine = systemClock(setup.clockOffsetMs);
const telemetry = threadTelemetry(port, machine);
const trust = new Float64Array(setup.trust);
const post = (message: FromWheel): void => port.postMessage(message);

const { open } = (await import(setup.threadStores.module)) as StoresModule;
const stores = await open(setup.threadStores.config, telemetry, machine);
const clock = steadyClock(machine, stores.otherClocks ?? [], telemetry);
const wheel = await LocalWheel.open({
  stores,
  clock,
  telemetry,
  installation: setup.installation,
  misfireAfterMs: setup.misfireAfterMs,
  commitsPerSecond: setup.commitsPerSecond,
  trusted: () => monotonicNs() < trust[0]!,
});

let adopted = 0;
const report = (): void => post({ wheel: 'report', report: wheel.report(), adopted });

let cancelReport = (): void => {};
function reportAgain(): void {
  report();
  cancelReport = clock.after(REPORT_EVERY_MS, reportAgain);
}

async function close(): Promise<void> {
  cancelReport();
  await wheel.close();
  await stores.close();
  telemetry.close();
  post({ wheel: 'closed' });
  port.close();
}

async function take(message: ToWheel): Promise<void> {
  if (message.wheel === 'adopt') {
    wheel.adopt(message.lease, message.incarnation);
    adopted = message.id;
  } else if (message.wheel === 'drop') {
    wheel.drop(message.reason, message.slot);
  } else if (message.wheel === 'drain') {
    await wheel.drain(message.slot);
    report();
    post({ wheel: 'drained', id: message.id });
  } else {
    await close();
  }
}

port.on('message', (message: ToWheel) => {
  take(message).catch((error: unknown) => {
    telemetry.event('error', 'a wheel could not do what it was told', { told: message.wheel, error: String(error) });
  });
});
reportAgain();
post({ wheel: 'ready' });
