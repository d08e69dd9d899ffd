import { setTimeout as delay } from 'node:timers/promises';
import { ApiError } from './api-error.ts';
import type { ConsumerOptions, RunningConsumer, TriggerHandler } from './consumer.ts';
import { Consumption, type Position } from './consumption.ts';
import { Http, type HttpOptions, pathPart } from './http.ts';
import { PartitionProgress } from './progress.ts';
import { type StreamedTrigger, type StreamOpened, triggerLines } from './trigger-stream.ts';

export interface HttpConsumerOptions extends ConsumerOptions, HttpOptions {
  handler: TriggerHandler;
  /** Logical cluster. Default `default`. */
  cluster?: string;
}

/**
 * A trigger consumer over the API's stream of triggers: for services beside an embedded Carillon, or without Kafka's client.
 * As with Kafka, the members of a group share the partitions. When the connection breaks, what was handled and not stored
 * comes again at the next connection; a de-duplicator drops it.
 *
 * @throws ApiError when the first connection is refused; later ones are tried until `stop`
 */
export async function consumeHttp(options: HttpConsumerOptions): Promise<RunningConsumer> {
  const member = new HttpMember(options);
  await member.start();
  return member.consumption;
}

const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;

class HttpMember {
  readonly consumption: Consumption;
  private readonly options: HttpConsumerOptions;
  private readonly http: Http;
  private readonly path: string;
  private readonly leaving = new AbortController();
  private opened: StreamOpened | undefined;
  private reading: Promise<void> | undefined;

  constructor(options: HttpConsumerOptions) {
    this.options = options;
    this.http = new Http(options);
    this.path = `/v1/clusters/${pathPart(options.cluster ?? 'default', 'cluster')}/triggers`;
    this.consumption = new Consumption(() => options.handler, options, {
      store: (positions) => this.store(positions),
      pause: () => {},
      leave: async () => {
        this.leaving.abort();
        await this.reading;
      },
    });
  }

  async start(): Promise<void> {
    const lines = await this.connect();
    this.reading = this.readAll(lines);
  }

  private connect(): Promise<AsyncGenerator<StreamLine, void, void>> {
    return triggerLines(this.http, `${this.path}?group=${encodeURIComponent(this.options.group)}`, this.leaving.signal);
  }

  /** Reads one connection after another until the consumer stops. */
  private async readAll(first: AsyncGenerator<StreamLine, void, void>): Promise<void> {
    let lines: AsyncGenerator<StreamLine, void, void> | undefined = first;
    for (let pauseMs = FIRST_PAUSE_MS; !this.consumption.stopped; ) {
      try {
        lines ??= await this.connect();
        await this.read(lines, () => {
          pauseMs = FIRST_PAUSE_MS;
        });
      } catch (error) {
        if (this.consumption.stopped) return;
        if (error instanceof ApiError && !error.retryable) {
          this.consumption.fail(error);
          return;
        }
        this.options.onEvent?.({ kind: 'disconnected', error });
      }
      lines = undefined;
      if (this.consumption.stopped) return;
      const { partitions, dispatcher, drainMs } = this.consumption;
      await dispatcher.drain(partitions.values(), drainMs);
      partitions.clear();
      await delay(pauseMs / 2 + Math.random() * (pauseMs / 2), undefined, { signal: this.leaving.signal }).catch(
        () => {},
      );
      pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2);
    }
  }

  private async read(lines: AsyncGenerator<StreamLine, void, void>, onLine: () => void): Promise<void> {
    for await (const line of lines) {
      onLine();
      if ('session' in line) this.opened = line;
      else if ('revoked' in line) this.giveBack(line.revoked);
      else if (!this.consumption.stopped) await this.take(line);
    }
  }

  private async take({ partition, offset, key, headers, payload }: StreamedTrigger): Promise<void> {
    const { partitions, dispatcher } = this.consumption;
    const topic = this.opened?.topic ?? '';
    let progress = partitions.get(String(partition));
    if (progress === undefined) {
      progress = new PartitionProgress(topic, partition, offset);
      partitions.set(String(partition), progress);
    }
    const value = new TextEncoder().encode(payload);
    await dispatcher.add(progress, { topic, partition, offset, key, value, headers });
  }

  /** Another member gets this partition as soon as the server hears that nothing of it is under way here. */
  private giveBack(partition: number): void {
    const { partitions } = this.consumption;
    const progress = partitions.get(String(partition));
    partitions.delete(String(partition));
    const release = async () => {
      if (progress !== undefined) await this.consumption.giveBack([progress]);
      await this.post({ released: [partition] });
    };
    release().catch((error: unknown) => this.options.onEvent?.({ kind: 'commit-failed', error }));
  }

  private store(positions: Position[]): Promise<void> {
    return this.post({ offsets: positions.map(({ partition, next }) => ({ partition, next })) });
  }

  private async post(body: { offsets?: { partition: number; next: number }[]; released?: number[] }): Promise<void> {
    const session = this.opened?.session;
    const text = JSON.stringify({ session, ...body });
    await this.http.json({ method: 'POST', path: `${this.path}/commit`, text, repeatable: true });
  }
}

type StreamLine = StreamOpened | { revoked: number } | StreamedTrigger;
