import { busContract } from './bus.contract.ts';
import { dataFolder, openIn } from './sqlite-folder.ts';

busContract('sqlite', async () => {
  const { folder, remove } = dataFolder();
  let stores = openIn(folder);
  return {
    bus: stores.bus,
    unique: (name) => name,
    another: async () => {
      const other = openIn(folder, { lock: 'held' });
      return { ...other.bus, close: () => other.close() };
    },
    reopen: async () => {
      await stores.close();
      stores = openIn(folder);
      return stores.bus;
    },
    close: async () => {
      await stores.close();
      remove();
    },
  };
});
