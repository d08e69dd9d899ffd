import { existsSync, readFileSync } from 'node:fs';

/** Version of the program, from the package.json above: two folders up in the repository and in the published form. */
function readVersion(): string {
  const file = new URL('../../package.json', import.meta.url);
  if (!existsSync(file)) return '0.0.0';
  const { version } = JSON.parse(readFileSync(file, 'utf8')) as { version: string };
  return version;
}

export const PROGRAM_VERSION = readVersion();
