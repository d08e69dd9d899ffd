import type { JobState, MisfirePolicy } from '../job.ts';
import type { GapPolicy, OverlapPolicy } from '../schedule/types.ts';

/**
 * A job as users write and read it: in the API, the SDK, job files and the console. Times are RFC 3339 with an offset, lengths
 * are whole ms. `job-schema.ts` holds the same fields as a JSON schema; a test holds the two together.
 */
export interface JobForm {
  /** 1 to 255 bytes of UTF-8 without control characters; not `.` or `..`, which URLs swallow. */
  key: string;
  schedule: ScheduleForm;
  /** First and last instant at which an occurrence may lie, both inclusive. */
  start?: string;
  end?: string;
  /** At most this many occurrences after creation; becomes an end time. */
  maxCount?: number;
  /** Width of the window over which jobs are spread, in ms; shorter than the period. */
  spreadMs?: number;
  /** Names of exclusion calendars. */
  calendars?: string[];
  misfire?: MisfirePolicy;
  /** Any JSON; its text is the value of every trigger, byte for byte. Absent means `null`. */
  payload?: unknown;
  /** Media type of the payload; absent means `application/json`. */
  contentType?: string;
  description?: string;
  labels?: Record<string, string>;
  /** Absent: a new job is enabled, another keeps its state. */
  state?: 'enabled' | 'paused';
}

export type ScheduleForm =
  | { kind: 'cron'; expression: string; zone?: string; gap?: GapPolicy; overlap?: OverlapPolicy }
  | { kind: 'rate'; everyMs: number; anchor?: string }
  | { kind: 'once'; at: string }
  /** Counted from the request; it is stored, and answered, as the time that it came to. */
  | { kind: 'delay'; delayMs: number };

/** Members that may be taken away with null. */
type Patched<T> = { [F in keyof T]?: T[F] | null };

/** A merge patch (RFC 7396) of a job: null takes a field away. A schedule of another kind replaces the whole schedule. */
export type JobPatch = Patched<Omit<JobForm, 'key' | 'schedule' | 'misfire' | 'labels' | 'state'>> & {
  schedule?: Patched<{
    kind: ScheduleForm['kind'];
    expression: string;
    zone: string;
    gap: GapPolicy;
    overlap: OverlapPolicy;
    everyMs: number;
    anchor: string;
    at: string;
    delayMs: number;
  }>;
  misfire?: Patched<MisfirePolicy> | null;
  labels?: Record<string, string | null> | null;
  state?: 'enabled' | 'paused';
};

/** A job as it is answered: its form, and what Carillon knows of it. These further fields are never written. */
export interface JobView extends Omit<JobForm, 'state'> {
  cluster: string;
  version: number;
  state: JobState;
  stateReason?: string;
  /** Next effective time; null: none, or the job is not enabled. */
  nextFireAt: string | null;
  createdAt: string;
  updatedAt: string;
  shard: number;
  number: number;
}

/** What a preview asks for: a schedule with its bounds, as in a job; `key` is needed for `H` and a spread window. */
export interface PreviewForm
  extends Pick<JobForm, 'schedule' | 'start' | 'end' | 'maxCount' | 'spreadMs' | 'calendars'> {
  key?: string;
  /** Instants strictly after this one; absent means now. */
  after?: string;
  /** 1 to 1,000; absent means 10. */
  count?: number;
}

export interface ClusterForm {
  /** Characters of a Kafka topic: letters, digits, `.`, `_`, `-`; at most 63. */
  name: string;
  /** Absent means `carillon.triggers.NAME`. */
  topic?: string;
  /** Absent means 8. */
  partitions?: number;
  envelope?: 'cloudevents' | 'compact';
  delivery?: 'at-least-once' | 'exactly-once';
}
