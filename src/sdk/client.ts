import type { ClusterForm, JobForm, JobPatch, JobView, PreviewForm } from '../core/form/job-form.ts';
import type { JobState } from '../core/job.ts';
import type { CalendarDefinition } from '../core/schedule/types.ts';
import { ApiError } from './api-error.ts';
import { type BulkOptions, type BulkSource, bulkUpload } from './bulk.ts';
import { Http, type HttpOptions, pathPart } from './http.ts';
import { type OperationView, waitForOperation } from './operation.ts';

export interface ClientOptions extends HttpOptions {
  /** Logical cluster of all calls that name none. Default `default`. */
  cluster?: string;
}

export interface CallOptions {
  signal?: AbortSignal;
}

export interface WriteOptions extends CallOptions {
  /** Only if the job still has this version (`If-Match`); else `version-mismatch`. */
  ifVersion?: number;
}

/** JSON text to be sent as the payload, byte for byte, in place of the form's `payload`. */
export interface PayloadOption {
  payloadText?: string;
}

export interface JobQuery extends CallOptions {
  /** Keys that begin with this text. */
  prefix?: string;
  state?: JobState;
  /** Jobs per request, 1 to 1,000. Default 500. */
  pageSize?: number;
}

export interface JobPage {
  jobs: JobView[];
  /** Cursor of the next page; null: this is the last. */
  next: string | null;
}

export interface ClusterView extends Required<ClusterForm> {
  createdAt: string;
}

export interface CalendarView {
  name: string;
  version: number;
  definition: CalendarDefinition;
}

/**
 * The typed API client. It needs nothing but the global `fetch`.
 *
 * All calls reject with `ApiError`, which has `code`, `field` and `detail` of the answer. A request that may be repeated is
 * tried again, with pauses, when the installation says "later" or there is no answer; one that names a version (`ifVersion`)
 * or creates is not repeated after a lost answer, since its second answer would say something else.
 */
export class CarillonClient {
  readonly jobs: Jobs;
  readonly operations: Operations;
  readonly clusters: Clusters;
  readonly calendars: Calendars;
  private readonly http: Http;

  constructor(options: ClientOptions = {}) {
    this.http = new Http(options);
    const cluster = options.cluster ?? 'default';
    this.jobs = new Jobs(this.http, cluster);
    this.operations = new Operations(this.http, cluster);
    this.clusters = new Clusters(this.http);
    this.calendars = new Calendars(this.http);
  }

  /** The next occurrences of a schedule, at most 1,000, as the engine will fire them. */
  preview(form: PreviewForm, { signal }: CallOptions = {}): Promise<PreviewView> {
    return this.http.json({
      method: 'POST',
      path: '/v1/preview',
      text: JSON.stringify(form),
      repeatable: true,
      signal,
    });
  }
}

export interface PreviewView {
  /** Nominal times, and with the spread offset the times at which they fire, RFC 3339 in UTC. */
  occurrences: { nominal: string; effective: string }[];
}

/** A job after a write, and what the write did to it. */
export interface WrittenJob extends JobView {
  result: 'created' | 'updated' | 'unchanged' | 'deleted' | 'fired';
}

class Jobs {
  private readonly http: Http;
  private readonly root: string;

  constructor(http: Http, cluster: string) {
    this.http = http;
    this.root = `/v1/clusters/${pathPart(cluster, 'cluster')}/jobs`;
  }

  /** Makes a new job; `job-exists` when the key is taken by another definition. */
  async create(job: JobForm, { signal, payloadText }: CallOptions & PayloadOption = {}): Promise<WrittenJob> {
    const text = bodyText(job, payloadText);
    return this.http.json({ method: 'POST', path: this.root, text, repeatable: false, signal });
  }

  /** Makes or replaces a job. With a delay it is not repeated after a lost answer, since that would count anew. */
  async put(job: JobForm, options: WriteOptions & PayloadOption = {}): Promise<WrittenJob> {
    const text = bodyText(job, options.payloadText);
    return this.write('PUT', this.path(job.key), options, text, job.schedule?.kind !== 'delay');
  }

  /** A merge patch: absent fields stay, null takes a field away. */
  async patch(key: string, patch: JobPatch, options: WriteOptions & PayloadOption = {}): Promise<WrittenJob> {
    const text = bodyText(patch, options.payloadText);
    return this.write('PATCH', this.path(key), options, text, patch.schedule?.delayMs == null);
  }

  async get(key: string, { signal }: CallOptions = {}): Promise<JobView> {
    return this.http.json({ method: 'GET', path: this.path(key), repeatable: true, signal });
  }

  /** All jobs that match, by key, page after page. */
  async *list(query: JobQuery = {}): AsyncGenerator<JobView, void, void> {
    let cursor: string | undefined;
    do {
      const page = await this.page(query, cursor);
      yield* page.jobs;
      cursor = page.next ?? undefined;
    } while (cursor !== undefined);
  }

  async page({ prefix, state, pageSize = 500, signal }: JobQuery = {}, cursor?: string): Promise<JobPage> {
    const query = { prefix, state, limit: pageSize, cursor };
    return this.http.json({ method: 'GET', path: this.root, query, repeatable: true, signal });
  }

  async delete(key: string, options: WriteOptions = {}): Promise<void> {
    try {
      await this.write('DELETE', this.path(key), options);
    } catch (error) {
      // The answer to an earlier try was lost: that try has deleted it.
      if (!(error instanceof ApiError && error.code === 'job-not-found' && error.tries > 1)) throw error;
    }
  }

  async pause(key: string, options: WriteOptions = {}): Promise<WrittenJob> {
    return this.write('POST', `${this.path(key)}/pause`, options);
  }

  /** What passed in the pause goes by the misfire policy. */
  async resume(key: string, options: WriteOptions = {}): Promise<WrittenJob> {
    return this.write('POST', `${this.path(key)}/resume`, options);
  }

  /** Ends a job for ever and keeps it. */
  async terminate(key: string, options: WriteOptions = {}): Promise<WrittenJob> {
    return this.write('POST', `${this.path(key)}/terminate`, options);
  }

  /** One run at once, beside the schedule; `id` is its execution id. The same `requestKey` never makes a second run. */
  async fire(
    key: string,
    { requestKey = crypto.randomUUID(), signal }: CallOptions & { requestKey?: string } = {},
  ): Promise<WrittenJob & { id: string }> {
    const headers = { 'idempotency-key': requestKey };
    return this.http.json({ method: 'POST', path: `${this.path(key)}/fire`, headers, repeatable: true, signal });
  }

  /**
   * Sends any number of jobs as a stream; jobs are created or replaced. Answers when every job is in the changes topic:
   * from then on no crash loses one. `client.operations.wait` waits until they are applied.
   *
   * A stream that broke is sent again from its beginning under the same key, where that is possible (an array, or a function
   * that answers the jobs anew); the installation changes nothing twice.
   */
  async bulk(jobs: BulkSource, options: BulkOptions = {}): Promise<{ key: string }> {
    return bulkUpload(this.http, `${this.root}:bulk`, jobs, options);
  }

  private write<T>(
    method: 'POST' | 'PUT' | 'PATCH' | 'DELETE',
    path: string,
    { ifVersion, signal }: WriteOptions,
    text?: string,
    timeless = true,
  ): Promise<T> {
    const headers: Record<string, string> = ifVersion === undefined ? {} : { 'if-match': `"${ifVersion}"` };
    if (method === 'PATCH') headers['content-type'] = 'application/merge-patch+json';
    const repeatable = timeless && ifVersion === undefined;
    return this.http.json({ method, path, headers, text, repeatable, signal });
  }

  private path(key: string): string {
    return `${this.root}/${pathPart(key, 'key')}`;
  }
}

class Operations {
  private readonly http: Http;
  private readonly root: string;

  constructor(http: Http, cluster: string) {
    this.http = http;
    this.root = `/v1/clusters/${pathPart(cluster, 'cluster')}/operations`;
  }

  async get(key: string, { signal }: CallOptions = {}): Promise<OperationView> {
    const path = `${this.root}/${pathPart(key, 'operation')}`;
    return this.http.json({ method: 'GET', path, repeatable: true, signal });
  }

  async list({ limit = 100, signal }: CallOptions & { limit?: number } = {}): Promise<OperationView[]> {
    const request = { method: 'GET', path: this.root, query: { limit }, repeatable: true, signal } as const;
    return (await this.http.json<{ operations: OperationView[] }>(request)).operations;
  }

  /** Waits until every line is counted. Rejects with `timeout` after `timeoutMs` (default: never). */
  async wait(key: string, options: CallOptions & { timeoutMs?: number } = {}): Promise<OperationView> {
    return waitForOperation((signal) => this.get(key, { ...(signal && { signal }) }), options);
  }
}

class Clusters {
  private readonly http: Http;

  constructor(http: Http) {
    this.http = http;
  }

  async create(form: ClusterForm, { signal }: CallOptions = {}): Promise<ClusterView> {
    return this.http.json({
      method: 'POST',
      path: '/v1/clusters',
      text: JSON.stringify(form),
      repeatable: false,
      signal,
    });
  }

  async get(name: string, { signal }: CallOptions = {}): Promise<ClusterView> {
    const path = `/v1/clusters/${pathPart(name, 'name')}`;
    return this.http.json({ method: 'GET', path, repeatable: true, signal });
  }

  async list({ signal }: CallOptions = {}): Promise<ClusterView[]> {
    const request = { method: 'GET', path: '/v1/clusters', repeatable: true, signal } as const;
    return (await this.http.json<{ clusters: ClusterView[] }>(request)).clusters;
  }
}

/** Exclusion calendars: named, shared by the jobs of all logical clusters. */
class Calendars {
  private readonly http: Http;

  constructor(http: Http) {
    this.http = http;
  }

  async get(name: string, { signal }: CallOptions = {}): Promise<CalendarView> {
    return this.http.json({ method: 'GET', path: this.path(name), repeatable: true, signal });
  }

  async list({ signal }: CallOptions = {}): Promise<CalendarView[]> {
    const request = { method: 'GET', path: '/v1/calendars', repeatable: true, signal } as const;
    return (await this.http.json<{ calendars: CalendarView[] }>(request)).calendars;
  }

  /** Makes or replaces a calendar; the jobs that use it are computed anew. */
  async put(name: string, definition: CalendarDefinition, options: WriteOptions = {}): Promise<CalendarView> {
    return this.write('PUT', name, options, JSON.stringify(definition));
  }

  async delete(name: string, options: WriteOptions = {}): Promise<void> {
    await this.write('DELETE', name, options);
  }

  private write<T>(
    method: 'PUT' | 'DELETE',
    name: string,
    { ifVersion, signal }: WriteOptions,
    text?: string,
  ): Promise<T> {
    const headers: Record<string, string> = ifVersion === undefined ? {} : { 'if-match': `"${ifVersion}"` };
    return this.http.json({
      method,
      path: this.path(name),
      headers,
      text,
      repeatable: ifVersion === undefined,
      signal,
    });
  }

  private path(name: string): string {
    return `/v1/calendars/${pathPart(name, 'name')}`;
  }
}

/** JSON of a form; a payload's text is put in as it is, if it is JSON. */
function bodyText(form: JobForm | JobPatch, payloadText: string | undefined): string {
  if (payloadText === undefined) return JSON.stringify(form);
  try {
    JSON.parse(payloadText);
  } catch (cause) {
    const detail = `the payload is no JSON: ${cause instanceof Error ? cause.message : String(cause)}`;
    throw new ApiError({ code: 'request-malformed', status: 0, detail, field: 'payload', cause });
  }
  const { payload, ...rest } = form;
  const head = JSON.stringify(rest).slice(0, -1);
  return `${head}${head === '{' ? '' : ','}"payload":${payloadText}}`;
}
