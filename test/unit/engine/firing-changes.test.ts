import { describe, expect, test } from 'vitest';
import { every, once, rate, T0, World } from './world.ts';

describe.each(['at-least-once', 'exactly-once'] as const)('changes, %s', (delivery) => {
  test('O-DL-06: a schedule made shorter does not wait for the old next fire', async () => {
    const world = await World.open(delivery, { startMs: T0 + 10_000 });
    const runner = await world.adopted();
    await world.put('daily', { schedule: { kind: 'cron', expression: '0 3 * * *' } });
    await world.run(runner, 1_000);
    await world.change('daily', { schedule: { kind: 'cron', expression: '* * * * *' } });
    await world.run(runner, 120_000, 50);
    expect(await world.timesOf('daily')).toEqual([T0 + 60_000, T0 + 120_000]);
  });

  test('O-DL-06: intervals changed in turn every second: the spacing is that of the last update, no older version after its answer', async () => {
    const world = await World.open(delivery);
    const runner = await world.adopted();
    const periods = [8_000, 4_000, 9_000, 2_000, 3_000];
    const cuts: { cutMs: number; everyMs: number; version: number }[] = [];
    for (let i = 0; i < 100; i += 1) {
      const everyMs = periods[i % periods.length]!;
      const fields = { schedule: rate(everyMs, world.nowMs + everyMs) };
      const job = i === 0 ? await world.put('j', fields) : await world.change('j', fields, { reply: true });
      cuts.push({ cutMs: world.nowMs, everyMs, version: job.version });
      await world.run(runner, i % 10 === 9 ? 12_345 : 1_000);
    }
    const expected = cuts.flatMap(({ cutMs, everyMs, version }, i) => {
      const endMs = cuts[i + 1]?.cutMs ?? world.nowMs;
      return every(everyMs, cutMs + everyMs, endMs).map((nominalMs) => ({ nominalMs, version }));
    });
    const fired = await world.fired();
    expect(fired.map(({ nominalMs, version }) => ({ nominalMs, version }))).toEqual(expected);
    // The last change came within the second before the end, so each one before has its answer: 99 of them.
    expect((await world.answers()).filter(({ from }) => from === 'owner')).toHaveLength(99);
  });

  test('O-DL-04: saving the same again and again moves nothing, loses nothing, and leaves one entry', async () => {
    const world = await World.open(delivery);
    const runner = await world.adopted();
    await world.put('j', { schedule: rate(5_000, T0 + 5_000) });
    for (let i = 0; i < 1_000; i += 1) {
      await world.change('j', { payload: `p${i}` });
      if (i % 7 === 0) await world.run(runner, 413);
    }
    await world.run(runner, 1_000);
    expect(runner.entries).toBe(1);
    expect((await world.stores.triggers.count(0)).members).toBe(1);
    expect(await world.timesOf('j')).toEqual(every(5_000, T0 + 5_000, world.nowMs));
  });

  test('O-DL-09: after the answer to delete nothing fires, whenever the delete comes, and the job does not come back', async () => {
    const world = await World.open(delivery);
    const runner = await world.adopted();
    let tries = 0;
    for (let offset = -20; offset <= 20; offset += 1) {
      const key = `j${offset}`;
      const startMs = world.nowMs;
      await world.put(key, { schedule: rate(1_000, startMs + 1_000) });
      await world.run(runner, 2_000 + offset, 1);
      await world.delete(key, { reply: true });
      await world.round(runner);
      const answeredMs = world.nowMs;
      await world.run(runner, 2_100, 50);
      tries += 1;
      const fired = (await world.fired()).filter((one) => one.key === key);
      expect(fired.every(({ atMs }) => atMs <= answeredMs)).toBe(true);
      expect(fired.map(({ nominalMs }) => nominalMs)).toEqual(every(1_000, startMs + 1_000, startMs + 2_000 + offset));
    }
    expect(await world.answers()).toHaveLength(tries);
    expect(runner.entries).toBe(0);
    expect((await world.stores.triggers.count(0)).members).toBe(0);
  });

  test('O-DL-09: a delete while triggers are on the way waits for them and then wins', async () => {
    const world = await World.open(delivery);
    const runner = await world.adopted();
    await world.put('j', { schedule: rate(1_000) });
    await world.run(runner, 900);
    await world.clock.advance(100);
    expect(runner.tick(world.nowMs)).toBe(1);
    await world.delete('j', { reply: true });
    await world.through(runner.readFast(0));
    await runner.settled();
    await world.run(runner, 3_000);
    expect(await world.timesOf('j')).toEqual([T0 + 1_000]);
    expect(await world.answers()).toHaveLength(1);
    expect(runner.entries).toBe(0);
  });

  test('O-DL-05: deleted and made again with the same key: it fires at its next slot each time', async () => {
    const world = await World.open(delivery);
    const runner = await world.adopted();
    await world.put('j', { schedule: rate(180_000) });
    await world.run(runner, 180_100, 20);
    for (let i = 0; i < 2; i += 1) {
      await world.delete('j');
      await world.run(runner, 10);
      await world.put('j', { schedule: rate(180_000) });
    }
    await world.run(runner, 360_000, 100);
    expect(await world.timesOf('j')).toEqual(every(180_000, T0 + 180_000, T0 + 540_000));
  });

  test('what the version before owes up to the cut fires as that version, later times as the new one', async () => {
    const world = await World.open(delivery);
    const runner = await world.adopted();
    await world.put('j', { schedule: rate(100, T0 + 100), payload: 'old' });
    await world.run(runner, 1_000);
    // The owner is 50 ms behind: 1,050 ms is the cut, 1,000 was fired, 1,100 is the new version's.
    await world.clock.advance(50);
    await world.change('j', { schedule: rate(100, T0 + 960), payload: 'new' }, { reply: true });
    await world.clock.advance(60);
    await world.round(runner);
    const fired = await world.fired();
    expect(fired.filter(({ payload }) => payload === 'old').map(({ nominalMs }) => nominalMs - T0)).toEqual(
      every(100, 100, 1_000),
    );
    expect(fired.filter(({ payload }) => payload === 'new').map(({ nominalMs }) => nominalMs - T0)).toEqual([1_060]);
  });

  test('what fell due beyond the horizon while nobody owned the slot is owed by the version before the change', async () => {
    const world = await World.open(delivery);
    const runner = await world.adopted();
    await world.put('a', { schedule: rate(60_000, T0 + 20_000) });
    await world.run(runner, 1_000);
    runner.drop('crash');
    await world.clock.advance(20_000);
    await world.change('a', { schedule: rate(60_000, T0 + 80_000) });
    const next = await world.adopted();
    await world.run(next, 1_000);
    expect(await world.timesOf('a')).toEqual([T0 + 20_000]);
  });

  test('I7: an owner that comes late publishes no older version: the new one pays, and a deleted job is told as superseded', async () => {
    const world = await World.open(delivery);
    const first = await world.adopted();
    await world.put('kept', { schedule: rate(1_000), payload: 'old' });
    await world.put('gone', { schedule: rate(1_000) });
    await world.run(first, 1_500);
    await first.close();
    await world.clock.advance(1_000);
    await world.change('kept', { payload: 'new' });
    await world.delete('gone');
    await world.clock.advance(700);
    const runner = await world.adopted();
    await world.run(runner, 1_000);
    const kept = (await world.fired()).filter(({ key }) => key === 'kept');
    expect(kept.map(({ nominalMs }) => nominalMs)).toEqual(every(1_000, T0 + 1_000, T0 + 4_000));
    expect(kept.map(({ payload }) => payload)).toEqual(['old', 'new', 'new', 'new']);
    expect(await world.timesOf('gone')).toEqual([T0 + 1_000]);
    expect(world.told.of('triggers_total/superseded')).toBe(1);
  });

  test('paused over its times and resumed: by the misfire policy one make-up fire, then on its grid (O-IV-07)', async () => {
    const world = await World.open(delivery);
    const runner = await world.adopted();
    await world.put('j', { schedule: { kind: 'cron', expression: '* * * * *' } });
    await world.run(runner, 60_500, 100);
    const pausedMs = world.nowMs;
    await world.change('j', { state: 'paused' });
    await world.round(runner);
    const days = 3 * 86_400_000;
    await world.clock.advance(days + 20_000);
    await world.round(runner);
    expect(await world.timesOf('j')).toEqual([T0 + 60_000]);
    await world.change('j', { state: 'enabled', cutMs: pausedMs });
    await world.run(runner, 120_000, 100);
    expect(await world.timesOf('j')).toEqual([
      T0 + 60_000,
      T0 + days + 60_000,
      T0 + days + 120_000,
      T0 + days + 180_000,
    ]);
    expect(world.told.of('misfires_total/dropped')).toBe(4_319);
  });

  test('a time that was fired after the cut of a pause does not fire again at resume', async () => {
    const world = await World.open(delivery);
    const runner = await world.adopted();
    await world.put('j', { schedule: rate(1_000) });
    await world.run(runner, 1_999);
    // Paused just before a slot by the clock of the API; the owner hears of it after it has fired.
    const cutMs = world.nowMs;
    await world.run(runner, 6);
    await world.change('j', { state: 'paused', cutMs });
    await world.run(runner, 500);
    await world.change('j', { state: 'enabled', cutMs });
    await world.run(runner, 1_000);
    expect(await world.timesOf('j')).toEqual(every(1_000, T0 + 1_000, T0 + 3_000));
  });

  test('a changed spread fires no occurrence twice', async () => {
    const world = await World.open(delivery);
    const runner = await world.adopted();
    await world.put('j', { schedule: once(T0 + 2_000) });
    await world.put('r', { schedule: rate(10_000), bounds: { spreadMs: 1 } });
    await world.run(runner, 10_001, 1);
    await world.change('r', { bounds: { spreadMs: 9_999 } });
    await world.run(runner, 30_000);
    const times = await world.timesOf('r');
    expect(new Set(times).size).toBe(times.length);
    expect(times.slice(0, 3)).toEqual(every(10_000, T0 + 10_000, T0 + 30_000));
    expect(await world.timesOf('j')).toEqual([T0 + 2_000]);
  });

  test.each(['the owner whose cursor it is', 'the next owner, as it takes over'])(
    'what a change owes before the place of a cursor outlives the owner that heard of it: %s',
    async (who) => {
      const world = await World.open(delivery, { topic: false });
      let runner = await world.adopted();
      await world.put('j', { schedule: rate(10_000), misfire: { mode: 'all' } });
      // A cursor stands before the first time, which waits for its topic.
      await world.run(runner, 12_500, 100);
      expect([...(await world.cursors()).values()].map(({ fromMs }) => fromMs)).toEqual([T0 + 9_999]);
      if (who.startsWith('the next')) runner.drop('crash');
      // Accepted long ago, and told only now: three of its times lie before the cursor.
      await world.change('j', { schedule: rate(2_000, T0 + 5_000), cutMs: T0 + 4_000 });
      if (who.startsWith('the next')) runner = await world.adopted();
      await world.run(runner, 1_000, 100);
      runner.drop('crash');
      await world.makeTopic();
      runner = await world.adopted();
      await world.run(runner, 3_000, 100);
      expect(await world.timesOf('j')).toEqual(every(2_000, T0 + 5_000, T0 + 15_000));
      expect([...(await world.cursors())]).toEqual([]);
    },
  );
});
