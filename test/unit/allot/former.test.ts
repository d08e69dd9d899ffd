import { expect, test } from 'vitest';
import { memoryStores } from '../../../src/adapters/memory/stores.ts';
import { systemClock } from '../../../src/adapters/system/clock.ts';
import { endFormer } from '../../../src/engine/allot/former.ts';
import { silentTelemetry } from '../../../src/ports/telemetry.ts';
import { sampleSession } from '../../contract/samples.ts';

test('what a dead process held is free at once: sessions, leases, leadership; epochs stay', async () => {
  const { leases } = memoryStores(systemClock(), silentTelemetry);
  await leases.openSession(sampleSession('w1'));
  await leases.openSession(sampleSession('m1'));
  await leases.createSlots([0, 1].map((slot) => ({ delivery: 'exactly-once' as const, slot })));
  const [first] = await leases.leases();
  await leases.assign(first!, 'w1');
  const { term } = await leases.lead('manager', 'm1', null);

  await endFormer(leases);

  expect(await leases.sessions()).toEqual([]);
  expect((await leases.leases()).map(({ owner, epoch }) => ({ owner, epoch }))).toEqual([
    { owner: null, epoch: 1 },
    { owner: null, epoch: 0 },
  ]);
  const next = await leases.lead('manager', 'm2', null);
  expect(next).toMatchObject({ holder: 'm2', mine: true });
  expect(next.term).toBeGreaterThan(term);
});

test('at a first start there is nothing to end', async () => {
  const { leases } = memoryStores(systemClock(), silentTelemetry);
  await endFormer(leases);
  expect(await leases.lead('manager', 'm1', null)).toMatchObject({ holder: 'm1', mine: true });
});
