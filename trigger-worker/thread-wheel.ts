import { Worker } from 'node:worker_threads';
import { slotName } from '../src/core/topics.ts';
import type { Lease } from '../src/ports/lease-store.ts';
import type { Telemetry } from '../src/ports/telemetry.ts';
import { siblingModule } from '../src/runtime/sibling.ts';
import { receiveTelemetry } from '../src/runtime/thread-telemetry.ts';
import type { SlotReport, WheelHost } from './wheel.ts';
import type { FromWheel, ToWheel, WheelSetup } from './wheel-messages.ts';

const THREAD = new URL(siblingModule(import.meta.url, 'wheel.thread'));

/**
 * Young generation of a wheel's heap, in MiB. Batches on the way outlive a small one and are copied with each collection:
 * with V8's default the pauses above 20 ms of one demo came to 830 ms, with this to 310 ms.
 */
const YOUNG_MB = 96;

/** A wheel in a thread of its own. When the thread dies, its slots are gone at once and `died` is called. */
export class ThreadWheel implements WheelHost {
  private readonly thread: Worker;
  private readonly drains = new Map<number, () => void>();
  /** Slots that the thread was told to adopt and that no report knows yet. */
  private told: { id: number; slot: SlotReport }[] = [];
  private nextId = 1;
  private last: ReturnType<WheelHost['report']> = { slots: [], lagMs: 0 };
  private readonly ended: Promise<void>;

  private constructor(thread: Worker) {
    this.thread = thread;
    this.ended = new Promise((resolve) => thread.once('exit', () => resolve()));
  }

  /** Starts the thread and waits until its stores are open. */
  static async open(
    setup: WheelSetup,
    telemetry: Telemetry,
    died: (wheel: WheelHost, error: unknown) => void,
  ): Promise<ThreadWheel> {
    const thread = new Worker(THREAD, { workerData: setup, resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB } });
    const wheel = new ThreadWheel(thread);
    await new Promise<void>((resolve, reject) => {
      let ready = false;
      let closed = false;
      let failure: unknown = new Error('a wheel thread ended');
      thread.on('error', (error) => {
        failure = error;
      });
      thread.on('message', (message: FromWheel) => {
        if (receiveTelemetry(message, telemetry)) return;
        if (message.wheel === 'ready') {
          ready = true;
          resolve();
        }
        closed ||= message.wheel === 'closed';
        wheel.take(message);
      });
      thread.once('exit', () => {
        wheel.last = { slots: [], lagMs: 0 };
        wheel.told = [];
        for (const done of wheel.drains.values()) done();
        if (!ready) reject(failure);
        else if (!closed) died(wheel, failure);
      });
    });
    return wheel;
  }

  private take(message: FromWheel): void {
    if (message.wheel === 'report') {
      this.last = message.report;
      this.told = this.told.filter(({ id }) => id > message.adopted);
    }
    if (message.wheel === 'drained') this.drains.get(message.id)?.();
  }

  private tell(message: ToWheel): void {
    this.thread.postMessage(message);
  }

  adopt(lease: Lease, incarnation: string): void {
    const id = this.nextId++;
    const name = slotName(lease.delivery, lease.slot);
    this.told.push({ id, slot: { name, epoch: lease.epoch, phase: 'new', published: 0 } });
    this.tell({ wheel: 'adopt', id, lease, incarnation });
  }

  async drain(slot: string): Promise<void> {
    const id = this.nextId++;
    await new Promise<void>((resolve) => {
      this.drains.set(id, resolve);
      this.tell({ wheel: 'drain', id, slot });
    });
    this.drains.delete(id);
  }

  drop(reason: string, slot?: string): void {
    this.tell({ wheel: 'drop', reason, ...(slot === undefined ? {} : { slot }) });
  }

  report(): ReturnType<WheelHost['report']> {
    const { slots, lagMs } = this.last;
    return { slots: [...slots, ...this.told.map(({ slot }) => slot)], lagMs };
  }

  async close(): Promise<void> {
    this.tell({ wheel: 'close' });
    await this.ended;
  }
}
