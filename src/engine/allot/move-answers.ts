import { randomUUID } from 'node:crypto';
import { type Answer, decodeMessage } from '../../core/messages.ts';
import { partitionOf } from '../../core/murmur2.ts';
import { TOPICS } from '../../core/topics.ts';
import type { Bus, BusReader } from '../../ports/bus.ts';

interface Heard {
  /** The version that the applier has made and committed; null: no answer of it yet, or a refusal. */
  version: number | null;
  ownerFollows: boolean;
  owner: boolean;
}

/** Answers to changes of the manager: they say when a version is certainly in force. */
export class MoveAnswers {
  readonly #bus: Bus;
  readonly #replyTo = `mover-${randomUUID()}`;
  readonly #heard = new Map<string, Heard>();
  #reader: BusReader | null = null;

  constructor(bus: Bus) {
    this.#bus = bus;
  }

  /** Awaits the answers to a change; where they are to be sent. */
  await(id: string): string {
    this.#heard.set(id, { version: null, ownerFollows: true, owner: false });
    return this.#replyTo;
  }

  forget(id: string | undefined): void {
    if (id !== undefined) this.#heard.delete(id);
  }

  /**
   * Whether the change made this version, it is committed, and the owner who has the job in a wheel goes by it. Nobody who
   * takes the slot later can go by an older one: its record is in the trigger store and its message in the fast path.
   */
  inForce(id: string, version: number): boolean {
    const heard = this.#heard.get(id);
    return heard?.version === version && (heard.owner || !heard.ownerFollows);
  }

  /** Reads what has come; the first call only begins at the end. */
  async read(): Promise<void> {
    const partitions = await this.#bus.partitions(TOPICS.answers);
    const reader =
      this.#reader ?? (await this.#bus.reader(TOPICS.answers, partitionOf(this.#replyTo, partitions), 'end'));
    this.#reader = reader;
    try {
      while (!(await reader.caughtUp())) for (const { value } of await reader.read(0)) this.#take(value);
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  #take(value: Uint8Array | null): void {
    const answer = value === null ? null : decodeMessage<Answer>(value);
    const heard = answer?.replyTo === this.#replyTo ? this.#heard.get(answer.id) : undefined;
    if (answer === null || heard === undefined) return;
    if (answer.from === 'owner') heard.owner = true;
    else if (answer.outcome.ok) {
      heard.version = answer.outcome.version;
      heard.ownerFollows = answer.ownerFollows;
    }
  }

  async close(): Promise<void> {
    const reader = this.#reader;
    this.#reader = null;
    this.#heard.clear();
    await reader?.close();
  }
}
