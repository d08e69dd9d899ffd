/**
 * Requests at a fixed rate over connections that stay open (HTTP/1.1, one request at a time on each), whatever the answers
 * take: request i is due at i / rate after the start, and its time counts from then. So a request that waits for the clock,
 * for a free connection or for the server is late in the result, and a stall shows in all requests that fell into it: no
 * coordinated omission, and nothing is corrected afterwards.
 */
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Load {
  url: string;
  rate: number;
  seconds: number;
  connections: number;
  /** Path and JSON body of the next POST. */
  request(): { path: string; body: string };
}

export interface Loaded {
  sent: number;
  /** Answers by status. */
  statuses: Map<number, number>;
  /** From when each answered request was due, in ms, not sorted. */
  timesMs: Float64Array;
}

/** What is not answered so long after the last request was due is given up, in ms. */
const LAST_WAIT_MS = 10_000;

interface Sent {
  dueMs: number;
  bytes: string;
}

export async function openLoop(load: Load): Promise<Loaded> {
  const total = Math.round(load.rate * load.seconds);
  const lanes = await Promise.all(Array.from({ length: load.connections }, () => Lane.open(load.url)));
  const answers = new Answers(total, lanes);
  const host = new URL(load.url).host;
  const startMs = performance.now();
  for (let sent = 0; sent < total; ) {
    const due = Math.min(total, Math.floor(((performance.now() - startMs) * load.rate) / 1_000));
    for (; sent < due; sent += 1) {
      answers.send({ dueMs: startMs + (sent * 1_000) / load.rate, bytes: bytesOf(host, load.request()) });
    }
    await sleep(1);
  }
  const endMs = performance.now() + LAST_WAIT_MS;
  while (!answers.complete && performance.now() < endMs) await sleep(10);
  for (const lane of lanes) lane.close();
  return answers.result();
}

function bytesOf(host: string, { path, body }: ReturnType<Load['request']>): string {
  const length = Buffer.byteLength(body);
  const head = `POST ${path} HTTP/1.1\r\nhost: ${host}\r\ncontent-type: application/json\r\ncontent-length: ${length}`;
  return `${head}\r\n\r\n${body}`;
}

/** Hands requests to free connections, and keeps what became of them. */
class Answers {
  readonly #timesMs: Float64Array;
  readonly #statuses = new Map<number, number>();
  readonly #waiting: Sent[] = [];
  readonly #idle: Lane[];
  #answered = 0;
  #broken = 0;

  constructor(total: number, lanes: readonly Lane[]) {
    this.#timesMs = new Float64Array(total);
    this.#idle = [...lanes];
    for (const lane of lanes) {
      lane.onAnswer = (status, dueMs) => this.#take(lane, status, dueMs);
      lane.onBroken = () => {
        this.#broken += 1;
      };
    }
  }

  send(one: Sent): void {
    const lane = this.#idle.pop();
    if (lane === undefined) this.#waiting.push(one);
    else lane.send(one);
  }

  #take(lane: Lane, status: number, dueMs: number): void {
    this.#statuses.set(status, (this.#statuses.get(status) ?? 0) + 1);
    this.#timesMs[this.#answered++] = performance.now() - dueMs;
    const next = this.#waiting.shift();
    if (next === undefined) this.#idle.push(lane);
    else lane.send(next);
  }

  get complete(): boolean {
    return this.#answered + this.#broken >= this.#timesMs.length;
  }

  result(): Loaded {
    const timesMs = this.#timesMs.subarray(0, this.#answered);
    return { sent: this.#timesMs.length, statuses: this.#statuses, timesMs };
  }
}

/** One connection with at most one request on the way. */
class Lane {
  onAnswer: (status: number, dueMs: number) => void = () => {};
  /** The request that was on the way has no answer. */
  onBroken: () => void = () => {};
  readonly #socket: Socket;
  #open: Sent | null = null;
  #text = '';

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    // Lengths in bytes and in characters are the same in Latin-1.
    socket.setEncoding('latin1');
    socket.on('data', (text: string) => this.#data(text));
    socket.on('error', () => {});
    socket.on('close', () => {
      if (this.#open !== null) this.onBroken();
    });
  }

  static open(url: string): Promise<Lane> {
    const { hostname, port } = new URL(url);
    return new Promise((resolve, reject) => {
      const socket = connect(Number(port), hostname, () => resolve(new Lane(socket)));
      socket.once('error', reject);
    });
  }

  send(one: Sent): void {
    this.#open = one;
    this.#socket.write(one.bytes);
  }

  close(): void {
    this.#socket.destroy();
  }

  #data(text: string): void {
    this.#text += text;
    const head = this.#text.indexOf('\r\n\r\n');
    if (head === -1 || this.#open === null) return;
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(this.#text.slice(0, head))?.[1] ?? 0);
    if (this.#text.length < head + 4 + length) return;
    const status = Number(this.#text.slice(9, 12));
    const { dueMs } = this.#open;
    this.#open = null;
    this.#text = '';
    this.onAnswer(status, dueMs);
  }
}
