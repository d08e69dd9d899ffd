import { type Connection, describeConfigsV4 } from '@platformatic/kafka';
import { type Codec, codecOf } from './compression.ts';
import { answerIn } from './protocol-errors.ts';

/** What decides how batches for a topic are made, as last heard of; kept up to date in place. */
export interface TopicSettings {
  /** Bytes of a batch as the topic takes it, and so of its largest record; Infinity: not known, the broker judges. */
  maxBytes: number;
  codec: Codec | null;
}

export const UNKNOWN_SETTINGS: Readonly<TopicSettings> = { maxBytes: Number.POSITIVE_INFINITY, codec: null };

/** Who gives a connection to any broker. */
interface Brokers {
  anyone(): Promise<Connection>;
}

const TOPIC_RESOURCE = 2 as const;
/** Of the sources of a value: set for this topic. */
const SET_FOR_TOPIC = 1;
const MAX_BYTES = 'max.message.bytes';
const COMPRESSION = 'compression.type';
const ZSTD_LEVEL = 'compression.zstd.level';
/** A change of a topic's settings is seen after this time at most, in ms. */
const REFRESH_MS = 30_000;

interface Setting {
  value: string | null;
  /** Set for this topic, and not the default of the broker. */
  own: boolean;
}

/** Settings of topics by name, as the brokers have them; a topic that they do not know is left out. */
export async function describeTopics(
  brokers: Brokers,
  topics: readonly string[],
  keys: readonly string[],
): Promise<Map<string, Map<string, Setting>>> {
  const asked = topics.map((resourceName) => ({
    resourceType: TOPIC_RESOURCE,
    resourceName,
    configurationKeys: [...keys],
  }));
  const answer = await describeConfigsV4.api
    .async(await brokers.anyone(), asked)
    .catch(answerIn<describeConfigsV4.DescribeConfigsResponse>);
  const found = answer.results.filter(({ errorCode }) => errorCode === 0);
  return new Map(
    found.map(({ resourceName, configs }) => {
      const settings = configs.map(({ name, value, configSource }) => {
        return [name, { value: value ?? null, own: configSource === SET_FOR_TOPIC }] as const;
      });
      return [resourceName, new Map(settings)];
    }),
  );
}

/**
 * Settings of the topics that are written to. They are asked for when a topic is first named, and all of them again once in a while.
 * Where they cannot be read (it takes the right DESCRIBE_CONFIGS) batches go without compression, and what is too large is found out
 * by the broker's refusal.
 */
export class SettingsOfTopics {
  readonly #brokers: Brokers;
  readonly #known = new Map<string, TopicSettings>();
  #askedMs = Number.NEGATIVE_INFINITY;
  #asking: Promise<void> | null = null;

  constructor(brokers: Brokers) {
    this.#brokers = brokers;
  }

  of(topic: string): TopicSettings {
    let settings = this.#known.get(topic);
    if (settings === undefined) {
      settings = { ...UNKNOWN_SETTINGS };
      this.#known.set(topic, settings);
      this.#ask();
    }
    return settings;
  }

  /** To be called whenever something is sent, monotonic ms: it asks anew when it is time. */
  refresh(nowMs: number): void {
    if (nowMs - this.#askedMs > REFRESH_MS) this.#ask();
  }

  #ask(): void {
    if (this.#asking !== null) return;
    this.#askedMs = performance.now();
    const asked = [...this.#known.keys()];
    this.#asking = this.#read(asked)
      .catch(() => {})
      .finally(() => {
        this.#asking = null;
        if (this.#known.size > asked.length) this.#ask();
      });
  }

  async #read(topics: readonly string[]): Promise<void> {
    const described = await describeTopics(this.#brokers, topics, [MAX_BYTES, COMPRESSION, ZSTD_LEVEL]);
    for (const [topic, configs] of described) {
      const maxBytes = Number(configs.get(MAX_BYTES)?.value ?? Number.NaN);
      const level = configs.get(ZSTD_LEVEL);
      Object.assign(this.#known.get(topic)!, {
        maxBytes: Number.isInteger(maxBytes) ? maxBytes : UNKNOWN_SETTINGS.maxBytes,
        codec: codecOf(configs.get(COMPRESSION)?.value ?? '', level?.own ? Number(level.value) : null),
      } satisfies TopicSettings);
    }
  }
}
