import type { Cluster, JobRecord } from './job.ts';
import { partitionOf } from './murmur2.ts';

/**
 * The trigger message. CloudEvents 1.0 in Kafka's binary mode (CloudEvents Kafka protocol binding 1.0.2, section 3.2): the
 * value is the job's payload byte for byte, attributes are headers with the prefix `ce_` and UTF-8 values as they are (that
 * binding, unlike HTTP's, does not percent-encode). The compact envelope has the same key and value and the one header `id`.
 * The partition is that of Kafka's Java client: murmur2 of the key modulo the partitions of the cluster's topic.
 *
 * Times are RFC 3339 in UTC and always have milliseconds (`2026-12-01T00:14:00.000Z`), so that they sort as text.
 *
 * | header | value |
 * |---|---|
 * | `ce_specversion` | `1.0` |
 * | `ce_id` | execution id |
 * | `ce_type` | `carillon.trigger.v1` |
 * | `ce_source` | `/clusters/NAME` |
 * | `ce_subject` | job key |
 * | `ce_time` | nominal time |
 * | `content-type` | content type of the payload |
 * | `ce_cluster` | name of the logical cluster |
 * | `ce_jobversion` | version of the job, decimal |
 * | `ce_effectivetime` | nominal time plus the job's spread |
 * | `ce_epoch` | epoch of the slot's owner, decimal |
 */
const TRIGGER_TYPE = 'carillon.trigger.v1';

/** The header of the compact envelope. */
export const COMPACT_ID = 'id';

export interface TriggerMessage {
  partition: number;
  key: string;
  value: Uint8Array;
  headers: Record<string, string>;
}

/** What all triggers of one version of a job share. */
export interface TriggerHead {
  partition: number;
  key: string;
  value: Uint8Array;
  /** Constant headers; null: the compact envelope. */
  headers: Readonly<Record<string, string>> | null;
  /** What a bus keeps of it in a form of its own; null: nothing yet. */
  kept: unknown;
}

export function triggerHead(
  cluster: Pick<Cluster, 'name' | 'partitions' | 'envelope'>,
  record: Pick<JobRecord, 'key' | 'version' | 'payload' | 'contentType'>,
  epoch: number,
): TriggerHead {
  const { key, payload } = record;
  return {
    partition: partitionOf(key, cluster.partitions),
    key,
    // A Buffer of the pool: memory of its own for each took 9 % of a worker's CPU where each trigger is of another job (m).
    value: Buffer.from(payload),
    headers: cluster.envelope === 'compact' ? null : headersOf(cluster.name, record, epoch),
    kept: null,
  };
}

function headersOf(
  cluster: string,
  { key, version, contentType }: Pick<JobRecord, 'key' | 'version' | 'contentType'>,
  epoch: number,
): Record<string, string> {
  return {
    ce_specversion: '1.0',
    ce_type: TRIGGER_TYPE,
    ce_source: `/clusters/${cluster}`,
    ce_subject: key,
    'content-type': contentType,
    ce_cluster: cluster,
    ce_jobversion: String(version),
    ce_epoch: String(epoch),
  };
}

/** One trigger. Times in UTC ms; `effectiveMs` is `nominalMs` plus the job's spread offset. */
export function triggerMessage(
  head: TriggerHead,
  executionId: string,
  nominalMs: number,
  effectiveMs: number,
): TriggerMessage {
  const { partition, key, value } = head;
  if (head.headers === null) return { partition, key, value, headers: { [COMPACT_ID]: executionId } };
  const time = instantText(nominalMs);
  const effective = effectiveMs === nominalMs ? time : instantText(effectiveMs);
  return {
    partition,
    key,
    value,
    headers: { ...head.headers, ce_id: executionId, ce_time: time, ce_effectivetime: effective },
  };
}

/** The triggers of one bucket share their time, so the last text is kept. */
let lastMs = -1;
let lastText = '';

function instantText(ms: number): string {
  if (ms !== lastMs) {
    lastText = new Date(ms).toISOString();
    lastMs = ms;
  }
  return lastText;
}
