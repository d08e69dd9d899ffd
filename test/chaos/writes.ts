/**
 * Registers jobs all the time, one by one and in bulk, whatever is broken meanwhile, and remembers what was answered: what was
 * answered 2xx must be there at the end, and have fired once if it was due.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { CarillonClient } from '../../src/sdk/index.ts';
import type { Reading } from './reading.ts';
import { ONCE_FROM } from './tally.ts';

export interface WritesVerdict {
  /** Jobs whose registration was answered 2xx, by a single write or a bulk upload. */
  answered: number;
  /** Answers and failures by kind, for people: `200`, `202`, `503`, `no answer`. */
  told: Record<string, number>;
  /** Answered, due, and never fired; or answered, not yet due, and not there. */
  lost: number;
  /** Some of the lost ones by name, for whoever looks for the reason. */
  missing: string[];
  duplicatedIds: number;
  duplicatedCopies: number;
  early: number;
}

interface Written {
  dueMs: number;
  answered: boolean;
  /** How it was sent, when, and what was answered, for people. */
  told: string;
  /** Name of the upload that it was a line of; null: it was a single write. */
  upload: string | null;
}

const SINGLE_EVERY_MS = 100;
const SINGLES_AT_ONCE = 64;
const BULK_EVERY_MS = 1_000;
const BULK_LINES = 40;
/** Half of the lines of an upload are due in days: they are looked for by name at the end. */
const FAR_MS = 5 * 86_400_000;
const SOONEST_MS = 4_000;
const LATEST_MS = 12_000;
const ANSWER_MS = 20_000;
const MISSING_TOLD = 5;

export class Writes {
  readonly #url: () => string;
  readonly #cluster: string;
  readonly #random: () => number;
  readonly #written = new Map<number, Written>();
  readonly #told: Record<string, number> = {};
  readonly #underWay = new Set<Promise<void>>();
  #next = 0;
  #ended = false;
  #loops: Promise<void>[] = [];

  constructor(url: () => string, cluster: string, random: () => number) {
    this.#url = url;
    this.#cluster = cluster;
    this.#random = random;
  }

  start(): void {
    this.#loops = [this.#each(SINGLE_EVERY_MS, () => this.#single()), this.#each(BULK_EVERY_MS, () => this.#bulk())];
  }

  /** Ends when every request has its answer or was given up. */
  async stop(): Promise<void> {
    this.#ended = true;
    await Promise.all(this.#loops);
    await Promise.all(this.#underWay);
  }

  async #each(everyMs: number, write: () => Promise<void>): Promise<void> {
    while (!this.#ended) {
      if (this.#underWay.size < SINGLES_AT_ONCE) {
        const one = write().finally(() => this.#underWay.delete(one));
        this.#underWay.add(one);
      }
      await sleep(everyMs);
    }
  }

  #job(
    far: boolean,
    upload: string | null,
  ): { number: number; form: { key: string; schedule: { kind: 'once'; at: string } } } {
    const number = ONCE_FROM + this.#next;
    this.#next += 1;
    const aheadMs = far ? FAR_MS : SOONEST_MS + this.#random() * (LATEST_MS - SOONEST_MS);
    const dueMs = Math.round(Date.now() + aheadMs);
    this.#written.set(number, { dueMs, answered: false, told: '', upload });
    return { number, form: { key: `once-${number}`, schedule: { kind: 'once', at: new Date(dueMs).toISOString() } } };
  }

  async #single(): Promise<void> {
    const { number, form } = this.#job(false, null);
    const { key, ...rest } = form;
    const status = await this.#send('PUT', `/jobs/${key}`, 'application/json', JSON.stringify(rest));
    this.#answered(number, 'PUT', status);
  }

  async #bulk(): Promise<void> {
    const name = `writes-${this.#next}`;
    const jobs = Array.from({ length: BULK_LINES }, (_, i) => this.#job(i % 2 === 1, name));
    const body = jobs.map(({ form }) => `${JSON.stringify(form)}\n`).join('');
    const status = await this.#send('POST', '/jobs:bulk', 'application/x-ndjson', body, { 'idempotency-key': name });
    for (const { number } of jobs) this.#answered(number, 'bulk', status);
  }

  #answered(number: number, how: string, status: number | null): void {
    const written = this.#written.get(number)!;
    written.answered = status !== null && status < 300;
    written.told = `${how} answered ${status ?? 'nothing'} at ${new Date().toISOString()}`;
  }

  async #send(
    method: string,
    path: string,
    type: string,
    body: string,
    more: Record<string, string> = {},
  ): Promise<number | null> {
    const url = `${this.#url()}/v1/clusters/${this.#cluster}${path}`;
    const init = { method, body, headers: { 'content-type': type, ...more }, signal: AbortSignal.timeout(ANSWER_MS) };
    const status = await fetch(url, init).then(
      async (response) => {
        await response.text();
        return response.status;
      },
      () => null,
    );
    const kind = status === null ? 'no answer' : String(status);
    this.#told[kind] = (this.#told[kind] ?? 0) + 1;
    return status;
  }

  /**
   * Those of which the report of their upload says why they are not there. An upload that waits for a store that is away reads
   * its lines later, and a time that has passed by then is refused: that is an answer, and no loss.
   */
  async #refused(client: CarillonClient, keys: readonly string[]): Promise<Set<string>> {
    const uploads = new Set(keys.map((key) => this.#written.get(Number(key.slice('once-'.length)))!.upload));
    const refused = new Set<string>();
    for (const name of uploads) {
      if (name === null) continue;
      const { errors } = await client.operations.get(name);
      for (const { jobKey, code } of errors) if (code === 'schedule-impossible' && jobKey) refused.add(jobKey);
    }
    return new Set(keys.filter((key) => refused.has(key)));
  }

  /** All that is known of a job, for whoever looks for the reason of its loss. */
  async #story(client: CarillonClient, key: string): Promise<string> {
    const { told, dueMs } = this.#written.get(Number(key.slice('once-'.length)))!;
    const now = await client.jobs.get(key).then(
      (job) =>
        `${job.state}, version ${job.version}, shard ${job.shard}, number ${job.number}, updated ${job.updatedAt}`,
      (error: unknown) => String(error),
    );
    return `${key} (${told}; due ${new Date(dueMs).toISOString()}; now ${now})`;
  }

  /** Judges all writes, once what is due has been read or the patience is over. */
  async verdict(reading: Reading, client: CarillonClient, patienceMs: number): Promise<WritesVerdict> {
    const until = performance.now() + patienceMs;
    for (;;) {
      const verdict = await this.#judge(reading, client);
      if (verdict.lost === 0 || performance.now() > until) return verdict;
      await sleep(500);
    }
  }

  async #judge(reading: Reading, client: CarillonClient): Promise<WritesVerdict> {
    const seen = await reading.once(ONCE_FROM, ONCE_FROM + this.#next);
    const result = { answered: 0, lost: 0, duplicatedIds: 0, duplicatedCopies: 0, early: 0 };
    let missing: string[] = [];
    const nowMs = Date.now();
    const unfired = new Set<string>();
    for (const [number, { dueMs, answered }] of this.#written) {
      if (answered) result.answered += 1;
      const fired = seen.get(number);
      if (fired === undefined) {
        if (!answered) continue;
        if (dueMs <= nowMs) missing.push(`once-${number}`);
        else unfired.add(`once-${number}`);
        continue;
      }
      if (fired.copies > 1) {
        result.duplicatedIds += 1;
        result.duplicatedCopies += fired.copies - 1;
      }
      if (fired.atMs < dueMs) result.early += 1;
    }
    const refused = await this.#refused(client, missing);
    missing = missing.filter((key) => !refused.has(key));
    this.#told['line refused later'] = refused.size;
    // A listing is asked for only when all else is well: it costs as many requests as there are pages.
    if (missing.length === 0) {
      for await (const { key } of client.jobs.list({ prefix: 'once-' })) unfired.delete(key);
      missing.push(...unfired);
    }
    result.lost = missing.length;
    const some = missing.slice(0, MISSING_TOLD);
    return { ...result, told: this.#told, missing: await Promise.all(some.map((key) => this.#story(client, key))) };
  }
}
