import { CarillonError, carillonError } from '../core/errors.ts';
import type { JobForm, JobPatch } from '../core/form/job-form.ts';
import { type Read, readDefinition, readPatch } from '../core/form/read.ts';
import { jobText } from '../core/form/show.ts';
import type { ChangeOutcome, Cluster, Job, JobDefinition } from '../core/job.ts';
import type { AnsweredJob, ChangeAction } from '../core/messages.ts';
import { Calendars } from '../engine/change/calendars.ts';
import { checkDefinition } from '../engine/change/check.ts';
import { patched, wholeSchedule } from '../engine/change/patch.ts';
import { nextEffective } from '../engine/change/timing.ts';
import { ClusterNames } from '../engine/change/work.ts';
import type { NewChange } from './changes.ts';
import type { ApiDeps } from './deps.ts';

/** A single write that was answered, or (null) that is in the topic and will be. */
export type Written = { outcome: Extract<ChangeOutcome, { ok: true }>; job: AnsweredJob | null; atMs: number } | null;

const NO_CALENDARS = new Calendars();

export interface WriteOptions {
  ifMatch?: number | '*' | undefined;
  onlyIf?: 'absent' | 'present';
  /** Names the request, so that a repeat is known as one. */
  id?: string;
}

/** What routes do with jobs: check, send, wait for the answer, which has the job. */
export class JobService {
  readonly #deps: ApiDeps;
  readonly #clusters: ClusterNames;

  constructor(deps: ApiDeps) {
    this.#deps = deps;
    this.#clusters = new ClusterNames(deps.stores.catalog);
  }

  /** @throws CarillonError `cluster-not-found` */
  async cluster(name: string): Promise<Cluster> {
    const cluster = await this.#clusters.find(name);
    if (cluster === null) throw carillonError('cluster-not-found', `"${name.slice(0, 80)}"`, { field: 'cluster' });
    return cluster;
  }

  async job(cluster: string, key: string): Promise<Job> {
    const job = await this.#deps.stores.jobs.get(cluster, key);
    if (job === null || job.deleted) {
      throw carillonError('job-not-found', `"${key}" in cluster "${cluster}"`, { field: 'key' });
    }
    return job;
  }

  /** Creates or replaces a job. The form has passed its schema. */
  async put(cluster: string, key: string, form: Read<Omit<JobForm, 'key'>>, options: WriteOptions): Promise<Written> {
    const atMs = this.#deps.clock.wallMs();
    const definition = readDefinition(form, atMs);
    await this.#check(cluster, key, definition, atMs);
    const onlyIf = options.onlyIf ?? (options.ifMatch === undefined ? undefined : 'present');
    const action: ChangeAction = {
      kind: 'put',
      definition,
      ...(form.state === undefined ? {} : { paused: form.state === 'paused' }),
      ...(onlyIf === undefined ? {} : { onlyIf }),
    };
    return this.#submit({ cluster, key, atMs, action }, options);
  }

  /**
   * What is wrong with a patch by itself is refused here; the applier checks it over the job as it finds it. Where that depends
   * on the job as it stands (limits of its times, parts of its schedule, the number of its labels) it is checked over that
   * here too, so that what is refused does not go through the topic.
   */
  async patch(cluster: string, key: string, form: Read<JobPatch>, options: WriteOptions): Promise<Written> {
    const atMs = this.#deps.clock.wallMs();
    const fields = readPatch(form, atMs);
    const schedule = fields.schedule === undefined ? undefined : wholeSchedule(fields.schedule);
    if (fields.bounds !== undefined || schedule === null || fields.labels != null) {
      const job = await this.job(cluster, key);
      await this.#check(cluster, key, patched(job, fields), atMs);
    } else if (schedule !== undefined) checkDefinition({ schedule, bounds: {} }, key, atMs, NO_CALENDARS);
    const paused = form.state === undefined ? {} : { paused: form.state === 'paused' };
    return this.#submit({ cluster, key, atMs, action: { kind: 'patch', fields, ...paused } }, options);
  }

  act(cluster: string, key: string, action: ChangeAction, options: WriteOptions): Promise<Written> {
    return this.#submit({ cluster, key, atMs: this.#deps.clock.wallMs(), action }, options);
  }

  /** JSON text of a job as it is answered, with its next fire. */
  async text(job: AnsweredJob, more: Record<string, unknown> = {}): Promise<string> {
    const calendars = await this.calendars([job.bounds.calendars]);
    return jobText(job, this.nextFireMs(job, calendars), more);
  }

  /** Never in the past: an occurrence that is due at this moment is on its way, and the one after it is next. */
  nextFireMs(job: AnsweredJob, calendars: Calendars): number | null {
    if (job.state !== 'enabled') return null;
    try {
      return nextEffective(job, Math.max(this.#deps.clock.wallMs(), job.cutMs), calendars);
    } catch {
      return null;
    }
  }

  async calendars(used: readonly (readonly string[] | undefined)[]): Promise<Calendars> {
    const any = used.some((names) => names !== undefined);
    return new Calendars(any ? await this.#deps.stores.catalog.calendars() : []);
  }

  async #check(cluster: string, key: string, definition: JobDefinition, atMs: number): Promise<void> {
    const calendars = await this.calendars([definition.bounds.calendars]);
    const passed = checkDefinition(definition, key, atMs, calendars);
    if (!(passed instanceof CarillonError)) return;
    const job = await this.#deps.stores.jobs.get(cluster, key);
    if (job === null || job.deleted) throw passed;
  }

  async #submit(change: NewChange, { ifMatch, id }: WriteOptions): Promise<Written> {
    const wanted = change.action.kind !== 'delete';
    const applied = await this.#deps.changes.submit({
      ...change,
      ...(wanted ? { wantsJob: true } : {}),
      ...(typeof ifMatch === 'number' ? { ifVersion: ifMatch } : {}),
      ...(id === undefined ? {} : { id }),
    });
    if (applied === null) return null;
    const { outcome } = applied;
    if (!outcome.ok) {
      throw carillonError(outcome.code, outcome.detail, outcome.field === undefined ? {} : { field: outcome.field });
    }
    const { cluster, key, atMs } = change;
    if (applied.job !== null || !wanted) return { outcome, job: applied.job, atMs };
    const job = await this.#deps.stores.jobs.get(cluster, key);
    return { outcome, job: job?.deleted ? null : job, atMs };
  }
}
