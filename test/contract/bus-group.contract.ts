import { expect, test } from 'vitest';
import type { Bus, BusRecord, GroupHandler, GroupMember, GroupPartition } from '../../src/ports/bus.ts';
import type { Opened } from './bus.contract.ts';
import { happening, makeTopic, message, numbered, readAll, sendAll, textOf } from './bus-reading.ts';

/** Joins a group and leaves it as soon as all partitions were given: where would it have begun? By partition. */
export async function firstOffsets(bus: Bus, group: string, topic: string, partitions: number): Promise<number[]> {
  const next: number[] = [];
  const { happened, tell } = happening();
  const member = await bus.join(group, topic, {
    async assigned(partition) {
      next[partition.partition] = partition.next;
      if (Object.keys(next).length === partitions) tell();
    },
    async batch() {},
  });
  await happened;
  await member.close();
  return next;
}

/** Collects what a member was given, commits nothing, and wakes whoever waits for a state of it. */
function collector(): {
  handler: GroupHandler;
  texts: Map<number, string[]>;
  records: BusRecord[];
  held: Map<number, GroupPartition>;
  until(holds: () => boolean): Promise<void>;
} {
  const texts = new Map<number, string[]>();
  const records: BusRecord[] = [];
  const held = new Map<number, GroupPartition>();
  const waiting: { holds: () => boolean; tell: () => void }[] = [];
  const changed = (): void => {
    for (const one of waiting) if (one.holds()) one.tell();
  };
  return {
    texts,
    records,
    held,
    handler: {
      async assigned(partition) {
        held.set(partition.partition, partition);
        changed();
      },
      async batch(partition, batch) {
        records.push(...batch);
        texts.set(partition.partition, [...(texts.get(partition.partition) ?? []), ...batch.map((r) => textOf(r)!)]);
        changed();
      },
      async revoked(partition) {
        held.delete(partition.partition);
        changed();
      },
    },
    async until(holds) {
      if (holds()) return;
      const { happened, tell } = happening();
      waiting.push({ holds, tell });
      await happened;
    },
  };
}

const count = (texts: Map<number, string[]>): number => [...texts.values()].flat().length;

function oneMember(opened: Opened): void {
  test('a group without offsets begins at the first record and gets every partition, each in order', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('group'), 3);
    for (const p of [0, 1, 2]) await sendAll(bus, topic, numbered(p, `p${p}`, 1_500));
    const seen = collector();
    const member = await bus.join(unique('group-all'), topic, seen.handler);
    await seen.until(() => count(seen.texts) >= 4_500);
    for (const p of [0, 1, 2]) {
      expect(seen.texts.get(p)).toEqual(Array.from({ length: 1_500 }, (_, i) => `p${p}-${i}`));
      expect(seen.held.get(p)).toMatchObject({ topic, partition: p });
    }
    await sendAll(bus, topic, [message(1, 'k', 'later')]);
    await seen.until(() => seen.texts.get(1)!.at(-1) === 'later');
    await member.close();
  });

  test('each partition: assigned once before its first batch; batches never overlap; revoked after the last, signal aborted', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('calls'), 2);
    await sendAll(bus, topic, [...numbered(0, 'a', 5), ...numbered(1, 'b', 5)]);
    const calls = new Map<number, string[]>([
      [0, []],
      [1, []],
    ]);
    const running = new Set<number>();
    const { happened, tell } = happening();
    let left = 12;
    const member = await bus.join(unique('calls-group'), topic, {
      async assigned(partition) {
        expect(partition.signal.aborted).toBe(false);
        calls.get(partition.partition)!.push('assigned');
      },
      async batch(partition, records) {
        expect(running.has(partition.partition)).toBe(false);
        running.add(partition.partition);
        calls.get(partition.partition)!.push('batch');
        await new Promise((resolve) => setImmediate(resolve));
        running.delete(partition.partition);
        left -= records.length;
        if (left === 0) tell();
      },
      async revoked(partition) {
        expect(running.has(partition.partition)).toBe(false);
        expect(partition.signal.aborted).toBe(true);
        calls.get(partition.partition)!.push('revoked');
      },
    });
    await sendAll(bus, topic, [message(0, 'k', 'more'), message(1, 'k', 'more')]);
    await happened;
    await member.close();
    for (const p of [0, 1]) expect(calls.get(p)!.join(' ')).toMatch(/^assigned( batch)+ revoked$/);
  });

  test('closing waits for the batch that runs', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('close-waits'));
    await sendAll(bus, topic, [message(0, 'a', 'one')]);
    const [begun, released] = [happening<GroupPartition>(), happening()];
    let ended = false;
    const member = await bus.join(unique('close-group'), topic, {
      async batch(partition) {
        begun.tell(partition);
        await released.happened;
        ended = true;
      },
    });
    const partition = await begun.happened;
    const aborted = happening();
    partition.signal.addEventListener('abort', () => aborted.tell());
    const closing = member.close();
    await aborted.happened;
    expect(ended).toBe(false);
    released.tell();
    await closing;
    expect(ended).toBe(true);
  });

  test('a batch that throws comes again, the same records in the same order, before any later one', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('throws'));
    await sendAll(bus, topic, numbered(0, 'v', 20));
    const { happened, tell } = happening();
    const good: string[] = [];
    let throws = 2;
    let failed: string[] = [];
    const member = await bus.join(unique('throws-group'), topic, {
      async batch(_partition, records) {
        const texts = records.map((record) => textOf(record)!);
        if (throws > 0) {
          if (failed.length > 0) expect(texts[0]).toBe(failed[0]);
          failed = texts;
          throws -= 1;
          throw new Error('refused on purpose');
        }
        good.push(...texts);
        if (good.length >= 20) tell();
      },
    });
    await happened;
    expect(good).toEqual(Array.from({ length: 20 }, (_, i) => `v-${i}`));
    await member.close();
  });

  test('the next member begins at the committed offset; what was not committed comes again', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('commit'), 2);
    const group = unique('commit-group');
    await sendAll(bus, topic, [...numbered(0, 'a', 10), ...numbered(1, 'b', 10)]);
    const offsets = (await readAll(bus, topic, 0)).map((record) => record.offset);
    const first = collector();
    const member = await bus.join(group, topic, first.handler);
    await first.until(() => count(first.texts) >= 20);
    await member.commit(0, offsets[2]!);
    await member.commit(0, offsets[6]!);
    await member.close();
    const second = collector();
    const next = await bus.join(group, topic, second.handler);
    await second.until(() => count(second.texts) >= 14);
    expect(second.texts.get(0)).toEqual(['a-6', 'a-7', 'a-8', 'a-9']);
    expect(second.texts.get(1)).toEqual(Array.from({ length: 10 }, (_, i) => `b-${i}`));
    await next.close();
  });

  test('groups do not know of each other', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('two-groups'));
    await sendAll(bus, topic, numbered(0, 'v', 5));
    const end = (await bus.offsets(topic))[0]!.end;
    const [a, b] = [collector(), collector()];
    const memberA = await bus.join(unique('group-a'), topic, a.handler);
    await a.until(() => count(a.texts) >= 5);
    await memberA.commit(0, end);
    const memberB = await bus.join(unique('group-b'), topic, b.handler);
    await b.until(() => count(b.texts) >= 5);
    expect(b.texts).toEqual(a.texts);
    await memberA.close();
    await memberB.close();
  });

  test('a group sees committed records only, and the offsets of a group outlive a restart', async () => {
    const { bus, unique, reopen } = opened();
    const topic = await makeTopic(bus, unique('group-restart'));
    const group = unique('group-restart-group');
    const lane = await bus.lane(unique('group-restart-lane'));
    await lane.commit([{ topic, messages: numbered(0, 'v', 5) }]);
    await lane.close();
    const seen = collector();
    const member = await bus.join(group, topic, seen.handler);
    await seen.until(() => seen.records.length >= 5);
    await member.commit(0, seen.records[3]!.offset);
    await member.close();
    if (reopen !== undefined) await reopen();
    const again = collector();
    const next = await opened().bus.join(group, topic, again.handler);
    await again.until(() => again.records.length >= 2);
    expect(again.texts.get(0)).toEqual(['v-3', 'v-4']);
    await next.close();
  });
}

function manyMembers(opened: Opened): void {
  test('two members share the partitions, no partition is worked on by two, and the last one left has all', async () => {
    const { bus, unique, another } = opened();
    const topic = await makeTopic(bus, unique('shared'), 4);
    const group = unique('shared-group');
    const other = await another();
    const [a, b] = [collector(), collector()];
    const both = (): number[] => [...a.held.keys(), ...b.held.keys()].sort();
    const memberA = await bus.join(group, topic, a.handler);
    await a.until(() => a.held.size === 4);
    const memberB = await other.join(group, topic, b.handler);
    // Each collector is woken by its own changes only.
    await b.until(() => b.held.size === 2);
    await a.until(() => a.held.size === 2);
    expect(both()).toEqual([0, 1, 2, 3]);
    for (const p of [0, 1, 2, 3]) await sendAll(bus, topic, numbered(p, `p${p}`, 50));
    await a.until(() => count(a.texts) >= 100);
    await b.until(() => count(b.texts) >= 100);
    for (const p of [0, 1, 2, 3]) {
      const owner = a.held.has(p) ? a : b;
      expect(owner.texts.get(p)).toEqual(Array.from({ length: 50 }, (_, i) => `p${p}-${i}`));
    }
    await memberA.close();
    expect(a.held.size).toBe(0);
    await b.until(() => b.held.size === 4);
    await memberB.close();
    if (other !== bus) await other.close();
  });

  test('a member above the number of partitions waits and takes over when another leaves', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('spare'), 1);
    const group = unique('spare-group');
    await sendAll(bus, topic, numbered(0, 'v', 3));
    const seen = [collector(), collector()];
    const members: GroupMember[] = [];
    for (const one of seen) members.push(await bus.join(group, topic, one.handler));
    const holder = await Promise.race(seen.map((one, i) => one.until(() => count(one.texts) >= 3).then(() => i)));
    const spare = 1 - holder;
    await members[holder]!.close();
    await seen[spare]!.until(() => count(seen[spare]!.texts) >= 3);
    expect(seen[spare]!.texts.get(0)).toEqual(['v-0', 'v-1', 'v-2']);
    await members[spare]!.close();
  });
}

export function groupStatements(opened: Opened): void {
  oneMember(opened);
  manyMembers(opened);
}
