// Entry of every npm script: says so when Node is too old to run TypeScript, instead of an unknown file extension.
// Plain JavaScript, since an old Node must be able to read it. Usage: node deploy/node.mjs FILE.ts [arguments]
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const LEAST = 24;
const major = Number(process.versions.node.split('.')[0]);
if (major < LEAST) {
  console.error(
    `Carillon needs Node ${LEAST} or newer, and this is ${process.version}. ` +
      'On Linux (x64, arm64) and Windows (x64) "npm ci" installs one for the npm scripts, unless optional packages are ' +
      'left out (--omit=optional); elsewhere install Node 24 and put it first on the PATH.',
  );
  process.exit(1);
}
const [file, ...rest] = process.argv.slice(2);
if (file === undefined) {
  console.error('usage: node deploy/node.mjs FILE.ts [arguments]');
  process.exit(2);
}
process.argv = [process.argv[0], resolve(file), ...rest];
await import(pathToFileURL(process.argv[1]).href);
