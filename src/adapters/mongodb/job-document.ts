import type { ObjectId } from 'mongodb';
import type { Job } from '../../core/job.ts';

/**
 * A job as a document. Its `_id` is `CLUSTER KEY`: one index is the unique key, the binary order of a list, and the order by
 * (cluster, key), since names of clusters hold only characters of Kafka topics, all of them above the space.
 * Labels are JSON text: a key of theirs may be any text, a field name of BSON may not.
 */
export interface JobDocument extends Omit<Job, 'key' | 'labels' | 'deleted'> {
  _id: string;
  labels?: string;
  /** Always there, so that it can stand in an index. */
  deleted: boolean;
  /** Names the last write of `replaceMany`, to tell afterwards which documents it changed. */
  mark?: ObjectId;
}

export function jobId(cluster: string, key: string): string {
  return `${cluster} ${key}`;
}

export function toDocument(job: Job, mark?: ObjectId): JobDocument {
  const { key, labels, deleted = false, ...rest } = job;
  return {
    _id: jobId(job.cluster, key),
    ...rest,
    ...(labels === undefined ? {} : { labels: JSON.stringify(labels) }),
    deleted,
    ...(mark === undefined ? {} : { mark }),
  };
}

export function fromDocument(document: JobDocument): Job {
  const { _id, labels, deleted, mark: _mark, ...rest } = document;
  return {
    ...rest,
    key: _id.slice(rest.cluster.length + 1),
    ...(labels === undefined ? {} : { labels: JSON.parse(labels) as Record<string, string> }),
    ...(deleted ? { deleted } : {}),
  };
}
