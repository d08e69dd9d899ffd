/** Small disks for servers, so that one can be filled: a tmpfs of a bounded size. Mounting is for root alone. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Why this process cannot mount, or null when it can. */
export function mountRefusal(): string | null {
  const folder = join(tmpdir(), `carillon-mount-${process.pid}`);
  try {
    mountBounded(folder, 1);
    unmountBelow(folder);
    return null;
  } catch (error) {
    return `this process may not mount a tmpfs: ${String(error).split('\n')[0]}`;
  } finally {
    rmdirSync(folder);
  }
}

/** Puts an empty disk of this size over a folder, which is made if it is not there. */
export function mountBounded(folder: string, sizeMiB: number): void {
  mkdirSync(folder, { recursive: true });
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${sizeMiB}m`, 'tmpfs', folder], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
}

/** Takes away all disks that are mounted at or below a folder, with what is on them. */
export function unmountBelow(folder: string): void {
  // Each line is: device, folder, type, options (proc_mounts(5)); a blank in a name is written \040.
  const mounted = readFileSync('/proc/mounts', 'utf8')
    .split('\n')
    .map((line) => (line.split(' ')[1] ?? '').replaceAll('\\040', ' '))
    .filter((path) => path === folder || path.startsWith(`${folder}/`));
  for (const path of mounted.reverse()) execFileSync('umount', ['-l', path]);
}
