import { changeId, type PlacedLine, recordOfLine } from '../../core/lines.ts';
import type { FastMessage } from '../../core/messages.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import type { TriggerStore } from '../../ports/trigger-store.ts';
import type { Calendars } from './calendars.ts';
import { type Effect, effectsOf, firesOf } from './effects.ts';
import type { LineWork, Work } from './work.ts';

/** Adds of one script: bounds the time for which the store does nothing else. */
const ADDS_AT_ONCE = 500;

/** What goes to the owners of slots, and which changes they will answer. */
export interface Told {
  /** Shards of all messages; one may stand several times. */
  shards: number[];
  messagesOf: (work: Work) => readonly ShardMessage[];
  /** Whether the owner hears of this change of a work. */
  ownerFollows: (work: Work, offset: number, fired: boolean) => boolean;
}

export interface ShardMessage {
  shard: number;
  message: FastMessage;
}

/** Brings the works into the trigger store, shards side by side, and finds out what their owners must be told. */
export async function addMembers(
  works: readonly Work[],
  triggers: TriggerStore,
  calendars: Calendars,
  telemetry: Telemetry,
): Promise<Told> {
  const effects = new Map(works.map((work) => [work, effectsFor(work, calendars, telemetry)]));
  const byShard = Map.groupBy([...effects.values()].flat(), ({ shard }) => shard);
  const reached = new Set<Effect>();
  await Promise.all([...byShard].map(([shard, ofShard]) => addToShard(triggers, shard, ofShard, reached)));

  const messages = new Map<Work, ShardMessage[]>();
  for (const [work, own] of effects) {
    const told = own.filter((one) => reached.has(one)).map((one) => ({ shard: one.shard, message: one.message() }));
    const all = [...told, ...firesOf(work.sequence, calendars)];
    if (all.length > 0) messages.set(work, all);
  }
  return {
    shards: [...messages.values()].flatMap((own) => own.map(({ shard }) => shard)),
    messagesOf: (work) => messages.get(work) ?? [],
    ownerFollows: (work, offset, fired) => {
      if (fired) return true;
      const effect = effects.get(work)?.find(({ untilOffset, answers }) => answers && offset <= untilOffset);
      return effect !== undefined && reached.has(effect);
    },
  };
}

/** A job that was decided a moment ago and cannot be timed now lost its calendar in between; a rebuild marks it. */
function effectsFor(work: Work, calendars: Calendars, telemetry: Telemetry): Effect[] {
  try {
    return effectsOf(work.sequence, calendars);
  } catch (error) {
    telemetry.event('error', 'a job was stored and cannot be timed', { key: work.key, error: String(error) });
    return [];
  }
}

/** Brings the jobs of lines into the trigger store; answers what their owners must be told, by line. */
export async function addLines(
  lines: readonly LineWork[],
  triggers: TriggerStore,
): Promise<ReadonlyMap<LineWork, ShardMessage>> {
  const told = new Map<LineWork, ShardMessage>();
  const byShard = Map.groupBy(lines, ({ line }) => line.shard);
  const add = async (shard: number, part: readonly LineWork[]): Promise<void> => {
    const changes = part.map(({ line }) => {
      return { number: line.number, version: 1, score: line.score, record: recordOfLine(line) };
    });
    for (const [index, { reachesOwner }] of (await triggers.add(shard, changes)).entries()) {
      if (reachesOwner) told.set(part[index]!, { shard, message: messageOf(part[index]!.line) });
    }
  };
  const adds: Promise<void>[] = [];
  for (const [shard, own] of byShard) {
    for (let from = 0; from < own.length; from += ADDS_AT_ONCE)
      adds.push(add(shard, own.slice(from, from + ADDS_AT_ONCE)));
  }
  await Promise.all(adds);
  return told;
}

function messageOf(line: PlacedLine): FastMessage {
  const { shard, number, atMs, score } = line;
  const record = Buffer.from(recordOfLine(line)).toString('base64');
  const id = changeId(line);
  return { v: 1, id, shard, number, version: 1, cutMs: atMs, score, record, former: null, result: 'created' };
}

async function addToShard(
  triggers: TriggerStore,
  shard: number,
  effects: readonly Effect[],
  reached: Set<Effect>,
): Promise<void> {
  for (let from = 0; from < effects.length; from += ADDS_AT_ONCE) {
    const part = effects.slice(from, from + ADDS_AT_ONCE);
    const results = await triggers.add(
      shard,
      part.map(({ add }) => add),
    );
    for (const [index, { reachesOwner }] of results.entries()) {
      const effect = part[index]!;
      if (reachesOwner || effect.certain) reached.add(effect);
    }
  }
}
