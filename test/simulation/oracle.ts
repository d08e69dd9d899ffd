import { type Change, type CursorRecord, type LogRecord, type ProgressRecord, read } from './forms.ts';
import { isIn, type Life, Model, nextIn, owed, type Version } from './model.ts';

/** Topics and limits as they are documented. */
const FAST = 'carillon.fast';
/** An occurrence that was not published for this long is a misfire, in ms. */
const MISFIRE_AFTER_MS = 10_000;
/** A worker trusts itself for this long from before its last successful renewal or own commit, in ms. */
const TRUST_MS = 1_500;
/** An older version may be published for this long after the answer to a change, in ms; the rest is what rounding takes. */
const OLD_VERSION_MS = 100 + 10;
/** Repeated copies come this long after a disturbance at most, in ms. */
const REPEATS_MS = 45_000;
/** While nothing has been disturbed for this long, in ms, triggers are late by at most the other. */
const CALM_AFTER_MS = 20_000;
const LATE_IN_CALM_MS = 1_500;

/** What a takeover and the message of a pause may miss each other by, in ms. */
const TOLD_LATE_MS = 5_000;
/** A topic that is missing may be noticed, and a run may be taken up, so much later, in ms. */
const MISSING_AROUND_MS = 45_000;

export interface OracleOptions {
  slotsPerSet: number;
  deliveries: ReadonlyMap<string, 'at-least-once' | 'exactly-once'>;
  /** Trigger topics by logical cluster. */
  topics: ReadonlyMap<string, string>;
  startMs: number;
  /** Greatest error of any clock, in ms. */
  skewMs: number;
  nowMs(): number;
  /** True time of the last fault, in ms. */
  disturbedMs(): number;
  fail(invariant: string, detail: string): void;
}

interface SlotHistory {
  epoch: number;
  t: number;
  o: number;
  /** T and O as they rose, with the true time; the lives of the slot that are not wholly checked are looked up in it. */
  adoptedT: Map<number, number>;
  /** True time of the last takeover, in ms. */
  adoptedMs: number;
  cursors: Map<string, CursorRecord>;
}

/**
 * The judge of a simulation. It sees every record as the bus takes it, in true time, and what is asked of the stores; what
 * should be there it knows from the changes topic by arithmetic.
 */
export class Oracle {
  readonly model: Model;
  readonly #options: OracleOptions;
  readonly #slots = new Map<number, SlotHistory>();
  readonly #slotOfShard = new Map<number, number>();
  readonly #lifeOf = new Map<string, Life>();
  readonly #livesOfSlot = new Map<number, Set<Life>>();
  readonly #claimed = new Map<number, number>();
  readonly #fastEnds = new Map<number, number>();
  readonly #missing: { topic: string; fromMs: number; toMs: number }[] = [];
  published = 0;
  repeated = 0;
  /** Times that a job came to another place. */
  moved = 0;

  constructor(options: OracleOptions) {
    this.#options = options;
    this.model = new Model(options.nowMs);
  }

  get #wallMs(): number {
    return this.#options.startMs + this.#options.nowMs();
  }

  #fail(invariant: string, detail: string): void {
    this.#options.fail(invariant, detail);
  }

  #slot(partition: number): SlotHistory {
    let slot = this.#slots.get(partition);
    if (slot === undefined) {
      slot = { epoch: 0, t: 0, o: 0, adoptedT: new Map(), adoptedMs: Number.NEGATIVE_INFINITY, cursors: new Map() };
      this.#slots.set(partition, slot);
    }
    return slot;
  }

  /** Partition of the slot of a place. */
  slotOf(place: string): number {
    return this.#slotOfShard.get(Number(place.split('-')[0])) ?? -1;
  }

  /** Partition of the slot of a lane, such as `sim/e0/0`. */
  slotOfLane(id: string): number {
    const [, set, slot] = /\/([ae])(\d+)\/\d+$/.exec(id) ?? [];
    return set === undefined ? -1 : Number(slot) + (set === 'e' ? this.#options.slotsPerSet : 0);
  }

  shardsMade(shards: readonly { id: number; delivery: string; slot: number }[]): void {
    for (const { id, delivery, slot } of shards) {
      this.#slotOfShard.set(id, delivery === 'exactly-once' ? this.#options.slotsPerSet + slot : slot);
    }
  }

  /** Documents were written: they tell places, and which version of a document is which of a user. */
  jobsWritten(
    jobs: readonly {
      cluster: string;
      key: string;
      version: number;
      createdMs: number;
      shard: number;
      number: number;
      position: { offset: number };
    }[],
  ): void {
    for (const { cluster, key, version, createdMs, shard, number, position } of jobs) {
      const life = this.model.jobs.get(`${cluster}/${key}`);
      if (life === undefined || life.createdMs !== createdMs) continue;
      const place = `${shard}-${number}`;
      if (life.places.at(-1) !== place) {
        if (life.places.length > 0) this.moved += 1;
        life.places.push(place);
        this.#lifeOf.set(place, life);
        const slot = this.slotOf(place);
        const lives = this.#livesOfSlot.get(slot) ?? new Set<Life>();
        this.#livesOfSlot.set(slot, lives.add(life));
      }
      life.versionOf.set(
        version,
        life.versions.findLastIndex((one) => one.offset <= position.offset),
      );
    }
  }

  /** A tenant's topic is missing from now on, for so many ms. */
  topicMissing(topic: string, ms: number): void {
    const nowMs = this.#options.nowMs();
    this.#missing.push({ topic, fromMs: nowMs - MISSING_AROUND_MS, toMs: nowMs + ms + MISSING_AROUND_MS });
  }

  /** A record was appended. */
  appended(topic: string, record: LogRecord): void {
    if (topic === 'carillon.changes') {
      if (record.value !== null) this.model.take(read<Change>(record.value), record.partition, record.offset);
    } else if (topic === FAST) this.#fastEnds.set(record.partition, record.offset + 1);
    else if (topic === 'carillon.progress') this.#progress(record);
    else if (topic === 'carillon.cursors') this.#cursor(record);
    else if (topic !== 'carillon.answers') this.#trigger(topic, record);
  }

  /** The appliers' offset of a changes partition was committed, together with what they told the owners. */
  changesCommitted(partition: number, next: number): void {
    const waiting = this.model.uncommitted.get(partition) ?? [];
    while (waiting.length > 0 && waiting[0]!.offset < next) {
      const { version, life } = waiting.shift()!;
      if (version === null) continue;
      const slot = this.slotOf(life.places.at(-1) ?? '');
      version.committed = { atMs: this.#options.nowMs(), fastEnd: this.#fastEnds.get(slot) ?? 0 };
      if (version.grid === null) this.#toldLate(life, version, slot);
    }
  }

  /**
   * A stated limit: an owner that took the slot over between a pause and the message that tells of it has never seen the job, and
   * cannot know whether what came after the pause was published; a resume may leave it out.
   */
  #toldLate(life: Life, version: Version, slot: number): void {
    const before = life.versions[life.versions.indexOf(version) - 1];
    if (before?.grid == null || this.#slot(slot).adoptedMs < version.takenMs - TOLD_LATE_MS) return;
    const untilMs = this.#wallMs + TOLD_LATE_MS;
    for (let at = nextIn(before.grid, version.cutMs); at !== null && at <= untilMs; at = nextIn(before.grid, at)) {
      if (!life.published.has(at)) life.optional.add(at);
    }
  }

  answered(cluster: string, key: string, id: string): void {
    const version = this.model.jobs.get(`${cluster}/${key}`)?.versions.at(-1);
    if (version?.id === id) version.answeredMs = Math.min(version.answeredMs, this.#options.nowMs());
  }

  #cursor({ partition, key, value }: LogRecord): void {
    if (key === null || key === 'adopt') return;
    const { cursors } = this.#slot(partition);
    if (value === null) cursors.delete(key);
    else cursors.set(key, read<CursorRecord>(value));
  }

  #progress({ partition, key, value }: LogRecord): void {
    const slot = this.#slot(partition);
    const { epoch, t, o, lagging = {} } = read<ProgressRecord>(value!);
    if (key === 'adopt') {
      // One that comes too late may still write this record, sees a higher epoch before it, and gives up.
      slot.adoptedT.set(epoch, slot.t);
      slot.adoptedMs = this.#options.nowMs();
      slot.epoch = Math.max(slot.epoch, epoch);
      return;
    }
    if (epoch < slot.epoch)
      this.#fail('I5', `progress of epoch ${epoch} after epoch ${slot.epoch} in slot ${partition}`);
    slot.epoch = epoch;
    if (t < slot.t || o < slot.o) {
      this.#fail('I6', `(T, O) of slot ${partition} went from (${slot.t}, ${slot.o}) back to (${t}, ${o})`);
    }
    if (o > (this.#fastEnds.get(partition) ?? 0)) this.#fail('I3', `O ${o} is past the end of the fast path`);
    if (t > this.#wallMs + this.#options.skewMs) this.#fail('I3', `T of slot ${partition} is ahead of the time`);
    slot.t = t;
    slot.o = o;
    for (const life of this.#livesOfSlot.get(partition) ?? []) {
      this.#check('I3', life, partition, Math.min(t, lagging[life.places[0]!.split('-')[0]!] ?? t));
    }
  }

  /** Everything of a life up to an instant is published, or behind a cursor, or may be missing. */
  #check(invariant: string, life: Life, partition: number, upToMs: number): void {
    if (life.checkedMs >= upToMs || life.places.length !== 1) return;
    const slot = this.#slot(partition);
    const told = ({ committed }: Version): boolean => committed !== null && committed.fastEnd <= slot.o;
    if (!life.versions.every(told)) return;
    const toMs = Math.min(upToMs, slot.cursors.get(life.places[0]!)?.fromMs ?? upToMs);
    if (toMs <= life.checkedMs) return;
    this.#checkTo(invariant, life, toMs);
  }

  #checkTo(invariant: string, life: Life, toMs: number): void {
    for (const at of owed(life, life.checkedMs, toMs)) {
      if (life.published.has(at) || life.optional.has(at) || this.#mayMisfire(life, at)) continue;
      const detail = `${nameOf(life)} owes ${at - this.#options.startMs} and T or a score is past it`;
      this.#fail(invariant, detail);
    }
    life.checkedMs = Math.max(life.checkedMs, toMs);
  }

  /** Whether a time may be dropped by now, or may have been: it is a misfire and a policy says so. */
  #mayMisfire(life: Life, at: number): boolean {
    if (this.#wallMs - at < MISFIRE_AFTER_MS - this.#options.skewMs) return false;
    return life.versions.some(({ misfire }) => misfire !== 'all');
  }

  #trigger(topic: string, { headers }: LogRecord): void {
    const [, shard, number, nominal, run] = /^(\d+)-(\d+)-(\d+)(?:-f(.+))?$/.exec(headers['ce_id'] ?? '') ?? [];
    const place = `${shard}-${number}`;
    const life = this.#lifeOf.get(place);
    const epoch = Number(headers['ce_epoch']);
    if (life === undefined || life.key !== headers['ce_subject'] || this.#options.topics.get(life.cluster) !== topic) {
      this.#fail('I6', `a trigger of no known job: ${headers['ce_id']}`);
      return;
    }
    const at = Number(nominal);
    const early = Date.parse(headers['ce_effectivetime']!) - this.#wallMs;
    if (early > this.#options.skewMs) this.#fail('I1', `${nameOf(life)} at ${at} was published ${early} ms early`);
    const slot = this.#slot(this.slotOf(place));
    if (this.#isExactlyOnce(life) && epoch < slot.epoch) {
      this.#fail('I4', `${nameOf(life)} was published by epoch ${epoch} after ${slot.epoch} had taken the slot`);
    }
    this.published += 1;
    if (run === undefined) this.#scheduled(life, at, Number(headers['ce_jobversion']), epoch, place);
    else this.#byHand(life, at, run);
  }

  #isExactlyOnce(life: Life): boolean {
    return this.#options.deliveries.get(life.cluster) === 'exactly-once';
  }

  #scheduled(life: Life, at: number, documentVersion: number, epoch: number, place: string): void {
    const nowMs = this.#options.nowMs();
    const index = life.versionOf.get(documentVersion) ?? -1;
    const before = life.published.get(at);
    if (before !== undefined) {
      this.#repeat(life, at, before, epoch, place);
      before.copies += 1;
      return;
    }
    if (!this.#belongs(life, at, nowMs)) {
      this.#fail('I7', `${nameOf(life)} has no time ${at - this.#options.startMs}, or had it in an older version only`);
    }
    const calmMs = nowMs - this.#options.disturbedMs();
    const inForce = life.versions.findLastIndex(({ answeredMs }) => answeredMs + OLD_VERSION_MS < nowMs);
    if (index < inForce && calmMs > CALM_AFTER_MS) {
      this.#fail('I7', `${nameOf(life)} was published in version ${index}, and ${inForce} was answered before`);
    }
    // What was due before the owner could be told of the job may come after later times, which a scan had found.
    const toldMs = this.#options.startMs + (life.versions[0]!.committed?.atMs ?? Number.POSITIVE_INFINITY);
    // Of a job that moved, the old slot may owe still while the new one fires.
    const lastMs = life.lastNominalMs.get(place) ?? 0;
    if (life.versions.length === 1 && at < lastMs && at > toldMs) {
      this.#fail('order', `${nameOf(life)} published ${at} after ${lastMs}`);
    }
    const settledMs = life.versions.at(-1)!.committed?.atMs ?? nowMs;
    const lateMs = this.#wallMs - Math.max(at, this.#options.startMs + settledMs);
    if (calmMs > CALM_AFTER_MS && lateMs > LATE_IN_CALM_MS + this.#options.skewMs) {
      this.#fail('I8', `${nameOf(life)} was published ${lateMs} ms late, and nothing was disturbed`);
    }
    life.lastNominalMs.set(place, Math.max(lastMs, at));
    life.published.set(at, { copies: 1, firstMs: nowMs, epoch });
  }

  /** Whether a time is one of the job's: of the version that it falls to, or of an older one that nobody has denied yet. */
  #belongs(life: Life, at: number, nowMs: number): boolean {
    return life.versions.some(({ cutMs, grid }, index) => {
      if (grid === null || at <= cutMs || !isIn(grid, at)) return false;
      const next = life.versions[index + 1];
      const untilMs = next?.cutMs ?? life.endedMs;
      if (at <= untilMs) return true;
      const deniedMs = next === undefined ? Number.POSITIVE_INFINITY : next.answeredMs;
      const calm = nowMs - this.#options.disturbedMs() > CALM_AFTER_MS;
      return !calm || nowMs <= deniedMs + OLD_VERSION_MS;
    });
  }

  #repeat(life: Life, at: number, before: { epoch: number; firstMs: number }, epoch: number, place: string): void {
    const nowMs = this.#options.nowMs();
    if (this.#isExactlyOnce(life)) {
      const text = `${nameOf(life)} at ${at - this.#options.startMs} was published twice, by epochs ${before.epoch} and ${epoch}`;
      this.#fail('exactly-once', text);
      return;
    }
    this.repeated += 1;
    if (nowMs - this.#options.disturbedMs() > REPEATS_MS) {
      this.#fail('at-least-once', `${nameOf(life)} at ${at} was published twice, and nothing was disturbed`);
    }
    const slot = this.#slot(this.slotOf(place));
    const adoptedT = slot.adoptedT.get(epoch) ?? 0;
    if (life.versions.length === 1 && before.epoch < epoch && at <= adoptedT && life.checkedMs >= at) {
      this.#fail('I6', `${nameOf(life)} at ${at} was published again by epoch ${epoch}, which had found it covered`);
    }
  }

  /** A run by hand whose topic is missing is dropped, and told. */
  #mayBeDropped({ cluster }: Life, nominalMs: number): boolean {
    const atMs = nominalMs - this.#options.startMs;
    const topic = this.#options.topics.get(cluster);
    return this.#missing.some((one) => one.topic === topic && one.fromMs <= atMs && atMs <= one.toMs);
  }

  #byHand(life: Life, at: number, requestKey: string): void {
    const run = life.runs.get(requestKey);
    if (run === undefined || run.nominalMs !== at) {
      this.#fail('I7', `${nameOf(life)} has no run ${requestKey} at ${at}`);
      return;
    }
    run.copies += 1;
    run.atMs = this.#options.nowMs();
    if (run.copies > 1 && this.#isExactlyOnce(life)) this.#fail('exactly-once', `run ${requestKey} came twice`);
  }

  /** Triggers are on their way: their worker must trust its lease, by the true time that passed (I4). */
  sent(worker: string, provenMs: number): void {
    const nowMs = this.#options.nowMs();
    if (nowMs - provenMs >= TRUST_MS) {
      this.#fail('I4', `${worker} published ${nowMs - provenMs} ms after its session was proven last`);
    }
  }

  claimed(shard: number, epoch: number, status: string): void {
    const known = this.#claimed.get(shard) ?? 0;
    if (status === 'ok') this.#claimed.set(shard, Math.max(known, epoch));
    if (status === 'ok' && epoch < known) this.#fail('I5', `epoch ${epoch} took shard ${shard} back from ${known}`);
  }

  /** Redis does not know any more who had these shards (null: any of them). */
  redisForgot(shards: readonly number[] | null): void {
    if (shards === null) this.#claimed.clear();
    else for (const shard of shards) this.#claimed.delete(shard);
  }

  /** An owner's write or scan was answered: one of an older epoch must be refused (I5). */
  asOwner(shard: number, epoch: number, status: string): void {
    const known = this.#claimed.get(shard) ?? 0;
    if (status === 'ok' && epoch < known) this.#fail('I5', `epoch ${epoch} wrote to shard ${shard} of epoch ${known}`);
  }

  /** Scores were written: nothing before them may be owed (I2). */
  scored(shard: number, scores: readonly { number: number; version: number; score: number }[]): void {
    for (const { number, version, score } of scores) {
      const place = `${shard}-${number}`;
      const life = this.#lifeOf.get(place);
      if (life === undefined || life.versionOf.get(version) !== life.versions.length - 1) continue;
      this.#check('I2', life, this.slotOf(place), score === 0 ? this.#wallMs : score - 1);
    }
  }

  /** A queue and its bound (I10). */
  queue(name: string, depth: number, bound: number): void {
    if (depth > bound) this.#fail('I10', `the queue ${name} holds ${depth}, its bound is ${bound}`);
  }

  /** After the last fault everything must have come to rest. */
  atEnd(): void {
    for (const [partition, { t }] of this.#slots) {
      if (this.#livesOfSlot.get(partition) !== undefined && this.#wallMs - t > 10_000) {
        this.#fail('I8', `T of slot ${partition} stands ${this.#wallMs - t} ms back at the end`);
      }
    }
    const upToMs = this.#wallMs - 10_000;
    for (const life of this.model.lives) {
      if (life.versions.some(({ committed }) => committed === null)) {
        this.#fail('I11', `a change of ${nameOf(life)} was never applied`);
      }
      for (const place of life.places) {
        const cursor = this.#slot(this.slotOf(place)).cursors.get(place);
        const stays = life.paused && cursor?.reason === 'paused';
        if (cursor !== undefined && !stays) this.#fail('I8', `${nameOf(life)} has a cursor at the end`);
      }
      this.#checkTo('lost', life, upToMs);
      for (const [key, run] of life.runs) {
        if (run.copies === 0 && !this.#mayBeDropped(life, run.nominalMs))
          this.#fail('lost', `run ${key} of ${nameOf(life)}`);
      }
    }
  }
}

function nameOf(life: Life): string {
  return `${life.cluster}/${life.key} (${life.places.join(', ')})`;
}
