import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { CatalogStore, Installation, StoredCalendar } from '../../src/ports/catalog-store.ts';
import { reopened, type StoreOpening } from './opening.ts';
import { sampleCluster } from './samples.ts';

const installation = (id: string): Installation => ({
  id,
  dataVersion: 1,
  slotsPerSet: 8,
  lanesPerSlot: 4,
  changesPartitions: 8,
  zoneDataVersion: '2026a',
  zoneFingerprints: { 'Europe/Paris': 'f1' },
});
const calendar = (version: number, dates: string[]): StoredCalendar => ({
  name: 'holidays',
  version,
  definition: { zone: 'Europe/Paris', dates, times: [{ from: '22:00', to: '06:00' }] },
});

function statements(opened: () => StoreOpening<CatalogStore>): void {
  test('the installation of the first start stays', async () => {
    const { store } = opened();
    expect(await store.installation(installation('one'))).toEqual(installation('one'));
    expect(await store.installation({ ...installation('two'), slotsPerSet: 64 })).toEqual(installation('one'));
    expect(await (await reopened(opened())).installation(installation('three'))).toEqual(installation('one'));
  });

  test('of several first starts at once all get the same installation', async () => {
    const { store } = opened();
    const answers = await Promise.all(['a', 'b', 'c', 'd'].map((id) => store.installation(installation(id))));
    expect(new Set(answers.map((answer) => answer.id)).size).toBe(1);
    expect(await store.installation(installation('e'))).toEqual(answers[0]);
  });

  test('zone data change only from the version that is expected', async () => {
    const { store } = opened();
    expect(await store.setZoneData('2026a', '2026b', {})).toBe(false);
    await store.installation(installation('one'));
    expect(await store.setZoneData('2025z', '2026b', {})).toBe(false);
    expect(await store.setZoneData('2026a', '2026b', { 'Asia/Tokyo': 'f2' })).toBe(true);
    expect(await store.setZoneData('2026a', '2026c', {})).toBe(false);
    expect(await store.installation(installation('two'))).toEqual({
      ...installation('one'),
      zoneDataVersion: '2026b',
      zoneFingerprints: { 'Asia/Tokyo': 'f2' },
    });
  });

  test('a logical cluster is created once and comes back as it was', async () => {
    const { store } = opened();
    expect(await store.clusters()).toEqual([]);
    expect(await store.cluster('team')).toBeNull();
    expect(await store.createCluster(sampleCluster('team'))).toBe(true);
    expect(await store.createCluster(sampleCluster('team', { partitions: 12 }))).toBe(false);
    expect(await store.createCluster(sampleCluster('Team', { envelope: 'compact' }))).toBe(true);
    expect(await store.cluster('team')).toEqual(sampleCluster('team'));
    const all = await (await reopened(opened())).clusters();
    expect(all.map((one) => one.name).sort()).toEqual(['Team', 'team']);
  });

  test('of several creations of one cluster one wins', async () => {
    const { store } = opened();
    const tries = [1, 2, 3, 4].map((partitions) => store.createCluster(sampleCluster('team', { partitions })));
    const won = await Promise.all(tries);
    expect(won.filter(Boolean)).toHaveLength(1);
    expect((await store.cluster('team'))!.partitions).toBe(won.indexOf(true) + 1);
  });

  test('a calendar begins with version 1 and rises by one; all else is refused', async () => {
    const { store } = opened();
    expect(await store.calendar('holidays')).toBeNull();
    expect(await store.putCalendar(calendar(2, []))).toBe(false);
    expect(await store.putCalendar(calendar(1, ['2026-12-25']))).toBe(true);
    expect(await store.putCalendar(calendar(1, ['2026-01-01']))).toBe(false);
    expect(await store.putCalendar(calendar(3, []))).toBe(false);
    expect(await store.calendar('holidays')).toEqual(calendar(1, ['2026-12-25']));
    expect(await store.putCalendar(calendar(2, ['2026-12-26']))).toBe(true);
    expect(await store.putCalendar(calendar(2, []))).toBe(false);
    const again = await reopened(opened());
    expect(await again.calendars()).toEqual([calendar(2, ['2026-12-26'])]);
  });

  test('a calendar is deleted in its version only, and a new one begins with version 1 again', async () => {
    const { store } = opened();
    await store.putCalendar(calendar(1, []));
    await store.putCalendar(calendar(2, []));
    expect(await store.deleteCalendar('holidays', 1)).toBe(false);
    expect(await store.deleteCalendar('nothing', 1)).toBe(false);
    expect(await store.deleteCalendar('holidays', 2)).toBe(true);
    expect(await store.deleteCalendar('holidays', 2)).toBe(false);
    expect(await store.calendar('holidays')).toBeNull();
    expect(await store.putCalendar(calendar(1, ['2027-01-01']))).toBe(true);
  });
}

/** Every statement of `src/ports/catalog-store.ts` as a test. */
export function catalogStoreContract(name: string, open: () => Promise<StoreOpening<CatalogStore>>): void {
  describe(`catalog store: ${name}`, () => {
    let opening: StoreOpening<CatalogStore>;
    beforeEach(async () => {
      opening = await open();
    });
    afterEach(async () => {
      await opening?.close();
    });
    statements(() => opening);
  });
}
