import { PassThrough } from 'node:stream';
import { COMPACT_ID } from '../core/envelope.ts';
import { formatInstant } from '../core/schedule/iso.ts';
import type { BusRecord, GroupHandler, GroupMember, GroupPartition } from '../ports/bus.ts';
import type { Clock } from '../ports/clock.ts';

/** An empty line is written when nothing else was for this time, in ms, so that both sides see a broken connection. */
const HEARTBEAT_MS = 10_000;

/** Lines to one client, as fast as it takes them. */
export class LineStream {
  /** What the answer sends; it ends when `end` is called, and is destroyed when the client goes away. */
  readonly body = new PassThrough();
  private readonly clock: Clock;
  private lastMs: number;
  private cancelBeat: () => void = () => {};
  /** What all who write wait for while the client is slow. */
  private room: Promise<void> | undefined;

  constructor(clock: Clock) {
    this.clock = clock;
    this.lastMs = clock.monotonicMs();
    this.body.on('error', () => {});
    this.body.once('close', () => this.cancelBeat());
    this.beat();
  }

  get ended(): boolean {
    return this.body.destroyed || this.body.writableEnded;
  }

  /** Takes one line or several, joined by line ends, and waits until the client has room for more; false: it is gone. */
  async write(lines: string): Promise<boolean> {
    if (this.ended) return false;
    this.lastMs = this.clock.monotonicMs();
    if (this.body.write(`${lines}\n`)) return true;
    this.room ??= this.untilRoom().finally(() => {
      this.room = undefined;
    });
    await this.room;
    return !this.ended;
  }

  end(): void {
    this.cancelBeat();
    this.body.end();
  }

  /** Waits until the client has read, or is gone. */
  private untilRoom(): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.body.off('drain', done);
        this.body.off('close', done);
        resolve();
      };
      this.body.once('drain', done);
      this.body.once('close', done);
    });
  }

  private beat(): void {
    this.cancelBeat = this.clock.after(HEARTBEAT_MS, () => {
      if (this.ended) return;
      if (this.clock.monotonicMs() - this.lastMs >= HEARTBEAT_MS) this.body.write('\n');
      this.beat();
    });
  }
}

/** Lines that are written together have at most this many characters and then those of one line. */
const BLOCK_CHARS = 64 * 1024;

/**
 * The next lines to write together, from a record on: one write for a burst, while a slow client is waited for before the
 * next. Answers how many records they are: at most `most`, at least one.
 */
export function triggerLines(records: readonly BusRecord[], from: number, most: number): { lines: string; n: number } {
  let lines = triggerLine(records[from]!);
  let n = 1;
  for (; n < most && from + n < records.length && lines.length < BLOCK_CHARS; n += 1) {
    lines += `\n${triggerLine(records[from + n]!)}`;
  }
  return { lines, n };
}

const utf8 = new TextDecoder();

/** One record as a line. The payload of a trigger is text, since jobs are registered as text. */
function triggerLine({ partition, offset, timestampMs, key, value, headers }: BusRecord): string {
  return JSON.stringify({
    partition,
    offset,
    at: formatInstant(timestampMs),
    key: key ?? '',
    id: headers['ce_id'] ?? headers[COMPACT_ID] ?? '',
    headers,
    payload: value === null ? '' : utf8.decode(value),
  });
}

/** Records that are with the client, by partition: offsets in rising order. */
interface Given {
  partition: GroupPartition;
  offsets: number[];
}

/**
 * A member of a consumer group that works through a stream: records go out, and commits come back by requests of their own.
 * At most `most` records are with the client; beyond, it must commit before it gets more.
 */
export class StreamMember implements GroupHandler {
  /** Names the stream in commits. */
  readonly session: string;
  readonly lines: LineStream;
  member: GroupMember | undefined;
  private readonly most: number;
  private readonly clock: Clock;
  private readonly releaseMs: number;
  private readonly given = new Map<number, Given>();
  private total = 0;
  private watchers: (() => void)[] = [];

  constructor(session: string, clock: Clock, most: number, releaseMs: number) {
    this.session = session;
    this.clock = clock;
    this.most = most;
    this.releaseMs = releaseMs;
    this.lines = new LineStream(clock);
    this.lines.body.once('close', () => this.changed());
  }

  async assigned(partition: GroupPartition): Promise<void> {
    this.given.set(partition.partition, { partition, offsets: [] });
  }

  async batch(partition: GroupPartition, records: readonly BusRecord[]): Promise<void> {
    const { signal } = partition;
    // A client that does not read must not hold up the group: what is written waits for it without us.
    let wake = () => {};
    const taken = new Promise<void>((resolve) => {
      wake = () => {
        resolve();
        this.changed();
      };
    });
    signal.addEventListener('abort', wake);
    try {
      let done = 0;
      while (done < records.length) {
        while (this.total >= this.most && !signal.aborted && !this.lines.ended) await this.change();
        const given = this.given.get(partition.partition);
        if (signal.aborted || this.lines.ended || given === undefined) return;
        const { lines, n } = triggerLines(records, done, this.most - this.total);
        for (let i = done; i < done + n; i += 1) given.offsets.push(records[i]!.offset);
        this.total += n;
        done += n;
        await Promise.race([this.lines.write(lines), taken]);
      }
    } finally {
      signal.removeEventListener('abort', wake);
    }
  }

  /** The client is told, and gets time to end and commit what it works on, so that it is not done a second time. */
  async revoked({ partition }: GroupPartition): Promise<void> {
    const given = this.given.get(partition);
    if (given === undefined) return;
    if (given.offsets.length > 0 && !this.lines.ended) {
      void this.lines.write(JSON.stringify({ revoked: partition }));
      let waiting = true;
      const cancel = this.clock.after(this.releaseMs, () => {
        waiting = false;
        this.changed();
      });
      while (waiting && !this.lines.ended && this.given.get(partition) === given) await this.change();
      cancel();
    }
    this.release(partition);
  }

  /**
   * Stores offsets of partitions that this stream has. An offset is the first that is not done; one before that is stored
   * changes nothing. Answers the partitions that the stream does not have (any more).
   */
  async commit(offsets: readonly { partition: number; next: number }[]): Promise<number[]> {
    const lost: number[] = [];
    for (const { partition, next } of offsets) {
      const given = this.given.get(partition);
      if (given === undefined || this.member === undefined) {
        lost.push(partition);
        continue;
      }
      const kept = given.offsets.findIndex((offset) => offset >= next);
      const done = kept < 0 ? given.offsets.length : kept;
      if (done === 0) continue;
      await this.member.commit(partition, next);
      given.offsets.splice(0, done);
      this.total -= done;
      this.changed();
    }
    return lost;
  }

  /** Nothing of the partition is under way at the client. */
  release(partition: number): void {
    const given = this.given.get(partition);
    if (given === undefined) return;
    this.given.delete(partition);
    this.total -= given.offsets.length;
    this.changed();
  }

  async close(): Promise<void> {
    this.lines.end();
    this.changed();
    await this.member?.close();
  }

  private change(): Promise<void> {
    return new Promise((resolve) => this.watchers.push(resolve));
  }

  private changed(): void {
    const watchers = this.watchers;
    this.watchers = [];
    for (const wake of watchers) wake();
  }
}
