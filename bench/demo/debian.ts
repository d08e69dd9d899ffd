/**
 * The cron lines of Debian packages, as real input for importer and preview. The committed list (`debian-cron.json`) names
 * package, version and file of each line; `node bench/demo/debian.ts` (`npm run demo -- --refresh`) fetches the packages
 * again with apt-get and rewrites the list. Only schedule lines are kept: no comments, no variable settings.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface DebianCrontab {
  package: string;
  version: string;
  file: string;
  lines: string[];
}

const LIST = new URL('./debian-cron.json', import.meta.url);
const PACKAGES = [
  'anacron',
  'atop',
  'awstats',
  'cacti',
  'certbot',
  'e2fsprogs',
  'fcheck',
  'logcheck',
  'mailman3',
  'mdadm',
  'munin',
  'ntpsec',
  'php-common',
  'roundcube-core',
  'sysstat',
];

export function debianCrontabs(): DebianCrontab[] {
  return JSON.parse(readFileSync(LIST, 'utf8'));
}

/** Lines of a crontab that are schedules: five time fields or a macro, then user and command. */
function scheduleLines(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#') && !/^[A-Za-z_]+\s*=/.test(line));
}

/** Needs apt-get and dpkg-deb; downloads into a temporary folder that is removed at the end. */
export function refreshDebianCrontabs(): void {
  const folder = mkdtempSync(join(tmpdir(), 'carillon-debian-'));
  try {
    execFileSync('apt-get', ['download', '-qq', ...PACKAGES], { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] });
    const list: DebianCrontab[] = [];
    for (const name of readdirSync(folder).sort()) {
      const archive = join(folder, name);
      const field = (key: string): string =>
        execFileSync('dpkg-deb', ['-f', archive, key], { encoding: 'utf8' }).trim();
      const unpacked = join(folder, `${name}.d`);
      execFileSync('dpkg-deb', ['-x', archive, unpacked]);
      const cron = join(unpacked, 'etc', 'cron.d');
      for (const file of readdirSync(cron)
        .filter((entry) => !entry.startsWith('.'))
        .sort()) {
        const lines = scheduleLines(readFileSync(join(cron, file), 'utf8'));
        if (lines.length > 0) {
          list.push({ package: field('Package'), version: field('Version'), file: `/etc/cron.d/${file}`, lines });
        }
      }
    }
    writeFileSync(LIST, `${JSON.stringify(list, null, 2)}\n`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) refreshDebianCrontabs();
