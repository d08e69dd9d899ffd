import type { Change, Definition, Grid } from './forms.ts';

/** Occurrences of a grid, by arithmetic. Null: there is none. */
export function nextIn({ firstMs, everyMs, lastMs }: Grid, afterMs: number): number | null {
  let at = firstMs;
  if (afterMs >= firstMs) {
    if (everyMs === 0) return null;
    at = firstMs + (Math.floor((afterMs - firstMs) / everyMs) + 1) * everyMs;
  }
  return at <= lastMs ? at : null;
}

export function isIn({ firstMs, everyMs, lastMs }: Grid, atMs: number): boolean {
  if (atMs < firstMs || atMs > lastMs) return false;
  return everyMs === 0 ? atMs === firstMs : (atMs - firstMs) % everyMs === 0;
}

/** The grid that a definition means. Crons are of the form `*\/N * * * * *` where N divides 60. */
export function gridOf({ schedule, bounds }: Definition): Grid {
  const lastMs = bounds.endMs ?? Number.POSITIVE_INFINITY;
  if (schedule.kind === 'once') return { firstMs: schedule.atMs, everyMs: 0, lastMs };
  if (schedule.kind === 'rate') return { firstMs: schedule.anchorMs, everyMs: schedule.everyMs, lastMs };
  return { firstMs: 0, everyMs: Number(/^\*\/(\d+) /.exec(schedule.expression)![1]) * 1_000, lastMs };
}

/** One version as its user knows it. Moves make no version here: they move no time. */
export interface Version {
  cutMs: number;
  /** Null: it does not fire. */
  grid: Grid | null;
  misfire: 'all' | 'once' | 'skip';
  id: string;
  partition: number;
  offset: number;
  /** True time at which it came into the topic, in ms. */
  takenMs: number;
  /** When the applier committed it, and the end of its slot's fast path then; null: not yet. */
  committed: { atMs: number; fastEnd: number } | null;
  /** True time at which its user was told of it. */
  answeredMs: number;
}

export interface Published {
  copies: number;
  firstMs: number;
  epoch: number;
}

/** A run by hand. */
export interface Run {
  nominalMs: number;
  atMs: number;
  copies: number;
  offset: number;
}

/** One life of a job, from its creation to its deletion. */
export interface Life {
  cluster: string;
  key: string;
  createdMs: number;
  versions: Version[];
  definition: Definition;
  paused: boolean;
  lastId: string;
  /** Cut of the deletion; Infinity: it lives. */
  endedMs: number;
  /** `SHARD-NUMBER`, in the order in which it had them. */
  places: string[];
  /** Index of the version by the version of its documents. */
  versionOf: Map<number, number>;
  published: Map<number, Published>;
  /** Owed when it was paused or deleted, and not published by then: they may be superseded. */
  optional: Set<number>;
  runs: Map<string, Run>;
  /** All times up to here were seen to be published, UTC ms. */
  checkedMs: number;
  /** The latest time that was published, by place. */
  lastNominalMs: Map<string, number>;
}

/** What is owed of a life after an instant and up to another, in order. */
export function* owed(life: Life, afterMs: number, upToMs: number): Generator<number> {
  for (const [index, { cutMs, grid }] of life.versions.entries()) {
    const untilMs = Math.min(upToMs, life.versions[index + 1]?.cutMs ?? life.endedMs);
    if (grid === null || untilMs <= afterMs || untilMs <= cutMs) continue;
    for (let at = nextIn(grid, Math.max(cutMs, afterMs)); at !== null && at <= untilMs; at = nextIn(grid, at)) yield at;
  }
}

/** The first time owed after an instant, or Infinity. */
export function nextOwed(life: Life, afterMs: number): number {
  for (const at of owed(life, afterMs, Number.POSITIVE_INFINITY)) return at;
  return Number.POSITIVE_INFINITY;
}

/** What becomes of all changes, in the order of their topic: a second, much simpler form of what the applier decides. */
export class Model {
  readonly jobs = new Map<string, Life>();
  readonly lives: Life[] = [];
  /** Rises with each change of what is owed. */
  changes = 0;
  readonly #nowMs: () => number;
  /** Changes whose commit is awaited, by partition, in order. */
  readonly uncommitted = new Map<number, { offset: number; version: Version | null; life: Life }[]>();

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Takes in one record of the changes topic. */
  take(change: Change, partition: number, offset: number): void {
    const { action } = change;
    this.changes += 1;
    const name = `${change.cluster}/${change.key}`;
    const life = this.jobs.get(name);
    const living = life !== undefined && life.endedMs === Number.POSITIVE_INFINITY;
    if (action.kind === 'move' || (life !== undefined && life.lastId === change.id)) return;
    if (!living) {
      if (action.kind === 'put') this.#create(change, action.definition, life?.endedMs ?? 0, partition, offset);
      return;
    }
    const cutMs = Math.max(life.versions.at(-1)!.cutMs, change.atMs);
    if (action.kind === 'put') this.#put(life, change, action.definition, cutMs, partition, offset);
    else if (action.kind === 'delete') this.#delete(life, change, cutMs, partition, offset);
    else if (action.kind === 'pause' && !life.paused) {
      mayBeSuperseded(life, cutMs);
      life.paused = true;
      this.#version(life, change, cutMs, partition, offset);
    } else if (action.kind === 'resume' && life.paused) {
      life.paused = false;
      this.#version(life, change, life.versions.at(-1)!.cutMs, partition, offset);
    } else if (action.kind === 'fire' && !life.runs.has(action.requestKey)) {
      life.runs.set(action.requestKey, { nominalMs: change.atMs, atMs: 0, copies: 0, offset });
      life.lastId = change.id;
      this.#await(life, null, partition, offset);
    }
  }

  #create(change: Change, definition: Definition, endedMs: number, partition: number, offset: number): void {
    const cutMs = Math.max(change.atMs, endedMs);
    if (nextIn(gridOf(definition), cutMs) === null) return;
    const life: Life = {
      cluster: change.cluster,
      key: change.key,
      createdMs: cutMs,
      versions: [],
      definition,
      paused: false,
      lastId: change.id,
      endedMs: Number.POSITIVE_INFINITY,
      places: [],
      versionOf: new Map(),
      published: new Map(),
      optional: new Set(),
      runs: new Map(),
      checkedMs: cutMs,
      lastNominalMs: new Map(),
    };
    this.jobs.set(`${change.cluster}/${change.key}`, life);
    this.lives.push(life);
    this.#version(life, change, cutMs, partition, offset);
  }

  #put(life: Life, change: Change, definition: Definition, cutMs: number, partition: number, offset: number): void {
    const moves = JSON.stringify(gridOf(definition)) !== JSON.stringify(gridOf(life.definition));
    if (!moves && JSON.stringify(definition) === JSON.stringify(life.definition)) return;
    if (moves && nextIn(gridOf(definition), cutMs) === null) return;
    life.definition = definition;
    const cut = life.paused && !moves ? life.versions.at(-1)!.cutMs : cutMs;
    this.#version(life, change, cut, partition, offset);
  }

  #delete(life: Life, change: Change, cutMs: number, partition: number, offset: number): void {
    mayBeSuperseded(life, cutMs);
    life.endedMs = cutMs;
    life.lastId = change.id;
    this.#await(life, null, partition, offset);
  }

  #version(life: Life, change: Change, cutMs: number, partition: number, offset: number): void {
    const version: Version = {
      cutMs,
      grid: life.paused ? null : gridOf(life.definition),
      misfire: life.definition.misfire.mode,
      id: change.id,
      partition,
      offset,
      takenMs: this.#nowMs(),
      committed: null,
      answeredMs: Number.POSITIVE_INFINITY,
    };
    life.versions.push(version);
    life.lastId = change.id;
    life.checkedMs = Math.min(life.checkedMs, cutMs);
    this.#await(life, version, partition, offset);
  }

  #await(life: Life, version: Version | null, partition: number, offset: number): void {
    const waiting = this.uncommitted.get(partition) ?? [];
    this.uncommitted.set(partition, waiting);
    waiting.push({ offset, version, life });
  }
}

function mayBeSuperseded(life: Life, cutMs: number): void {
  for (const at of owed(life, life.checkedMs, cutMs)) if (!life.published.has(at)) life.optional.add(at);
}
