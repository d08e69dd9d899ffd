import type { BusRecord, GroupHandler, GroupPartition } from '../../ports/bus.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import type { Cluster } from './cluster.ts';
import { type HeldPartition, storedOffset } from './group-offsets.ts';
import type { GroupReader, PartitionReader } from './group-reader.ts';
import { offsetOf } from './offsets.ts';
import { describe } from './protocol-errors.ts';

const READ_MS = 5_000;
/** Records of one batch: what a batch costs beside its records (a transaction, mostly) is worth many of them. */
const READ_RECORDS = 2_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

/** Works on one partition from when it is given until `stop`: assigned, batches one after the other, revoked. */
export class PartitionWorker {
  readonly name: HeldPartition;
  readonly #cluster: Cluster;
  readonly #handler: GroupHandler;
  readonly #telemetry: Telemetry;
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;
  readonly #partition: GroupPartition;
  readonly #source: GroupReader;
  #reader: PartitionReader | null = null;

  constructor(cluster: Cluster, source: GroupReader, name: HeldPartition, handler: GroupHandler, telemetry: Telemetry) {
    this.#cluster = cluster;
    this.#source = source;
    this.name = name;
    this.#handler = handler;
    this.#telemetry = telemetry;
    const { topic, partition, generationId: generation, memberId: member } = name;
    this.#partition = { topic, partition, next: 0, signal: this.#stop.signal, holder: { generation, member } };
    this.#ended = this.#run();
  }

  /** Answers when the batch that runs, if one does, and `revoked` have ended. */
  async stop(): Promise<void> {
    this.#stop.abort();
    this.#reader?.close();
    await this.#ended;
  }

  async #run(): Promise<void> {
    let given = false;
    await this.#untilDone('begin', async () => {
      this.#partition.next = await this.#begin();
    });
    await this.#untilDone('assigned', async () => {
      given = true;
      await this.#handler.assigned?.(this.#partition);
    });
    await this.#untilDone('open', async () => {
      // Whoever the handler fenced in `assigned` may have stored an offset until then.
      this.#partition.next = await this.#begin();
      this.#reader = this.#source.open(this.name.partition, this.#partition.next);
    });
    while (!this.#stop.signal.aborted) {
      let records: BusRecord[] = [];
      await this.#untilDone('read', async () => {
        records = await this.#reader!.read(READ_MS, READ_RECORDS);
      });
      if (records.length === 0 || this.#stop.signal.aborted) continue;
      await this.#untilDone('batch', () => this.#handler.batch(this.#partition, records));
      this.#partition.next = records.at(-1)!.offset + 1;
    }
    this.#reader?.close();
    if (given) await this.#untilDone('revoked', async () => this.#handler.revoked?.(this.#partition), true);
  }

  /** The stored offset; the first of the log where none is stored, or where the records there were removed unread. */
  async #begin(): Promise<number> {
    const { topic, partition, group } = this.name;
    const [stored, first] = await Promise.all([
      storedOffset(this.#cluster, this.name),
      offsetOf(this.#cluster, topic, partition, 'first'),
    ]);
    if (stored !== null && stored >= first) return stored;
    if (stored !== null) {
      this.#telemetry.event('error', 'records were removed before a group had read them', {
        group,
        topic,
        partition,
        from: stored,
        to: first,
      });
    }
    return first;
  }

  /** Repeats what throws, after growing pauses, until it is done or the partition is taken away. */
  async #untilDone(what: string, run: () => Promise<void>, once = false): Promise<void> {
    const { signal } = this.#stop;
    for (let pauseMs = FIRST_PAUSE_MS; once || !signal.aborted; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)) {
      try {
        return await run();
      } catch (error) {
        if (!signal.aborted || once) {
          const { group, topic, partition } = this.name;
          const fields = { group, topic, partition, what, error: describe(error) };
          this.#telemetry.event('warn', 'a step of a consumer group failed and is repeated', fields);
          this.#telemetry.count('group_errors_total', { group, what });
        }
        if (once) return;
        await this.#cluster.pause(pauseMs, signal);
      }
    }
  }
}
