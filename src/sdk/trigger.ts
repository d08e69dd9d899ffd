import { COMPACT_ID } from '../core/envelope.ts';

/**
 * One trigger as a handler gets it, the same for both envelopes (`core/envelope.ts`) and all transports.
 *
 * The compact envelope carries the execution id only: `nominalMs` is read from it, and `effectiveMs` and `version` are
 * absent.
 */
export interface Trigger {
  /** Execution id, `SHARD-NUMBER-NOMINALMS` (`-fREQUEST` behind it for a run by hand): the same for every copy of a trigger. */
  readonly id: string;
  /** Key of the job. */
  readonly key: string;
  /** Logical cluster; with the compact envelope it is taken from the topic's name. */
  readonly cluster: string;
  /** Time of the schedule, UTC ms. */
  readonly nominalMs: number;
  /** The same as a date. */
  readonly nominal: Date;
  /** Nominal time plus the job's spread, UTC ms. */
  readonly effectiveMs?: number;
  /** Version of the job that fired. */
  readonly version?: number;
  /** The payload, byte for byte as it was registered. */
  readonly bytes: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  /** 1, or more when an earlier call of the handler failed. */
  readonly attempt: number;
  /** The payload as JSON; throws SyntaxError when it is none. */
  payload(): unknown;
  /** The payload as UTF-8 text. */
  text(): string;
  /**
   * With manual commit: this trigger is done. It is confirmed with the de-duplicator, and its offset is stored as soon as
   * all triggers before it in its partition are done as well. When the partition has gone to another member meanwhile,
   * only the confirmation counts; without a de-duplicator the trigger comes again there. With automatic commit it does
   * nothing.
   */
  commit(): Promise<void>;
}

/** A record of a trigger topic before it is known to be a trigger. */
export interface ReceivedRecord {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly key: string;
  readonly value: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
}

/** What a record says, or null when it is no trigger (no execution id in either envelope). */
export type TriggerContent = Pick<Trigger, 'id' | 'key' | 'cluster' | 'nominalMs'> &
  Partial<Pick<Trigger, 'effectiveMs' | 'version'>>;

const TOPIC_PREFIX = 'carillon.triggers.';
const EXECUTION_ID = /^\d+-\d+-(\d+)(?:-f.*)?$/s;

export function triggerContent(record: ReceivedRecord): TriggerContent | null {
  const { headers } = record;
  const id = headers['ce_id'] ?? headers[COMPACT_ID];
  const nominalText = id === undefined ? undefined : EXECUTION_ID.exec(id)?.[1];
  if (id === undefined || nominalText === undefined) return null;
  const effectiveMs = Date.parse(headers['ce_effectivetime'] ?? '');
  const version = Number(headers['ce_jobversion'] ?? Number.NaN);
  return {
    id,
    key: record.key,
    cluster: headers['ce_cluster'] ?? clusterOfTopic(record.topic),
    nominalMs: Number(nominalText),
    ...(Number.isFinite(effectiveMs) && { effectiveMs }),
    ...(Number.isInteger(version) && { version }),
  };
}

function clusterOfTopic(topic: string): string {
  return topic.startsWith(TOPIC_PREFIX) ? topic.slice(TOPIC_PREFIX.length) : topic;
}
