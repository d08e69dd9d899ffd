import type { ObjectId } from 'mongodb';
import type { Job, JobDefinition } from '../../core/job.ts';
import { definitionOf, definitionText } from '../../core/record.ts';

/**
 * A job as a document. Its `_id` is `CLUSTER KEY`: one index is the unique key, the binary order of a list, and the order by
 * (cluster, key), since names of clusters hold only characters of Kafka topics, all of them above the space.
 *
 * The definition is the text that ends its record, so that a bulk copies bytes and mongod has fewer fields to look at; what is
 * asked for by index stands beside it. Labels are JSON text: a key of theirs may be any text, a field name of BSON may not.
 */
export interface JobDocument extends Omit<Job, 'key' | 'labels' | 'deleted' | TextField> {
  _id: string;
  /** As `definitionText`. */
  definition: string;
  /** Zone of a cron that names one, and the exclusion calendars. */
  zone?: string;
  calendars?: string[];
  labels?: string;
  /** Always there, so that it can stand in an index. */
  deleted: boolean;
  /** Names the last write of `replaceMany`, to tell afterwards which documents it changed. */
  mark?: ObjectId;
}

type TextField = Exclude<keyof JobDefinition, 'description' | 'labels'>;

export function jobId(cluster: string, key: string): string {
  return `${cluster} ${key}`;
}

export function toDocument(job: Job, mark?: ObjectId): JobDocument {
  const { key, labels, deleted = false, schedule, bounds, misfire, payload, contentType, ...rest } = job;
  const zone = schedule.kind === 'cron' ? schedule.zone : undefined;
  return {
    _id: jobId(job.cluster, key),
    ...rest,
    ...(zone === undefined ? {} : { zone }),
    ...(bounds.calendars === undefined ? {} : { calendars: bounds.calendars }),
    ...(labels === undefined ? {} : { labels: JSON.stringify(labels) }),
    deleted,
    definition: definitionText({ schedule, bounds, misfire, payload, contentType }),
    ...(mark === undefined ? {} : { mark }),
  };
}

export function fromDocument(document: JobDocument): Job {
  const { _id, labels, deleted, mark: _mark, definition, zone: _zone, calendars: _calendars, ...rest } = document;
  return {
    ...definitionOf(definition),
    ...rest,
    key: _id.slice(rest.cluster.length + 1),
    ...(labels === undefined ? {} : { labels: JSON.parse(labels) as Record<string, string> }),
    ...(deleted ? { deleted } : {}),
  };
}
