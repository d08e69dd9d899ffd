import { carillonError } from '../../core/errors.ts';
import type { BusMessage } from '../../ports/bus.ts';
import type { StoredCalendar } from '../../ports/catalog-store.ts';
import type { Operation, OperationError } from '../../ports/operation-store.ts';
import type { ApiDeps } from '../deps.ts';
import type { LinesResult } from './check-lines.ts';
import { EMPTY_HASH, type LineBlock, lineBlocks } from './line-blocks.ts';
import type { LineThreads } from './threads.ts';

/** Lines refused before the topic are counted as of a partition of their own, whose offsets are line numbers. */
const REFUSED_PARTITION = -1;

/** How far an upload came is noted this often, in ms: appliers write to the same document, and whoever writes second begins again. */
const NOTE_EVERY_MS = 200;

/** Uploads at once: each holds a few blocks of 256 KiB. */
const UPLOADS_MOST = 16;

/** The bulk uploads of this process. */
export class Uploads {
  readonly #deps: ApiDeps;
  readonly #threads: LineThreads;
  readonly #running = new Set<string>();

  constructor(deps: ApiDeps, threads: LineThreads) {
    this.#deps = deps;
    this.#threads = threads;
  }

  /**
   * Takes a stream of lines into the changes topic and answers the operation when all are in it. What a former upload with
   * the same key brought there is compared and skipped.
   *
   * @throws CarillonError `operation-conflict` for other content, `unavailable` with the line from which to repeat
   */
  async run(cluster: string, key: string, stream: AsyncIterable<Uint8Array>): Promise<Operation> {
    const name = `${cluster}/${key}`;
    if (this.#running.has(name)) throw conflict('the same upload is being received; wait for its end');
    if (this.#running.size >= UPLOADS_MOST) {
      throw carillonError('too-many-requests', `${UPLOADS_MOST} bulk uploads run already; repeat it later`);
    }
    this.#running.add(name);
    this.#deps.telemetry.gauge('bulk_uploads', this.#running.size);
    try {
      const { operations } = this.#deps.stores;
      const fresh = newOperation(cluster, key, this.#deps.clock.wallMs());
      const { operation } = await operations.start(fresh);
      const upload = new Upload(this.#deps, this.#threads, operation);
      await upload.receive(stream);
      return (await operations.get(cluster, key)) ?? operation;
    } finally {
      this.#running.delete(name);
      this.#deps.telemetry.gauge('bulk_uploads', this.#running.size);
    }
  }
}

export function newOperation(cluster: string, key: string, nowMs: number): Operation {
  return {
    cluster,
    key,
    state: 'receiving',
    startedMs: nowMs,
    acceptedMs: null,
    lines: 0,
    hash: EMPTY_HASH,
    counts: { created: 0, updated: 0, unchanged: 0, failed: 0 },
    errors: [],
    counted: {},
  };
}

function conflict(detail: string): Error {
  return carillonError('operation-conflict', detail, { field: 'idempotency-key' });
}

/** A block with the result of its check; `checked` is null until it is there. */
interface Checking {
  block: LineBlock;
  result: Promise<LinesResult>;
  checked: LinesResult | null;
}

class Upload {
  readonly #deps: ApiDeps;
  readonly #threads: LineThreads;
  readonly #operation: Operation;
  /** Blocks that are not in the topic yet, in order. */
  readonly #window: Checking[] = [];
  /** Runs while there are any; it never rejects. */
  #sending: Promise<void> | null = null;
  /** Ends with the send that runs. */
  #turn: Promise<void> = Promise.resolve();
  /** Runs while a note of how far it came is written; it never rejects. */
  #noting: Promise<void> | null = null;
  #noteDue = false;
  #notedMs = Number.NEGATIVE_INFINITY;
  #cancelNote: (() => void) | null = null;
  /** Why the upload broke off. */
  #broken: Error | null = null;
  #sent: { lines: number; hash: string };
  #refusedUpTo: number;

  constructor(deps: ApiDeps, threads: LineThreads, operation: Operation) {
    this.#deps = deps;
    this.#threads = threads;
    this.#operation = operation;
    this.#sent = { lines: operation.lines, hash: operation.hash };
    this.#refusedUpTo = operation.counted[String(REFUSED_PARTITION)] ?? -1;
  }

  async receive(stream: AsyncIterable<Uint8Array>): Promise<void> {
    const { cluster, key, lines: known, hash, state } = this.#operation;
    const calendars = await this.#deps.stores.catalog.calendars();
    let total = 0;
    try {
      for await (const block of lineBlocks(stream, known)) {
        total += block.lines;
        if (total <= known) {
          if (total === known && block.hash !== hash)
            throw conflict(`the first ${known} lines are not those sent before`);
          continue;
        }
        if (state === 'accepted') throw conflict(`it had ${known} lines and was complete`);
        while (this.#window.length === this.#threads.window && this.#broken === null) await this.#turn;
        if (this.#broken !== null) break;
        this.#check(block, calendars);
        this.#sending ??= this.#sendAll();
      }
      if (total < known && this.#broken === null) throw conflict(`it had at least ${known} lines`);
    } finally {
      // Also when the upload broke off: what was read goes into the topic, and the repeat begins behind it.
      await this.#sending;
      await this.#noting;
      this.#cancelNote?.();
      if (this.#noteDue) await this.#writeNote();
    }
    if (this.#broken !== null) throw this.#broken;
    if (state === 'receiving') {
      await this.#deps.stores.operations.accepted(cluster, key, this.#sent.lines, this.#sent.hash);
    }
  }

  #check(block: LineBlock, calendars: readonly StoredCalendar[]): void {
    const { cluster, key } = this.#operation;
    const result = this.#threads.run({
      bytes: block.bytes,
      firstLine: block.firstLine,
      cluster,
      operation: key,
      atMs: this.#deps.clock.wallMs(),
      changesPartitions: this.#deps.installation.changesPartitions,
      calendars,
    });
    const checking: Checking = { block, result, checked: null };
    // A failure is thrown where the result is waited for.
    result.then(
      (checked) => {
        checking.checked = checked;
      },
      () => {},
    );
    this.#window.push(checking);
  }

  async #sendAll(): Promise<void> {
    while (this.#window.length > 0) {
      this.#turn = this.#sendReady().catch((error: unknown) => this.#breakOff(error));
      await this.#turn;
    }
    this.#sending = null;
  }

  /** Sends the first block, and with it those behind it that are checked by then: one request to the bus serves them all. */
  async #sendReady(): Promise<void> {
    await this.#window[0]!.result;
    const waiting = this.#window.findIndex(({ checked }) => checked === null);
    const ready = this.#window.slice(0, waiting === -1 ? this.#window.length : waiting);
    const messages = ready.flatMap(({ checked }): readonly BusMessage[] => checked!.messages);
    if (messages.length > 0) await this.#deps.changes.send(messages);
    for (const { block, checked } of ready) await this.#countRefused(checked!.errors, block);
    const lines = ready.reduce((sum, { block }) => sum + block.lines, this.#sent.lines);
    this.#sent = { lines, hash: ready.at(-1)!.block.hash };
    this.#window.splice(0, ready.length);
    this.#noteDue = true;
    this.#noteSoon();
  }

  #noteSoon(): void {
    if (this.#noting !== null || this.#cancelNote !== null) return;
    const { clock } = this.#deps;
    this.#cancelNote = clock.after(Math.max(0, this.#notedMs + NOTE_EVERY_MS - clock.monotonicMs()), () => {
      this.#cancelNote = null;
      this.#noting = this.#writeNote();
    });
  }

  /**
   * No send waits for a note, since the appliers write to the same document and a note is slow: the next one tells what was
   * sent meanwhile. A crash before it repeats lines, which are known by their ids.
   */
  async #writeNote(): Promise<void> {
    const { cluster, key } = this.#operation;
    this.#noteDue = false;
    this.#notedMs = this.#deps.clock.monotonicMs();
    try {
      await this.#deps.stores.operations.received(cluster, key, this.#sent.lines, this.#sent.hash);
    } catch (error) {
      this.#breakOff(error);
    }
    this.#noting = null;
    if (this.#noteDue) this.#noteSoon();
  }

  /** Later blocks must not overtake the one that failed. */
  #breakOff(error: unknown): void {
    const { cluster, key } = this.#operation;
    this.#window.length = 0;
    this.#deps.telemetry.event('warn', 'a bulk upload broke off', { cluster, operation: key, error: String(error) });
    this.#broken = carillonError(
      'unavailable',
      `${this.#sent.lines} lines are taken; repeat the upload with the same Idempotency-Key to go on`,
      {},
      error,
    );
  }

  async #countRefused(errors: readonly OperationError[], block: LineBlock): Promise<void> {
    const { cluster, key } = this.#operation;
    const open = errors.filter(({ line }) => line > this.#refusedUpTo);
    if (open.length === 0) return;
    const toOffset = block.firstLine + block.lines - 1;
    await this.#deps.stores.operations.count({
      cluster,
      key,
      partition: REFUSED_PARTITION,
      fromOffset: this.#refusedUpTo,
      toOffset,
      counts: { failed: open.length },
      errors: open,
    });
    this.#refusedUpTo = toOffset;
  }
}
