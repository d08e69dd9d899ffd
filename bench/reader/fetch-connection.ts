/**
 * One connection to a broker that asks for records with Fetch 11 (https://kafka.apache.org/protocol#The_Messages_Fetch) and
 * answers their bytes as they came. It shares no code with `src/`, and needs no client library, which would make an object
 * of each record.
 */
import { connect, type Socket } from 'node:net';
import { FrameReader, FrameWriter } from './frames.ts';

export interface FetchedPartition {
  partition: number;
  /** First offset that a read-committed reader cannot have yet. */
  lastStable: number;
  records: Buffer;
}

const FETCH = 1;
const VERSION = 11;
const CLIENT = 'carillon-bench';
const CONSUMER = -1;
const READ_COMMITTED = 1;
const NO_SESSION_EPOCH = -1;
const LEAST_BYTES = 1;
/** Bytes of an answer, and of each partition in it; a larger batch comes whole all the same. */
const ANSWER_BYTES = 32 * 1024 * 1024;
const PARTITION_BYTES = 4 * 1024 * 1024;

export class FetchConnection {
  readonly #socket: Socket;
  readonly #topic: string;
  #correlation = 0;
  #frame: Buffer | null = null;
  #filled = 0;
  readonly #head = Buffer.alloc(4);
  #headFilled = 0;
  #waiting: { resolve: (frame: Buffer) => void; reject: (error: Error) => void } | null = null;

  private constructor(socket: Socket, topic: string) {
    this.#socket = socket;
    this.#topic = topic;
    socket.on('data', (chunk) => this.#take(chunk));
    const gone = (error?: Error): void => this.#waiting?.reject(error ?? new Error('the broker closed the connection'));
    socket.on('error', gone);
    socket.on('close', () => gone());
  }

  static async open(broker: string, topic: string): Promise<FetchConnection> {
    const [host, port] = broker.split(':');
    const socket = connect({ host: host!, port: Number(port), noDelay: true });
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve);
      socket.once('error', reject);
    });
    return new FetchConnection(socket, topic);
  }

  close(): void {
    this.#socket.destroy();
  }

  /** Asks for records of partitions from an offset on each, `[partition, offset]`, and waits for some up to `waitMs`. */
  async fetch(wanted: readonly (readonly [number, number])[], waitMs: number): Promise<FetchedPartition[]> {
    const answer = new Promise<Buffer>((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
    this.#socket.write(this.#request(wanted, waitMs));
    const frame = await answer;
    return parse(frame);
  }

  #request(wanted: readonly (readonly [number, number])[], waitMs: number): Buffer {
    this.#correlation += 1;
    const out = new FrameWriter(128 + CLIENT.length + this.#topic.length * 3 + wanted.length * 28);
    out.int16(FETCH).int16(VERSION).int32(this.#correlation).text(CLIENT);
    out.int32(CONSUMER).int32(waitMs).int32(LEAST_BYTES).int32(ANSWER_BYTES).int8(READ_COMMITTED);
    out.int32(0).int32(NO_SESSION_EPOCH);
    out.int32(1).text(this.#topic).int32(wanted.length);
    for (const [partition, offset] of wanted) {
      out.int32(partition).int32(-1).int64(offset).int64(-1).int32(PARTITION_BYTES);
    }
    return out.int32(0).text('').finish();
  }

  /** Puts the pieces of an answer together: its length comes first. */
  #take(chunk: Buffer): void {
    let from = 0;
    while (from < chunk.length) {
      if (this.#frame === null) {
        const taken = chunk.copy(this.#head, this.#headFilled, from);
        this.#headFilled += taken;
        from += taken;
        if (this.#headFilled < 4) return;
        this.#frame = Buffer.allocUnsafeSlow(this.#head.readInt32BE(0));
        this.#headFilled = 0;
        this.#filled = 0;
      }
      const taken = chunk.copy(this.#frame, this.#filled, from);
      this.#filled += taken;
      from += taken;
      if (this.#filled < this.#frame.length) return;
      const frame = this.#frame;
      this.#frame = null;
      const waiting = this.#waiting;
      this.#waiting = null;
      waiting?.resolve(frame);
    }
  }
}

function parse(frame: Buffer): FetchedPartition[] {
  const answer = new FrameReader(frame);
  answer.skip(4 + 4);
  refuse(answer.int16());
  answer.int32();
  const found: FetchedPartition[] = [];
  for (let topics = answer.int32(); topics > 0; topics -= 1) {
    answer.skip(answer.int16());
    for (let partitions = answer.int32(); partitions > 0; partitions -= 1) {
      const partition = answer.int32();
      refuse(answer.int16());
      answer.skip(8);
      const lastStable = answer.int64();
      answer.skip(8);
      // Transactions that were taken back, 16 bytes each: their marks in the log say the same.
      answer.skip(Math.max(0, answer.int32()) * 16 + 4);
      found.push({ partition, lastStable, records: answer.bytes() });
    }
  }
  return found;
}

function refuse(code: number): void {
  if (code === 1) throw new Error('the broker has removed what was not read yet: its retention is too small');
  if (code !== 0) throw new Error(`the broker answered a Fetch with the error code ${code}`);
}
