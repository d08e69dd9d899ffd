import { memoryBus } from '../../src/adapters/memory/bus.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { busContract } from './bus.contract.ts';

busContract('memory', async () => {
  const bus = memoryBus(systemClock());
  return { bus, unique: (name) => name, another: async () => bus, close: () => bus.close() };
});
