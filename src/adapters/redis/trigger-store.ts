import { carillonError } from '../../core/errors.ts';
import { memberNumber, memberVersion } from '../../core/member.ts';
import type { ExpectedJob, RestoredJob } from '../../ports/rebuild-store.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import type {
  AddResult,
  Claimed,
  DueMember,
  ScanRequest,
  ScanResult,
  Stale,
  TriggerChange,
  TriggerStore,
  WriteBackResult,
} from '../../ports/trigger-store.ts';
import { changePieces, packChanges, packExpected, packMembers, packScores } from './packing.ts';
import { loadScript, type Script } from './script.ts';

/** What the store needs of a connection: one command, with bytes in the reply, errors as those of the table. */
export interface Commands {
  call(name: string, args: readonly (string | number | Buffer)[]): Promise<unknown>;
  run(script: Script, keys: readonly string[], args: readonly (string | number | Buffer)[]): Promise<unknown>;
}

const SCRIPTS = {
  add: loadScript('add'),
  claim: loadScript('claim'),
  scan: loadScript('scan'),
  writeBack: loadScript('write-back'),
  reset: loadScript('reset'),
  compare: loadScript('compare'),
  finished: loadScript('finished'),
  removeFinished: loadScript('remove-finished'),
  sweep: loadScript('sweep'),
  drop: loadScript('drop'),
};

/** Most members of one call of a script that takes a list: Redis runs nothing else meanwhile. */
const PIECE_MEMBERS = 1_000;
const LIST_LIMIT = 4_000;
/** First byte of the answer that a newer epoch stands there. */
const STALE = 's'.charCodeAt(0);

const ADD_RESULTS: readonly AddResult[] = [
  { outcome: 'applied', reachesOwner: false },
  { outcome: 'applied', reachesOwner: true },
  { outcome: 'same', reachesOwner: false },
  { outcome: 'same', reachesOwner: true },
  { outcome: 'older', reachesOwner: false },
];

/** Keys of a shard; the braces put all of them into one hash slot of a Redis Cluster. */
function shardKeys(prefix: string, shard: number) {
  const base = `{carillon:${prefix}:${shard}}`;
  return {
    members: `${base}:members`,
    versions: `${base}:versions`,
    records: `${base}:records`,
    state: `${base}:state`,
    tombstones: `${base}:tombstones`,
  };
}

export function redisTriggerStore(
  commands: Commands,
  prefix: string,
  telemetry: Telemetry,
  /** Whether Redis may have gone back a moment ago: then it cannot say which changes reach their owners. */
  doubted: () => boolean,
): Omit<TriggerStore, 'close' | 'timeMs' | 'connections'> {
  const keysOf = (shard: number) => shardKeys(prefix, shard);
  const allKeys = (shard: number): string[] => {
    const k = keysOf(shard);
    return [k.members, k.versions, k.records, k.state, k.tombstones];
  };
  /** Each piece is atomic. When a later one fails, a repeat of the whole finds the earlier ones as `same`. */
  async function set(
    shard: number,
    changes: readonly TriggerChange[],
    epoch: number | '',
  ): Promise<AddResult[] | Stale> {
    const results: AddResult[] = [];
    for (const piece of changePieces(changes)) {
      const answer = (await commands.run(SCRIPTS.add, allKeys(shard), [packChanges(piece), epoch])) as Buffer;
      if (answer[0] === STALE) return { status: 'stale', epoch: numberIn(answer.subarray(1)) };
      const all = epoch === '' && doubted();
      for (const digit of answer) {
        const { outcome, reachesOwner } = ADD_RESULTS[digit - 48]!;
        results.push({ outcome, reachesOwner: reachesOwner || (all && outcome !== 'older') });
      }
    }
    return results;
  }

  return {
    async add(shard, changes): Promise<AddResult[]> {
      return (await set(shard, changes, '')) as AddResult[];
    },

    async claim(shard, epoch): Promise<Claimed | Stale> {
      const k = keysOf(shard);
      const reply = await commands.run(SCRIPTS.claim, [k.state, k.members, k.versions, k.records], [epoch]);
      const [ok, value, formerEpoch, whole, lineage] = reply as [number, number, number, number, Buffer];
      return ok === 1
        ? { status: 'ok', horizonMs: value, formerEpoch, whole: whole === 1, lineage: lineage.toString('latin1') }
        : { status: 'stale', epoch: value };
    },

    async reset(shard, epoch, build): Promise<{ status: 'ok' } | Stale> {
      const [ok, stored] = (await commands.run(SCRIPTS.reset, allKeys(shard), [epoch, build])) as [number, number];
      return ok === 1 ? { status: 'ok' } : { status: 'stale', epoch: stored };
    },

    restore: (shard, epoch, changes: readonly RestoredJob[]) => set(shard, changes, epoch),

    async compare(shard, jobs: readonly ExpectedJob[]): Promise<number[]> {
      const k = keysOf(shard);
      const differ: number[] = [];
      for (let first = 0; first < jobs.length; first += PIECE_MEMBERS) {
        const packed = packExpected(jobs.slice(first, first + PIECE_MEMBERS));
        const indexes = (await commands.run(SCRIPTS.compare, [k.members, k.versions], [packed])) as number[];
        for (const index of indexes) differ.push(first + index);
      }
      return differ;
    },

    async scan(shard, request): Promise<ScanResult | Stale> {
      const { epoch, expectedHorizonMs, fromMs, horizonMs, build = '' } = checkedScan(request);
      const k = keysOf(shard);
      const keys = [k.members, k.records, k.state, k.versions];
      const args = [epoch, expectedHorizonMs, fromMs, horizonMs, build];
      const reply = (await commands.run(SCRIPTS.scan, keys, args)) as ScanReply;
      if (reply[0] === 0) return { status: 'stale', epoch: reply[1] };
      if (reply[0] === 3) return { status: 'not-whole' };
      if (reply[0] === 2) return { status: 'horizon-moved', horizonMs: reply[1] };
      const due = dueMembers(reply);
      const lacking = reply[1].length / 2 - due.length;
      if (lacking > 0) telemetry.event('error', 'members without a job record were left out', { shard, lacking });
      return { status: 'ok', due };
    },

    async writeBack(shard, epoch, scores): Promise<WriteBackResult | Stale> {
      const k = keysOf(shard);
      const total: WriteBackResult = { status: 'ok', within: [], missing: [] };
      for (let first = 0; first < scores.length || first === 0; first += PIECE_MEMBERS) {
        const packed = packScores(scores.slice(first, first + PIECE_MEMBERS));
        const reply = await commands.run(SCRIPTS.writeBack, [k.members, k.versions, k.state], [epoch, packed]);
        if (isStale(reply)) return { status: 'stale', epoch: reply[1] };
        const [, within, missing] = reply as [1, number[], number[]];
        for (const index of within) total.within.push(first + index);
        for (const index of missing) total.missing.push(first + index);
      }
      return total;
    },

    async finished(shard, limit): Promise<{ number: number; version: number }[]> {
      const k = keysOf(shard);
      const reply = await commands.run(SCRIPTS.finished, [k.members, k.versions], [Math.min(limit, LIST_LIMIT)]);
      const values = (reply as Buffer[]).map(numberIn);
      const found: { number: number; version: number }[] = [];
      for (let i = 0; i < values.length; i += 2) {
        found.push({ number: values[i]!, version: Math.floor(values[i + 1]! / 2) });
      }
      return found;
    },

    async removeFinished(shard, members): Promise<void> {
      const k = keysOf(shard);
      const pieces: Promise<unknown>[] = [];
      for (let first = 0; first < members.length; first += PIECE_MEMBERS) {
        const packed = packMembers(members.slice(first, first + PIECE_MEMBERS));
        pieces.push(commands.run(SCRIPTS.removeFinished, [k.members, k.versions, k.records], [packed]));
      }
      await Promise.all(pieces);
    },

    async count(shard): Promise<{ members: number; finished: number }> {
      const { members } = keysOf(shard);
      const [all, finished] = await Promise.all([
        // Below 0 stands the mark of the last rebuild.
        commands.call('zcount', [members, 0, '+inf']),
        commands.call('zcount', [members, 0, 0]),
      ]);
      return { members: all as number, finished: finished as number };
    },

    async sweep(shard, beforeMs, limit): Promise<number> {
      const k = keysOf(shard);
      const args = [beforeMs, Math.min(limit, LIST_LIMIT)];
      return (await commands.run(SCRIPTS.sweep, [k.versions, k.tombstones], args)) as number;
    },

    async drop(shard): Promise<void> {
      await commands.run(SCRIPTS.drop, allKeys(shard), []);
    },
  };
}

type DueReply = [1, Buffer[], ...(Buffer | null)[][]];
type ScanReply = [0, number] | [2, number] | [3] | DueReply;

function isStale(reply: unknown): reply is [0, number] {
  return (reply as [number])[0] === 0;
}

/** Members and scores with their records; a member whose record is missing is left out. */
function dueMembers([, members, ...records]: DueReply): DueMember[] {
  const flat = records.flat();
  const due: DueMember[] = [];
  for (let i = 0; i < members.length; i += 2) {
    const record = flat[i / 2];
    if (!record) continue;
    const member = numberIn(members[i]!);
    const score = numberIn(members[i + 1]!);
    due.push({ number: memberNumber(member), memberVersion: memberVersion(member), score, record });
  }
  return due;
}

function numberIn(text: Buffer): number {
  return Number(text.toString('latin1'));
}

function checkedScan(request: ScanRequest): ScanRequest {
  const { expectedHorizonMs, fromMs, horizonMs } = request;
  if (!Number.isSafeInteger(horizonMs) || horizonMs < expectedHorizonMs || !Number.isSafeInteger(fromMs)) {
    throw carillonError('internal', `a scan from ${fromMs} to ${horizonMs} with H at ${expectedHorizonMs}`);
  }
  return request;
}
