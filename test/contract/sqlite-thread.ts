/** A thread on a data folder that its process has: for each record of `in` it commits one to `out`, with its offset. */
import { parentPort, workerData } from 'node:worker_threads';
import { openIn } from './sqlite-folder.ts';

const stores = openIn(workerData as string, { lock: 'held' });
const { bus } = stores;
const lane = await bus.lane('thread');
const member = await bus.join('threads', 'in', {
  async batch({ partition }, records) {
    const messages = records.map(({ key, value }) => ({ partition: 0, key, value }));
    const next = records.at(-1)!.offset + 1;
    await lane.commit([{ topic: 'out', messages }], [{ group: 'threads', topic: 'in', partition, next }]);
  },
});
parentPort!.on('message', () => {
  void (async () => {
    await member.close();
    await stores.close();
    parentPort!.close();
  })();
});
parentPort!.postMessage('ready');
