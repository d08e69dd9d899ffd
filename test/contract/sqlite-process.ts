/**
 * A process of its own on a data folder (`node sqlite-process.ts FOLDER MODE`), for the tests of the lock and of kill -9. It
 * says in one JSON line each what has happened; the tests read these lines.
 */

import { openIn } from './sqlite-folder.ts';
import { bytes, type Said } from './sqlite-said.ts';

const [folder, mode] = process.argv.slice(2) as [string, 'hold' | 'commit'];
const say = (said: Said): void => void process.stdout.write(`${JSON.stringify(said)}\n`);

try {
  const stores = openIn(folder);
  say({ opened: process.pid });
  // Holds the folder, and the process, until the parent goes away or ends it.
  process.stdin.resume();
  process.stdin.on('end', () => process.exit(0));
  if (mode === 'commit') {
    await stores.bus.ensureTopics([{ name: 'log', partitions: 1 }]);
    const lane = await stores.bus.lane('lane');
    for (let n = 0; ; n += 1) {
      const value = bytes(`${n}`);
      await stores.triggers.add(1, [{ number: n, version: 1, score: 1_000 + n, record: value }]);
      await lane.commit([{ topic: 'log', messages: [{ partition: 0, key: null, value }] }]);
      say({ committed: n });
    }
  }
} catch (error) {
  const { code, message } = error as { code: string; message: string };
  say({ refused: code, message });
  process.exit(1);
}
